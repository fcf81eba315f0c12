package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// TestConstantTimesToFirstToken: 40 minutes of test records, whose time to the first token is the same for all lengths,
// say nothing about the prefill rate. It is learned from the real traffic after them.
func TestConstantTimesToFirstToken(t *testing.T) {
	const rate, overhead = 8000, .2
	p, rng := New(eventConfig(t, "p")), rand.New(rand.NewPCG(1, 1))
	var learned capacity.Estimate
	for m := range 400 {
		start := midnight.Add(time.Duration(m) * time.Minute)
		b := ingest.Batch{
			Replicas:  []ingest.Replica{{Pool: "p", Name: "r", At: start.Add(50 * time.Second), KVCapacityTokens: 100_000, KVUsedTokens: ingest.Unknown}},
			Watermark: &ingest.Watermark{Pool: "p", At: start.Add(time.Minute)},
		}
		n, mean, real := 30, 500.0, m >= 40
		if real {
			n, mean = []int{35, 200}[m%2], 900
		}
		for i := range n {
			r := ingest.Request{
				ID: fmt.Sprint(m, "-", i), Pool: "p", Attempt: 1, PromptTokens: 1 + int64(2*mean*rng.Float64()), OutputTokens: 20, MaxOutputTokens: ingest.Unknown,
				ArrivedAt: start.Add(time.Duration(rng.Float64() * float64(time.Minute))),
			}
			ttft := .5
			if real {
				ttft = overhead + float64(r.PromptTokens)/(rate-float64(n)*mean/60)
			}
			r.FirstTokenAt = r.ArrivedAt.Add(time.Duration(ttft * float64(time.Second)))
			r.FinishedAt = r.FirstTokenAt.Add(400 * time.Millisecond)
			b.Requests = append(b.Requests, r)
		}
		p.Apply(&b, func(o *Output) {
			for i := range o.Pools {
				learned = o.Pools[i].Trusted.Prefill.Learned
			}
		})
	}
	if learned.Value < .9*rate || learned.Value > 1.1*rate {
		t.Errorf("learned %+v, want about %d", learned, rate)
	}
}
