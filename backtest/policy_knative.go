package backtest

import "math"

// knative is the Knative Pod Autoscaler on concurrency (knative.dev, "Autoscaling", and pkg/autoscaler/scaling of
// knative/serving). Waiting requests count as concurrency, as in Knative's proxies. A replica's concurrency limit is
// its safe capacity. The target is a share of it: container-concurrency-target-percentage, 70 by default.
//
// Two windows need ceil(concurrency / target) replicas: the stable one of 60 s and the panic one of 6 s. A panic starts
// when the panic window needs twice the ready replicas. It ends when that was not so for a stable window. During a
// panic there is no scale-in. One step may go to a thousand times the ready replicas, or to half of them
// (max-scale-up-rate, max-scale-down-rate). scale-down-delay keeps the largest result of its window; the default is
// none. Scale to zero needs a stable window without requests, and waits scale-to-zero-grace-period, 30 s. The pool's
// minimum applies after all this.
//
// With one evaluation a minute both windows are the same minute, so a panic starts up to a minute late.
type knative struct {
	utilisation float64
	delay       []int // results of the last minutes, a ring
	n           int

	panicking int // minutes until the panic ends, including the next one
	panicMax  int // largest result in this panic
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
		k.panicMax = max(k.panicMax, answer)
		answer = k.panicMax
	} else {
		k.panicMax = 0
	}
	k.delay[k.n%len(k.delay)] = answer
	k.n++
	for _, result := range k.delay[:min(k.n, len(k.delay))] {
		answer = max(answer, result)
	}
	return answer
}
