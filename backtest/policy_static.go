package backtest

import "math"

// static keeps a share of the peak. On the curve of the scored part it knows the level of that part. So it is stronger
// than a real static setup, except on flat demand.
type static int

func newStatic(s Scene, set Setting) Policy {
	return static(math.Ceil(set[0]*float64(s.PeakReplicas) - 1e-9))
}

func (n static) Desired(Observation) int { return int(n) }
