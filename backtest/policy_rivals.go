package backtest

import (
	"math"
	"time"
)

// static keeps a share of the peak.
type static int

func newStatic(s Scene, share float64) Policy {
	return static(math.Ceil(share*float64(s.PeakReplicas) - 1e-9))
}

func (static) Name() string              { return "static_peak" }
func (n static) Desired(Observation) int { return int(n) }

// Reactive is KEDA with two triggers, by the rules of the Kubernetes Horizontal Pod Autoscaler (kubernetes.io,
// "Algorithm details"): each metric asks for a number of replicas, the largest wins.
//
//   - queue: waiting requests over WaitingPerReplica, as an AverageValue metric;
//   - KV use: ceil(ready · use / KVTarget), as a Value metric.
//
// A metric within 10 % of its target asks for what there is. Replicas are given up only down to the largest number
// asked for in the last five minutes. The HPA acts every 15 s and may each time double, or add four; asked once a
// minute, that is sixteenfold or sixteen more.
type Reactive struct {
	WaitingPerReplica, KVTarget float64

	asked [hpaStabilisation]int // of the last minutes, a ring
	n     int
}

const (
	hpaTolerance     = 0.1
	hpaStabilisation = 5 // minutes
	hpaSteps         = 4 // evaluations in a minute
)

// NewReactive has the thresholds that KEDA's examples for LLM engines use: four waiting requests per replica.
func NewReactive(kvTarget float64) *Reactive {
	return &Reactive{WaitingPerReplica: 4, KVTarget: kvTarget}
}

func newReactive(_ Scene, kvTarget float64) Policy { return NewReactive(kvTarget) }

// Name is the policy's name in the catalog.
func (*Reactive) Name() string { return "reactive_keda" }

// Desired is the HPA's answer.
func (r *Reactive) Desired(o Observation) int {
	current := o.Ready + o.Pending
	want := max(r.byQueue(o, current), r.byKV(o, current), 1)
	if most := max(current<<hpaSteps, current+4*hpaSteps); want > most {
		want = most
	}
	r.asked[r.n%hpaStabilisation] = want
	r.n++
	for _, asked := range r.asked[:min(r.n, hpaStabilisation)] {
		if asked <= current {
			want = max(want, asked)
		} else {
			want = max(want, current)
		}
	}
	return want
}

func (r *Reactive) byQueue(o Observation, current int) int {
	if current > 0 && math.Abs(o.Waiting/(r.WaitingPerReplica*float64(current))-1) <= hpaTolerance {
		return current
	}
	return int(math.Ceil(o.Waiting / r.WaitingPerReplica))
}

func (r *Reactive) byKV(o Observation, current int) int {
	if math.IsNaN(o.KVUse) {
		return current // the metric is missing: the HPA does not act on it
	}
	ratio := o.KVUse / r.KVTarget
	if math.Abs(ratio-1) <= hpaTolerance {
		return current
	}
	return int(math.Ceil(float64(o.Ready)*ratio - 1e-9))
}

// linear is Prometheus' predict_linear on the need: least squares over the last quarter hour, read off at the lead.
type linear struct {
	lead        float64 // minutes
	utilisation float64
	need        [linearWindow]float64
	n           int
}

const linearWindow = 15 // minutes

func newLinear(s Scene, utilisation float64) Policy {
	return &linear{lead: s.Lead.Minutes(), utilisation: utilisation}
}

func (*linear) Name() string { return "predict_linear" }

func (l *linear) Desired(o Observation) int {
	l.need[l.n%linearWindow] = o.Need
	l.n++
	m := min(l.n, linearWindow)
	var st, sy, stt, sty float64
	for i := range m { // minute −i
		t, y := -float64(i), l.need[(l.n-1-i)%linearWindow]
		st, sy, stt, sty = st+t, sy+y, stt+t*t, sty+t*y
	}
	k := float64(m)
	ahead := sy / k
	if v := stt - st*st/k; v > 0 {
		slope := (sty - st*sy/k) / v
		ahead += slope * (l.lead - st/k)
	}
	return replicas(ahead, l.utilisation)
}

// lastValue is the mean need of the last interval, acted on once each interval, as Dynamo's planner does with its
// constant predictor.
type lastValue struct {
	utilisation float64
	sum         float64
	n, answer   int
}

const plannerInterval = 3 // minutes

func newLastValue(_ Scene, utilisation float64) Policy {
	return &lastValue{utilisation: utilisation}
}

func (*lastValue) Name() string { return "last_value_planner" }

func (l *lastValue) Desired(o Observation) int {
	l.sum += o.Need
	l.n++
	if l.n%plannerInterval == 0 {
		l.answer, l.sum = replicas(l.sum/plannerInterval, l.utilisation), 0
	}
	if l.n < plannerInterval {
		return o.Ready + o.Pending
	}
	return l.answer
}

// oracle asks for the largest need between now and the end of a slow warm-up: no replica comes too late but those
// whose warm-up is among the slowest tenth.
type oracle struct {
	scene       Scene
	utilisation float64
}

func newOracle(s Scene, utilisation float64) Policy {
	return &oracle{scene: s, utilisation: utilisation}
}

func (*oracle) Name() string { return "oracle" }

func (p *oracle) Desired(o Observation) int {
	from := int(o.At.Sub(p.scene.Start) / time.Minute)
	to := from + int(math.Ceil(p.scene.Lead.Minutes())) + 1
	most := 0.0
	for _, need := range p.scene.Need[min(from, len(p.scene.Need)):min(to, len(p.scene.Need))] {
		most = max(most, need)
	}
	return replicas(most, p.utilisation)
}

// replicas is what a need takes at a utilisation; at least one.
func replicas(need, utilisation float64) int {
	return max(1, int(math.Ceil(need/utilisation-1e-9)))
}
