package daemon

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
)

const badInputPool = "  - {name: chat, decode_tokens_per_s: 400, replicas: {max: 4}}"

var badInputStart = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// request is a valid record of the current minute. The changes are pairs of old and new text.
func request(id string, changes ...string) string {
	r := fmt.Sprintf(`{"id":"%s","arrived_at":%d,"prompt_tokens":100,"output_tokens":20}`, id, badInputStart.UnixMilli())
	return strings.NewReplacer(changes...).Replace(r)
}

// badInput is one kind of invalid input. message makes the n-th message of this kind.
type badInput struct {
	name    string
	reason  ingest.Reason
	subject string // "" is the subject of the pool
	batch   bool   // NDJSON, with valid records and the bad one
	valid   int    // number of valid records in it
	message func(n int) string
}

var badInputs = []badInput{
	{name: "not JSON", reason: ingest.ReasonNotJSON, message: func(n int) string { return fmt.Sprint("<request>the secret", n, "</request>") }},
	{name: "wrong type", reason: ingest.ReasonWrongType, message: func(n int) string { return request(fmt.Sprint("wt", n), `:100`, `:"many"`) }},
	{name: "negative count", reason: ingest.ReasonNegativeCount, message: func(n int) string { return request(fmt.Sprint("neg", n), `:20`, `:-20`) }},
	{name: "huge count", reason: ingest.ReasonHugeCount, message: func(n int) string { return request(fmt.Sprint("huge", n), `:20`, `:1e300`) }},
	{name: "10 MB", reason: ingest.ReasonTooLarge, message: func(int) string { return request(strings.Repeat("x", 10<<20)) }},
	{name: "future", reason: ingest.ReasonFuture, message: func(n int) string {
		return request(fmt.Sprint("future", n), fmt.Sprint(badInputStart.UnixMilli()), fmt.Sprint(badInputStart.AddDate(1, 0, n).UnixMilli()))
	}},
	{name: "far past", reason: ingest.ReasonLate, message: func(n int) string {
		return request(fmt.Sprint("past", n), fmt.Sprint(badInputStart.UnixMilli()), fmt.Sprint(badInputStart.AddDate(-20, 0, -n%100).UnixMilli()))
	}},
	{name: "before 2000", reason: ingest.ReasonBadTime, message: func(n int) string {
		return request(fmt.Sprint("zero", n), fmt.Sprint(badInputStart.UnixMilli()), fmt.Sprint(n))
	}},
	{name: "unknown pool", reason: ingest.ReasonUnknownPool, subject: "forewarm.telemetry.request.nobody.talk",
		message: func(n int) string { return request(fmt.Sprint("pool", n)) }},
	{name: "duplicate", reason: ingest.ReasonDuplicate, message: func(int) string { return request("valid") }},
	{name: "truncated batch", reason: ingest.ReasonTruncated, batch: true, valid: 2, message: func(n int) string {
		cut := request(fmt.Sprint("cut", n))
		return request(fmt.Sprint("whole", n)) + "\n" + request(fmt.Sprint("too", n)) + "\n" + cut[:len(cut)/2]
	}},
	{name: "deep nesting", reason: ingest.ReasonTooDeep, message: func(n int) string {
		return request(fmt.Sprint("deep", n), `}`, `,"messages":["the secret",`+strings.Repeat("[", 50_000)+strings.Repeat("]", 50_000)+`]}`)
	}},
	{name: "invalid UTF-8", reason: ingest.ReasonInvalidUTF8, message: func(n int) string { return request(fmt.Sprint("\xff\xfe", n)) }},
}

func (in *badInput) publish(t *testing.T, p *inProcess, n int) {
	t.Helper()
	var headers []string
	if in.batch {
		headers = []string{"Content-Type", "application/x-ndjson"}
	}
	p.publish(t, cmp.Or(in.subject, "forewarm.telemetry.request.chat.talk"), []byte(in.message(n)), headers...)
}

func refused(t *testing.T, p *inProcess, reason ingest.Reason) int {
	t.Helper()
	return int(testenv.Metric(t, p.base, `forewarm_ingest_refused_total{reason="`+string(reason)+`"}`))
}

// TestBadInput mixes every kind of bad input with valid records. Each bad input is counted by its reason, and published
// on the dead-letter subject, except duplicates. Each valid record counts.
func TestBadInput(t *testing.T) {
	t.Parallel()
	p := startDaemon(t, "clock: event", "pools:", badInputPool)
	letters := testenv.Subscribe(t, p.conn, "forewarm.deadletter")
	const rounds = 3
	valid := 0
	good := func(id string) {
		valid++
		p.publish(t, "forewarm.telemetry.request.chat.talk", []byte(request(id)))
	}
	good("valid")
	want, wantLetters := map[ingest.Reason]int{}, map[ingest.Reason]int{}
	for n := range rounds {
		for i := range badInputs {
			in := &badInputs[i]
			in.publish(t, p, n)
			good(fmt.Sprintf("good-%d-%d", n, i))
			valid += in.valid
			if want[in.reason]++; in.reason != ingest.ReasonDuplicate {
				wantLetters[in.reason]++
			}
		}
		p.settle(t)
	}
	got := map[ingest.Reason]int{}
	for _, reason := range ingest.Reasons {
		if n := refused(t, p, reason); n > 0 {
			got[reason] = n
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("refused, by reason (-want +got):\n%s", diff)
	}
	if n := int(testenv.Metric(t, p.base, "forewarm_ingest_records_total")); n != valid {
		t.Errorf("%d records were counted, want all %d valid ones", n, valid)
	}
	gotLetters := map[ingest.Reason]int{}
	for m := range testenv.Messages(letters) {
		gotLetters[ingest.Reason(m.Header.Get(jetstream.HeaderReason))]++
		if m.Header.Get(jetstream.HeaderDetail) == "" || m.Header.Get(jetstream.HeaderSequence) == "" || len(m.Data) > 0 {
			t.Errorf("dead letter with headers %v and %d bytes", m.Header, len(m.Data))
		}
	}
	if diff := gocmp.Diff(wantLetters, gotLetters); diff != "" {
		t.Errorf("dead letters, by reason (-want +got):\n%s", diff)
	}
}

// TestHostileFlood sends 14,000 bad messages. Memory does not grow, and all are counted.
func TestHostileFlood(t *testing.T) {
	p := startDaemon(t, "clock: event", "pools:", badInputPool)
	flood := []badInput{{name: "new class each time", reason: "", message: func(n int) string {
		return request(fmt.Sprint("class", n), `{`, fmt.Sprintf(`{"class":"c%d","tenant":"t%d",`, n, n))
	}}}
	for _, in := range badInputs {
		switch in.reason {
		case ingest.ReasonTooLarge, ingest.ReasonTooDeep: // too slow to send
		case ingest.ReasonFuture: // many in a row move the clock, see below
		default:
			flood = append(flood, in)
		}
	}
	sent := map[ingest.Reason]int{}
	send := func(from, to int) {
		for n := from; n < to; n++ {
			in := &flood[n%len(flood)]
			in.publish(t, p, n)
			sent[in.reason]++
			if n%500 == 499 {
				p.settle(t)
			}
		}
		p.settle(t)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	p.publish(t, "forewarm.telemetry.request.chat.talk", []byte(request("valid")))
	const warm, total, growth = 4_000, 14_000, 8 << 20
	send(0, warm)
	before := heap()
	send(warm, total)
	testenv.Await(t, fmt.Sprintf("memory to be within %d MiB of %d MiB", growth>>20, before>>20), func() bool { return heap() < before+growth })
	got := map[ingest.Reason]int{}
	for reason := range maps.Keys(sent) {
		if reason != "" {
			got[reason] = refused(t, p, reason)
		}
	}
	delete(sent, "")
	if diff := gocmp.Diff(sent, got); diff != "" {
		t.Errorf("refused, by reason (-sent +counted):\n%s", diff)
	}

	// Sixteen records of another century in a row move the event clock, because a trace may have a gap. The daemon must
	// not make a tick for each minute of the gap.
	for n := range 20 {
		at := badInputStart.AddDate(100, 0, 0).UnixMilli()
		p.publish(t, "forewarm.telemetry.request.chat.talk", bytes.Replace([]byte(request(fmt.Sprint("century", n))),
			fmt.Append(nil, badInputStart.UnixMilli()), fmt.Append(nil, at), 1))
	}
	p.settle(t)
	if at, want := p.Status().Tick.Year(), badInputStart.Year()+100; at != want {
		t.Errorf("the clock is in the year %d, want %d", at, want)
	}
}
