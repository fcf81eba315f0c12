package backtest

import "math"

// hpa has the rules of the Kubernetes Horizontal Pod Autoscaler (kubernetes.io, "Horizontal Pod Autoscaling",
// "Algorithm details" and "Configurable scaling behavior"). KEDA's triggers use them too. Each metric proposes a number
// of replicas; the largest wins. Within 10 % of its target a metric proposes the current number. Scale-in stops at the
// largest number proposed in the stabilisation window, five minutes by default. The HPA acts every 15 s and may each
// time double, or add four; that is sixteenfold or sixteen more per minute.
type hpa struct {
	proposals []int // of the last minutes, a ring of the stabilisation window
	n         int
}

const (
	hpaTolerance = 0.1
	hpaSteps     = 4 // evaluations in a minute
)

func newHPA(stabilisationMinutes float64) hpa {
	return hpa{proposals: make([]int, max(1, int(stabilisationMinutes)))}
}

// average evaluates an AverageValue metric: total over target, or current if it is within the tolerance.
func (*hpa) average(total, target float64, current int) int {
	if current > 0 && math.Abs(total/(target*float64(current))-1) <= hpaTolerance {
		return current
	}
	return int(math.Ceil(total/target - 1e-9))
}

// settle converts the metrics' proposal to the HPA's desired replicas; at least one.
func (h *hpa) settle(want, current int) int {
	want = max(want, 1)
	if limit := max(current<<hpaSteps, current+4*hpaSteps); want > limit {
		want = limit
	}
	h.proposals[h.n%len(h.proposals)] = want
	h.n++
	for _, proposed := range h.proposals[:min(h.n, len(h.proposals))] {
		want = max(want, min(proposed, current))
	}
	return want
}
