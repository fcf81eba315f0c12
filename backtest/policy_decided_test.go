package backtest

import (
	"slices"
	"testing"
)

// TestOtherForecasts: Forewarm's decision on other forecasts does not see the future unless it says so, and costs
// less when it does.
func TestOtherForecasts(t *testing.T) {
	need := bumpyDemand(1)[:day]
	const known = 900 // minutes after which another future comes
	other := slices.Clone(need)
	slices.Reverse(other[known:])
	for _, spec := range Policies {
		if !spec.Study || spec.Clairvoyant {
			continue
		}
		answers := func(need []float64) (all []int) {
			fluidRun(t, need, 1, func(s Scene) Policy {
				return recording{spec.New(s, Setting{.9}), &all}
			})
			return all
		}
		a, b := answers(need), answers(other)
		if !slices.Equal(a[:known-1], b[:known-1]) {
			t.Errorf("%s answers otherwise before another future", spec.Name)
		}
	}
	run := func(point expectation) Account {
		return fluidRun(t, need, 1, func(s Scene) Policy { return newDecided("d", point)(s, Setting{.9}) })
	}
	cost := func(a Account) float64 { return a.GPUHours + float64(a.Saturated) } // a saturated minute for a replica's hour
	if last, perfect := cost(run(pointLast)), cost(run(pointPerfect)); perfect >= last {
		t.Errorf("who knows the demand pays %.0f, who knows the last value %.0f", perfect, last)
	}
}

// recording keeps a policy's answers.
type recording struct {
	Policy
	all *[]int
}

func (r recording) Desired(o Observation) int {
	n := r.Policy.Desired(o)
	*r.all = append(*r.all, n)
	return n
}
