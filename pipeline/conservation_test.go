package pipeline

import (
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// totals are what came of a log, pool by pool, as somebody who sees only the records would add it up.
type totals struct {
	calls, prompt, output float64
}

// witness reads the records of a log as they are applied, and counts for himself.
type witness struct {
	began    map[string]bool       // attempts, by pool, id and number
	calls    map[string]int        // which attempt counts for a call
	prompted map[string]bool       // attempts whose prompt was reported
	owed     totals                // of calls, that windows must hold
	held     map[time.Time]float64 // token-seconds in each minute, by looking at each request ten times a second
	records  map[ingest.Reason]int // by what became of them
}

func newWitness() *witness {
	return &witness{began: map[string]bool{}, calls: map[string]int{}, prompted: map[string]bool{}, held: map[time.Time]float64{}, records: map[ingest.Reason]int{}}
}

// see takes a record, what became of it, and the first minute that was open when it came.
func (w *witness) see(r *ingest.Request, became ingest.Reason, oldest time.Time) {
	w.records[became]++
	if became != "" && became != ingest.ReasonLate {
		return
	}
	call := r.Pool + " " + r.ID
	attempt := call + string(rune('0'+r.Attempt))
	if _, known := w.calls[call]; !known {
		w.calls[call] = r.Attempt
		if became == "" {
			w.owed.calls++
		}
	}
	counts := w.calls[call] == r.Attempt
	if became == "" && !w.prompted[attempt] && counts {
		w.owed.prompt += float64(r.PromptTokens)
	}
	w.prompted[attempt] = true
	if r.OutputTokens < 0 { // an arrival, or never served
		return
	}
	decode := r.FinishedAt.Sub(r.FirstTokenAt).Seconds()
	if counts {
		share := 1. // generated in open minutes
		if became == ingest.ReasonLate {
			share = min(max(r.FinishedAt.Sub(oldest).Seconds()/decode, 0), 1)
		}
		w.owed.output += share * float64(r.OutputTokens)
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

// TestMixedLogAddsUp: of a log in which everything happens, the windows of a Pipeline hold what the records say, each
// once: calls, tokens, and in each minute the KV cache, by looking at every request ten times a second. Of late records
// they hold what was served in minutes that were open. And each record was counted, came late or was refused.
func TestMixedLogAddsUp(t *testing.T) {
	for _, clock := range []Clock{WallClock, EventClock} {
		t.Run(string(clock), func(t *testing.T) { addsUp(t, mixedConfig(t, clock)) })
	}
}

func addsUp(t *testing.T, cfg Config) {
	cfg.Every = time.Hour // forecasts are not looked at
	p, w := New(cfg), newWitness()
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
				t.Fatalf("%s: KV modelled, though all times are known", x.Start)
			}
		}
	}
	log := mixedLog(11, 60)
	last := log[len(log)-1].ReceivedAt
	for m := range 20 { // until all has settled
		at := last.Truncate(time.Minute).Add(time.Duration(m) * time.Minute)
		log = append(log, ingest.Batch{ReceivedAt: at.Add(11 * time.Second), Watermark: &ingest.Watermark{At: at}})
	}
	sent := 0
	for _, b := range log {
		if len(b.Requests) == 0 {
			p.Apply(&b, emit)
			continue
		}
		r := b.Requests[0] // before the fold completes it
		b.Requests = []ingest.Request{r}
		sent++
		p.Apply(&b, emit)
		became := ingest.Reason("")
		if len(b.Refused) > 0 {
			became = b.Refused[0].Reason
		}
		w.see(&r, became, p.LastTick().Add(-cfg.Features.Revise))
	}

	counters := p.Counters()
	others := 0 // that are no requests, and were counted
	for _, b := range log {
		others += len(b.Sums) + len(b.Replicas) + len(b.Acks)
	}
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
		t.Errorf("%d records are nowhere: %v", sent, w.records)
	}
	for name, x := range map[string][2]float64{
		"calls": {got.calls, w.owed.calls}, "prompt tokens": {got.prompt, w.owed.prompt}, "output tokens": {got.output, w.owed.output},
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
			t.Errorf("%s: %g token-seconds in the windows, counted %g", minute.Format("15:04"), area[minute], want)
		}
	}
	t.Logf("%d records, %.0f calls, %.3g token-seconds: minutes are off by %.4f %%", len(log), got.calls, sum, 100*off/sum)
}
