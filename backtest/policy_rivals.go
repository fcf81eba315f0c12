package backtest

import (
	"math"
)

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

// Reactive is KEDA with two triggers and the rules of the Horizontal Pod Autoscaler:
//
//   - queue: waiting requests over WaitingPerReplica, as an AverageValue metric;
//   - KV use: ceil(ready · use / KVTarget), as a Value metric.
type Reactive struct {
	WaitingPerReplica, KVTarget float64

	hpa hpa
}

const hpaStabilisation = 5 // minutes, the HPA's default

// NewReactive has the thresholds of KEDA's examples for LLM engines: four waiting requests per replica.
func NewReactive(kvTarget float64) *Reactive {
	return &Reactive{WaitingPerReplica: 4, KVTarget: kvTarget, hpa: newHPA(hpaStabilisation)}
}

func newReactive(_ Scene, set Setting) Policy {
	r := NewReactive(set[0])
	r.hpa = newHPA(set[1])
	return r
}

// Desired returns the HPA's result.
func (r *Reactive) Desired(o Observation) int {
	current := o.Ready + o.Pending
	return r.hpa.settle(max(r.hpa.average(o.Waiting, r.WaitingPerReplica, current), r.byKV(o, current)), current)
}

func (r *Reactive) byKV(o Observation, current int) int {
	if math.IsNaN(o.KVUse) {
		return current // without the metric the HPA does not act
	}
	ratio := o.KVUse / r.KVTarget
	if math.Abs(ratio-1) <= hpaTolerance {
		return current
	}
	return int(math.Ceil(float64(o.Ready)*ratio - 1e-9))
}

// reactiveFloor is KEDA on demand, which is known even when all replicas are full, with a long stabilisation window. It
// is a good setup without forecasts for replicas that start slowly.
type reactiveFloor struct {
	utilisation float64
	hpa         hpa
}

func newFloor(_ Scene, set Setting) Policy {
	return &reactiveFloor{utilisation: set[0], hpa: newHPA(set[1])}
}

func (r *reactiveFloor) Desired(o Observation) int {
	current := o.Ready + o.Pending
	return r.hpa.settle(r.hpa.average(o.Need, r.utilisation, current), current)
}

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

// window is a ring of a series' newest values.
type window struct {
	values []float64
	n      int
}

func newWindow(minutes float64) window { return window{values: make([]float64, int(minutes))} }

func (w *window) add(x float64) {
	w.values[w.n%len(w.values)] = x
	w.n++
}

// len is the number of known values.
func (w *window) len() int { return min(w.n, len(w.values)) }

// back returns the value of i minutes ago, i < len.
func (w *window) back(i int) float64 { return w.values[(w.n-1-i)%len(w.values)] }

// holtWinters is Prometheus' double_exponential_smoothing (holt_winters before version 3) of the need: Holt's linear
// method without a season. PromQL returns the smoothed current value.
type holtWinters struct {
	utilisation, smoothing, trend float64
	need                          window
	hpa                           hpa
}

const holtRange = 60 // minutes

func newHoltWinters(_ Scene, set Setting) Policy {
	return &holtWinters{utilisation: set[0], smoothing: set[1], trend: set[2], need: newWindow(holtRange), hpa: newHPA(set[3])}
}

func (p *holtWinters) Desired(o Observation) int {
	p.need.add(o.Need)
	current := o.Ready + o.Pending
	return p.hpa.settle(p.hpa.average(max(p.smoothed(), 0), p.utilisation, current), current)
}

// smoothed follows promql/functions.go: the level starts at the first value, the trend at the first difference.
func (p *holtWinters) smoothed() float64 {
	n := p.need.len()
	level := p.need.back(n - 1)
	if n < 2 {
		return level
	}
	trend := p.need.back(n-2) - level
	before := level
	for i := 1; i < n; i++ {
		if i > 1 {
			trend = p.trend*(level-before) + (1-p.trend)*trend
		}
		before, level = level, p.smoothing*p.need.back(n-1-i)+(1-p.smoothing)*(level+trend)
	}
	return level
}

const day = 1440 // minutes

// static keeps a share of the peak. On the curve of the scored part it knows the level of that part. So it is stronger
// than a real static setup, except on flat demand.
type static int

func newStatic(s Scene, set Setting) Policy {
	return static(math.Ceil(set[0]*float64(s.PeakReplicas) - 1e-9))
}

func (n static) Desired(Observation) int { return int(n) }
