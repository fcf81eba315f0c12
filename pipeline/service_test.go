package pipeline

import (
	"math"
	"testing"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

func TestLimitsOf(t *testing.T) {
	p := capacity.Pool{Config: capacity.Config{Limits: capacity.Limits{RequestsPerMin: 600}}}
	if l := limitsOf(&p); l[0].PerS != 10 || l[1].PerS != 0 {
		t.Errorf("%+v", l)
	}
}

// minuteOfService is the service of replicas with requests of 1000 prompt tokens, and outputs at 50 tokens a second.
func minuteOfService(replicas int, pool *capacity.Pool) capacity.ServiceMinute {
	w := features.Window{OutputTokens: 6000, KVTokenSeconds: 60_000, PromptTokens: 12_000}
	s := &features.Served{Output: 6000, Decoded: 6000, DecodeSeconds: 120, PromptSeconds: 24_000}
	s.Prefills.Add(1000, .5)
	return serviceMinute(pool, &features.PoolMinute{Steady: replicas, Served: s}, []features.Window{w})
}

// TestServiceMinuteOfDisaggregatedPool: if prefill replicas are separate, a service minute has no prefill, because
// their number is not known. The rest is as in other pools.
func TestServiceMinuteOfDisaggregatedPool(t *testing.T) {
	together, separate := minuteOfService(2, &capacity.Pool{}), minuteOfService(2, &capacity.Pool{Disaggregated: true})
	if together.Prefill != 100 || together.Prompts.N != 1 {
		t.Errorf("replicas that do both: %+v", together)
	}
	if separate.Prefill != 0 || separate.Prompts.N != 0 || separate.Decoding != together.Decoding || separate.KV != together.KV {
		t.Errorf("separate prefill replicas: %+v, want all but prefill of %+v", separate, together)
	}
}

// TestContextWithoutPrompts: the context of decoding sequences excludes what prompts held before the first token.
func TestContextWithoutPrompts(t *testing.T) {
	if got := minuteOfService(1, &capacity.Pool{}); math.Abs(got.Context*got.Decoding*60-36_000) > 1 {
		t.Errorf("a context of %g tokens of %g sequences, want 36,000 token-seconds: prompts held 24,000 of 60,000", got.Context, got.Decoding)
	}
}
