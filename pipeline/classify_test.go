package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// TestClassify: rules give requests a class. The record at the end of a request gets the class of the one at its
// arrival.
func TestClassify(t *testing.T) {
	cfg := eventConfig(t, "p")
	cfg.Classify = features.ClassifyConfig{Rules: []features.Rule{{Class: "batch", Tier: []string{"batch"}}, {Class: "long", PromptMin: 1 << 12}, {Class: "short"}}}
	p, rng := New(cfg), rand.New(rand.NewPCG(1, 1))
	requests, outputs := map[string]float64{}, map[string]float64{}
	emit := func(o *Output) {
		for i := range o.Windows {
			if w := &o.Windows[i]; w.Settled && o.Tick.After(midnight.Add(5*time.Hour)) {
				requests[w.Class] += w.Requests
				outputs[w.Class] += w.KVKnown
			}
		}
	}
	for m := range 6 * 60 {
		start := midnight.Add(time.Duration(m) * time.Minute)
		b := ingest.Batch{Sequence: uint64(m + 1), Watermark: &ingest.Watermark{Pool: "p", At: start.Add(time.Minute)}}
		for i := range 12 {
			prompt, output := 9+.7*rng.NormFloat64(), 8+rng.NormFloat64()
			if i%3 == 0 {
				prompt, output = 14+.7*rng.NormFloat64(), 5+rng.NormFloat64()
			}
			r := ingest.Request{
				ID: fmt.Sprint(m, "/", i), Pool: "p", Phase: ingest.PhaseArrived, Attempt: 1, ArrivedAt: start.Add(time.Duration(i) * time.Second),
				PromptTokens: int64(math.Exp2(prompt)), CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
			}
			if i == 11 {
				r.Tier = "batch"
			}
			end := r
			end.Phase, end.FinishedAt, end.OutputTokens = ingest.PhaseFinished, r.ArrivedAt.Add(20*time.Second), int64(math.Exp2(output))
			b.Requests = append(b.Requests, r, end)
		}
		p.Apply(&b, emit)
	}
	if len(requests) != 3 || requests["batch"] == 0 || math.Abs(requests["long"]/requests["short"]-4.0/7) > .05 {
		t.Errorf("requests by class: %v, want batch, and short to long as 7 to 4", requests)
	}
	for class, n := range requests {
		if outputs[class] != n {
			t.Errorf("class %s has %v requests, and %v outputs", class, n, outputs[class])
		}
	}
}
