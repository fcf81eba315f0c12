package backtest

import "math"

// static keeps a share of the peak.
type static int

func newStatic(s Scene, set Setting) Policy {
	return static(math.Ceil(set[0]*float64(s.PeakReplicas) - 1e-9))
}

func (static) Name() string              { return "static_peak" }
func (n static) Desired(Observation) int { return int(n) }
