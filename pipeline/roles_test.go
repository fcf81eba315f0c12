package pipeline

import (
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// TestDisaggregatedPool: decisions for a disaggregated pool size its prefill replicas, with their reserve, apart from
// those that decode.
func TestDisaggregatedPool(t *testing.T) {
	pool, err := capacity.New(capacity.Config{
		Name: "p", PrefillTokensPerS: 1000, PrefillTarget: 1, DecodeTokensPerS: 1000, Replicas: capacity.Replicas{Min: 1, Max: 9}, Reserves: capacity.Reserves{Failure: 1},
		Disaggregated: capacity.Disaggregated{PrefillReplicas: capacity.Replicas{Min: 1, Max: 20}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Clock, cfg.Features.Lateness, cfg.Features.Revise = EventClock, 0, 0
	cfg.Pools, cfg.Decision.Mode = []capacity.Pool{pool}, alerting.Active
	var d alerting.Decision
	p := New(cfg)
	for m := range 90 {
		now := midnight.Add(time.Duration(m) * time.Minute)
		// 5000 prompt tokens/s, half of them cached, and 500 output tokens/s.
		p.Apply(&ingest.Batch{
			Sums:      []ingest.Sum{{Pool: "p", Class: "chat", Start: now, Requests: 60, PromptTokens: 300_000, CachedTokens: 150_000, OutputTokens: 30_000}},
			Watermark: &ingest.Watermark{Pool: "p", At: now.Add(time.Minute)},
		}, func(o *Output) {
			for i := range o.Pools {
				d = *o.Pools[i].Decision
				if x := o.Pools[i].Projection.Prompts; x == nil || x.Reserve != 1 || m > 60 && x.Binding != capacity.Prefill {
					t.Fatalf("projection of prefill: %+v", x)
				}
			}
		})
	}
	// 2500 tokens/s to compute need three prefill replicas, and one more is the reserve.
	if d.ByRole == nil || d.Prompts[0].NeedReplicas != 3 || d.ByRole.Prefill < 4 || d.ByRole.Prefill > 5 || d.Desired != 2 || d.Prompts[0].PerReplica != 1000 {
		t.Errorf("%d decode, %+v, %+v; %v", d.Desired, d.ByRole, d.Prompts, d.Warnings)
	}
}
