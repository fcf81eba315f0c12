package backtest

import "math"

// knative is the Knative Pod Autoscaler on concurrency (knative.dev, "Autoscaling", and pkg/autoscaler/scaling of
// knative/serving). What waits counts as concurrency, as it does in Knative's proxies. A replica's concurrency limit is
// what it safely serves, and the target is a share of it: container-concurrency-target-percentage, 70 by default.
//
// Two windows ask for ceil(concurrency / target): the stable one of 60 s, and the panic one of 6 s. A panic begins when
// the latter asks for twice the ready replicas, and ends when that has not been so for a stable window; while it lasts
// nothing is given up. One answer may be a thousand times the ready replicas, and half of them
// (max-scale-up-rate, max-scale-down-rate). scale-down-delay has the largest answer of that long stand; by default it
// is none. Scaling to zero begins where the stable window saw nothing, and waits scale-to-zero-grace-period, 30 s;
// the pool's minimum comes after.
//
// Asked once a minute the two windows are the same minute, so a panic begins a minute late at most.
type knative struct {
	utilisation float64
	delay       []int // answers of the last minutes, a ring
	n           int

	panicking int // minutes for which the panic lasts still, the one to come included
	most      int // asked for in this panic
}

const (
	knativePanic     = 2.0 // panic-threshold-percentage
	knativeScaleUp   = 1000.0
	knativeScaleDown = 2.0
)

func newKnative(_ Scene, set Setting) Policy {
	return &knative{utilisation: set[0], delay: make([]int, 1+int(set[1]))}
}

func (k *knative) Desired(o Observation) int {
	ready := max(1, float64(o.Ready))
	want := math.Ceil((o.Need+o.Backlog)/k.utilisation - 1e-9)
	want = max(math.Floor(ready/knativeScaleDown), min(want, math.Ceil(ready*knativeScaleUp)))
	if want/ready >= knativePanic {
		k.panicking = 2
	}
	answer := int(want)
	if k.panicking > 0 {
		k.panicking--
		k.most = max(k.most, answer)
		answer = k.most
	} else {
		k.most = 0
	}
	k.delay[k.n%len(k.delay)] = answer
	k.n++
	for _, asked := range k.delay[:min(k.n, len(k.delay))] {
		answer = max(answer, asked)
	}
	return answer
}
