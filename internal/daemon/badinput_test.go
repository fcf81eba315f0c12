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

// request is one valid record of the minute that is open in these tests, changed by pairs of old and new text.
func request(id string, changes ...string) string {
	r := fmt.Sprintf(`{"id":"%s","arrived_at":%d,"prompt_tokens":100,"output_tokens":20}`, id, badInputStart.UnixMilli())
	return strings.NewReplacer(changes...).Replace(r)
}

// badInput is one kind of input that nobody should send. message makes the n-th of its kind.
type badInput struct {
	name    string
	reason  ingest.Reason
	subject string // "" is that of the pool
	batch   bool   // NDJSON, with sound records beside the bad one
	sound   int    // records in it that count all the same
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
	{name: "before time", reason: ingest.ReasonBadTime, message: func(n int) string {
		return request(fmt.Sprint("zero", n), fmt.Sprint(badInputStart.UnixMilli()), fmt.Sprint(n))
	}},
	{name: "unknown pool", reason: ingest.ReasonUnknownPool, subject: "forewarm.telemetry.request.nobody.talk",
		message: func(n int) string { return request(fmt.Sprint("pool", n)) }},
	{name: "duplicate", reason: ingest.ReasonDuplicate, message: func(int) string { return request("sound") }},
	{name: "truncated batch", reason: ingest.ReasonTruncated, batch: true, sound: 2, message: func(n int) string {
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

// TestBadInput mixes every kind of bad input with valid records. Each is counted by its reason and, unless it is a
// duplicate, put on the dead-letter subject; every valid record counts.
func TestBadInput(t *testing.T) {
	t.Parallel()
	p := startDaemon(t, "clock: event", "pools:", badInputPool)
	letters := testenv.Subscribe(t, p.conn, "forewarm.deadletter")
	const rounds = 3
	sound := 0
	good := func(id string) {
		sound++
		p.publish(t, "forewarm.telemetry.request.chat.talk", []byte(request(id)))
	}
	good("sound")
	want, wantLetters := map[ingest.Reason]int{}, map[ingest.Reason]int{}
	for n := range rounds {
		for i := range badInputs {
			in := &badInputs[i]
			in.publish(t, p, n)
			good(fmt.Sprintf("good-%d-%d", n, i))
			sound += in.sound
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
	if n := int(testenv.Metric(t, p.base, "forewarm_ingest_records_total")); n != sound {
		t.Errorf("%d records were counted, want all %d sound ones", n, sound)
	}
	gotLetters := map[ingest.Reason]int{}
	for m := range testenv.Next(letters) {
		gotLetters[ingest.Reason(m.Header.Get(jetstream.HeaderReason))]++
		if m.Header.Get(jetstream.HeaderDetail) == "" || m.Header.Get(jetstream.HeaderSequence) == "" || len(m.Data) > 0 {
			t.Errorf("letter with headers %v and %d bytes", m.Header, len(m.Data))
		}
	}
	if diff := gocmp.Diff(wantLetters, gotLetters); diff != "" {
		t.Errorf("dead letters, by reason (-want +got):\n%s", diff)
	}
}

// TestHostileFlood sends twenty thousand bad messages: none stays in memory, and a valid record counts as before.
func TestHostileFlood(t *testing.T) {
	p := startDaemon(t, "clock: event", "pools:", badInputPool)
	flood := []badInput{{name: "new class each time", reason: "", message: func(n int) string {
		return request(fmt.Sprint("class", n), `{`, fmt.Sprintf(`{"class":"c%d","tenant":"t%d",`, n, n))
	}}}
	for _, in := range badInputs {
		switch in.reason {
		case ingest.ReasonTooLarge, ingest.ReasonTooDeep: // measures the speed of the loopback
		case ingest.ReasonFuture: // that many in a row are believed, see below
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
	p.publish(t, "forewarm.telemetry.request.chat.talk", []byte(request("sound")))
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

	// Sixteen records of another century in a row move the event clock, for a trace may have a hole. It must not tick
	// through every minute of it.
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
