package backtest

import "math"

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
