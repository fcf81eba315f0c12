package backtest

import "math"

// hpa holds the rules of the Kubernetes Horizontal Pod Autoscaler (kubernetes.io, "Horizontal Pod Autoscaling",
// "Algorithm details" and "Configurable scaling behavior"), by which KEDA's triggers act too. Each metric asks for a
// number of replicas, the largest wins. A metric within 10 % of its target asks for what there is. Replicas are given up
// only down to the largest number asked for in the stabilisation window, five minutes unless it is set. The HPA acts
// every 15 s and may each time double, or add four; asked once a minute, that is sixteenfold or sixteen more.
type hpa struct {
	asked []int // of the last minutes, a ring as long as the stabilisation window
	n     int
}

const (
	hpaTolerance = 0.1
	hpaSteps     = 4 // evaluations in a minute
)

func newHPA(stabilisationMinutes float64) hpa {
	return hpa{asked: make([]int, max(1, int(stabilisationMinutes)))}
}

// average is the answer of an AverageValue metric: total over target, unless each replica is near enough to its target.
func (*hpa) average(total, target float64, current int) int {
	if current > 0 && math.Abs(total/(target*float64(current))-1) <= hpaTolerance {
		return current
	}
	return int(math.Ceil(total/target - 1e-9))
}

// settle makes of what the metrics want what the HPA asks for; at least one.
func (h *hpa) settle(want, current int) int {
	want = max(want, 1)
	if most := max(current<<hpaSteps, current+4*hpaSteps); want > most {
		want = most
	}
	h.asked[h.n%len(h.asked)] = want
	h.n++
	for _, asked := range h.asked[:min(h.n, len(h.asked))] {
		want = max(want, min(asked, current))
	}
	return want
}
