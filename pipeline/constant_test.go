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

// TestScaleToZero: a pool with traffic in the daytime needs no replica at night, and nobody gets an alert for the
// thousandth of a request that a model still expects.
func TestScaleToZero(t *testing.T) {
	cfg := eventConfig(t, "p")
	cfg.Pools[0].Replicas = capacity.Replicas{Max: 30} // somebody else took it to zero
	p, draw := New(cfg), rand.New(rand.NewPCG(1, 2))
	day, night := false, 0
	for m := range 2 * 1440 {
		at := midnight.Add(time.Duration(m) * time.Minute)
		b := ingest.Batch{Watermark: &ingest.Watermark{Pool: "p", At: at.Add(time.Minute)}}
		if 8 <= at.Hour() && at.Hour() < 20 {
			n := float64(20 + draw.IntN(20))
			b.Sums = []ingest.Sum{{Pool: "p", Start: at, Requests: n, PromptTokens: 1000 * n, CachedTokens: 0, OutputTokens: 200 * n}}
		}
		p.Apply(&b, func(o *Output) {
			switch d := o.Decisions()[0]; {
			case at.Hour() == 12:
				day = day || d.Desired > 0
			case m > 24*60 && (at.Hour() >= 22 || at.Hour() < 7):
				if night++; d.Desired > 0 || len(o.Alerts) > 0 {
					t.Errorf("%s: %d replicas desired, %d alerts: %s", o.Tick.Format("15:04"), d.Desired, len(o.Alerts), d.Reason)
				}
			}
		})
	}
	if !day || night < 500 {
		t.Errorf("a replica by day: %v, %d minutes at night", day, night)
	}
}
