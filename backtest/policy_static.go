package backtest

import "math"

// static keeps a share of the peak. Where its share is read off a curve of the scored part, it knows the level there: a rival
// that is stronger than what an operator can set up, but on flat demand.
type static int

func newStatic(s Scene, set Setting) Policy {
	return static(math.Ceil(set[0]*float64(s.PeakReplicas) - 1e-9))
}

func (n static) Desired(Observation) int { return int(n) }
