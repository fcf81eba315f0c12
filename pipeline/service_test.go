package pipeline

import (
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// TestReadyMinutes: the replicas of a minute are known only if the same number was ready at its start and at its end.
func TestReadyMinutes(t *testing.T) {
	var r readyMinutes
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	for _, x := range [][2]int{{0, 3}, {1, 3}, {2, 4}, {3, 4}, {5, 4}, {6, 0}, {7, 0}, {70, 5}, {71, 5}} {
		r.add(at(x[0]), x[1])
		switch x[0] {
		case 7:
			for minute, want := range []float64{3, 0, 4, 0, 0, 0, 0, 0} {
				if got := r.throughout(at(minute)); got != want {
					t.Errorf("minute %d: %g replicas, want %g", minute, got, want)
				}
			}
		case 71:
			for minute, want := range map[int]float64{6: 0, 66: 0, 69: 0, 70: 5, 71: 0, 200: 0} {
				if got := r.throughout(at(minute)); got != want {
					t.Errorf("later, minute %d: %g replicas, want %g", minute, got, want)
				}
			}
		}
	}
}

func TestLimitsOf(t *testing.T) {
	p := capacity.Pool{Config: capacity.Config{Limits: capacity.Limits{RequestsPerMin: 600}}}
	if l := limitsOf(&p); l[0].PerS != 10 || l[1].PerS != 0 {
		t.Errorf("%+v", l)
	}
}

// TestServiceMinuteOfDisaggregatedPool: if prefill replicas are separate, a service minute has no prefill, because
// their number is not known. The rest is as in other pools.
func TestServiceMinuteOfDisaggregatedPool(t *testing.T) {
	w := features.Window{OutputTokens: 6000, KVTokenSeconds: 60_000, PromptTokens: 12_000}
	w.ITL.Add(.02)
	w.Prefills.Add(1000, .5)
	windows := []features.Window{w}
	together, separate := serviceMinute(windows, 2, false), serviceMinute(windows, 2, true)
	if together.Prefill != 100 || together.Prompts.N != 1 {
		t.Errorf("replicas that do both: %+v", together)
	}
	if separate.Prefill != 0 || separate.Prompts.N != 0 || separate.Decoding != together.Decoding || separate.KV != together.KV {
		t.Errorf("separate prefill replicas: %+v, want all but prefill of %+v", separate, together)
	}
}

// TestContextWithoutStarts: if producers do not report when a request left the queue, its prompt counts from its
// arrival on, and the context of decoding sequences excludes that time.
func TestContextWithoutStarts(t *testing.T) {
	w := features.Window{OutputTokens: 6000, KVTokenSeconds: 60_000, PromptTokens: 12_000}
	w.ITL.Add(.02)
	w.TTFT.Add(2)
	if got := serviceMinute([]features.Window{w}, 1, false); math.Abs(got.Context*got.Decoding*60-36_000) > 1 {
		t.Errorf("a context of %g tokens of %g sequences, want 36,000 token-seconds: prompts held 24,000 of 60,000", got.Context, got.Decoding)
	}
}
