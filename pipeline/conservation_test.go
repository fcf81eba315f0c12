package pipeline

import (
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// totals are sums over the records of a log.
type totals struct {
	calls, prompt, output float64
}

// counter computes the expected sums of a log from its records.
type counter struct {
	calls    map[string]int        // the attempt that counts for a call
	prompted map[string]bool       // attempts whose prompt was reported
	want     totals                // what windows must have
	held     map[time.Time]float64 // token-seconds in each minute, from samples of each request ten times a second
	records  map[ingest.Reason]int // by reason of refusal, empty if accepted
}

// add counts a record, given its refusal, if any, and the first minute that was open when it came.
func (w *counter) add(r *ingest.Request, refused ingest.Reason, oldest time.Time) {
	w.records[refused]++
	if refused != "" && refused != ingest.ReasonLate {
		return
	}
	call := r.Pool + " " + r.ID
	attempt := call + string(rune('0'+r.Attempt))
	if _, known := w.calls[call]; !known {
		w.calls[call] = r.Attempt
		if refused == "" {
			w.want.calls++
		}
	}
	counts := w.calls[call] == r.Attempt
	if refused == "" && !w.prompted[attempt] && counts {
		w.want.prompt += float64(r.PromptTokens)
	}
	w.prompted[attempt] = true
	if r.OutputTokens < 0 { // an arrival, or a request that was not served
		return
	}
	decode := r.FinishedAt.Sub(r.FirstTokenAt).Seconds()
	if counts {
		share := 1. // generated in open minutes
		if refused == ingest.ReasonLate {
			share = min(max(r.FinishedAt.Sub(oldest).Seconds()/decode, 0), 1)
		}
		w.want.output += share * float64(r.OutputTokens)
	}
	const perSecond = 10
	step := time.Second / perSecond
	for at := r.StartedAt.Truncate(step).Add(step / 2); at.Before(r.FinishedAt); at = at.Add(step) {
		if at.Before(r.StartedAt) {
			continue
		}
		tokens := float64(r.PromptTokens)
		if at.After(r.FirstTokenAt) {
			tokens += float64(r.OutputTokens) * at.Sub(r.FirstTokenAt).Seconds() / decode
		}
		if minute := at.Truncate(time.Minute); !minute.Before(oldest) {
			w.held[minute] += tokens / perSecond
		}
	}
}

// TestSumsOfMixedLog: the windows of a mixedLog have the calls and tokens of its records, each once, and in each minute
// the KV cache that the requests held. Of late records they have what was served in minutes that were open. Each record
// is counted or refused.
func TestSumsOfMixedLog(t *testing.T) {
	for _, clock := range []Clock{WallClock, EventClock} {
		t.Run(string(clock), func(t *testing.T) { checkSums(t, mixedConfig(t, clock)) })
	}
}

func checkSums(t *testing.T, cfg Config) {
	p, w := New(cfg), &counter{calls: map[string]int{}, prompted: map[string]bool{}, held: map[time.Time]float64{}, records: map[ingest.Reason]int{}}
	var got totals
	area := map[time.Time]float64{}
	emit := func(o *Output) {
		for i := range o.Windows {
			x := &o.Windows[i]
			if !x.Settled || x.Class == "offline" {
				continue
			}
			got.calls += x.Requests
			got.prompt += x.PromptTokens
			got.output += x.OutputTokens - x.OutputRetried
			area[x.Start] += x.KVTokenSeconds
			if x.KVModelled != 0 {
				t.Fatalf("%s: KV is modelled although all times are known", x.Start)
			}
		}
	}
	log := mixedLog(11, 60)
	last := log[len(log)-1].ReceivedAt
	for m := range 20 { // until all minutes have settled
		at := last.Truncate(time.Minute).Add(time.Duration(m) * time.Minute)
		log = append(log, ingest.Batch{ReceivedAt: at.Add(11 * time.Second), Watermark: &ingest.Watermark{At: at}})
	}
	sent := 0
	for _, b := range log {
		if len(b.Requests) == 0 {
			p.Apply(&b, emit)
			continue
		}
		r := b.Requests[0] // a copy, because Apply changes the record
		b.Requests = []ingest.Request{r}
		sent++
		p.Apply(&b, emit)
		refused := ingest.Reason("")
		if len(b.Refused) > 0 {
			refused = b.Refused[0].Reason
		}
		w.add(&r, refused, p.LastTick().Add(-cfg.Features.Revise))
	}

	counters := p.Counters()
	others := 0 // counted records that are not requests
	for _, b := range log {
		others += len(b.Sums) + len(b.Replicas) + len(b.Acks)
	}
	others -= int(counters.Refused[ingest.ReasonUnknownEvent]) // acknowledgements: no event is published here
	if n := int(counters.Records) - others; n != w.records[""] {
		t.Errorf("%d requests are counted, %d were not refused", n, w.records[""])
	}
	for reason, n := range w.records {
		sent -= n
		if reason != "" && counters.Refused[reason] != uint64(n) {
			t.Errorf("%d refused as %s, %d of them are counted", n, reason, counters.Refused[reason])
		}
	}
	if sent != 0 || w.records[ingest.ReasonLate] == 0 || w.records[ingest.ReasonDuplicate] == 0 {
		t.Errorf("%d records are neither counted nor refused, or none is late or a duplicate: %v", sent, w.records)
	}
	for name, x := range map[string][2]float64{
		"calls": {got.calls, w.want.calls}, "prompt tokens": {got.prompt, w.want.prompt}, "output tokens": {got.output, w.want.output},
	} {
		if math.Abs(x[0]-x[1]) > 1e-9*x[1] {
			t.Errorf("%s: windows have %g, the records %g", name, x[0], x[1])
		}
	}
	var sum, off float64
	for minute, want := range w.held {
		sum += want
		off += math.Abs(area[minute] - want)
		if math.Abs(area[minute]-want) > .01*want+500 { // a tenth of a second of the largest requests
			t.Errorf("%s: %g token-seconds in the windows, want %g", minute.Format("15:04"), area[minute], want)
		}
	}
	t.Logf("%d records, %.0f calls, %.3g token-seconds: minutes are off by %.4f %%", len(log), got.calls, sum, 100*off/sum)
}
