package backtest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/value"
)

// Observation is what an autoscaler sees of a pool at the end of a minute.
type Observation struct {
	At             time.Time
	Ready, Pending int
	Waiting        float64 // queued requests of the pool
	KVUse          float64 // 0..1, of the fullest ready replica; NaN if none is ready
	Need           float64 // last minute's demand in replicas, not rounded
	Backlog        float64 // waiting work, in minutes of one replica
}

// Policy returns the desired replicas of a pool, once a minute, in order of time. It may keep state.
type Policy func(o Observation) int

// Scene is the input for creating policies. It has the future of the run; rivals use only its peak.
type Scene struct {
	Start    time.Time
	Need     []float64 // replicas needed in each minute from Start, not rounded
	Min, Max int       // replicas of the pool
	Initial  int       // ready at Start
	// Lag is the lead, in whole minutes, with which the k-th replica must be started; k from 1.
	Lag      func(k int) int
	Recorded *Recorded // nil for a trace
}

// Knob is a parameter of a policy.
type Knob struct {
	Name    string
	Values  []float64 // for a sweep
	Default float64   // from the documentation of the original, if any
}

// Setting has a value for each knob of a policy, in their order.
type Setting []float64

// PolicySpec is one row of the catalog of policies.
type PolicySpec struct {
	Name  string
	Knobs []Knob
	// New creates the policy; nil for Forewarm, which decides in the pipeline.
	New func(s Scene, set Setting) Policy
}

// Names of policies with a special role.
const (
	ForewarmPolicy = "forewarm" // follows the pipeline's decisions
	OraclePolicy   = "oracle"   // reads the future, and is no rival
	RecordedPolicy = "recorded" // has the replicas that there were, if they were recorded
)

var (
	utilisations = []float64{.3, .4, .45, .5, .55, .6, .65, .7, .75, .8, .85, .9, 1}
	// scaleIns are stabilisation windows for scale-in, in minutes: the Horizontal Pod Autoscaler's default, and up to
	// twice the half hour that is usual for replicas that start slowly.
	scaleIns = []float64{5, 15, 30, 60}
)

// Policies lists all policies. To add one, write a constructor and add a row.
var Policies = []PolicySpec{
	{Name: ForewarmPolicy, Knobs: []Knob{
		{"quantile", []float64{.3, .5, .6, .7, .75, .8, .85, .9, .925, .95, .97, .98, .99, .995, .999}, alerting.DefaultQuantile},
	}},
	{
		Name: RecordedPolicy, Knobs: []Knob{{"share", []float64{1}, 1}},
		New: func(s Scene, _ Setting) Policy { return func(o Observation) int { return s.Recorded.replicas(o.At) } },
	},
	{Name: "static_peak", New: newStatic, Knobs: []Knob{
		{"share", []float64{.3, .4, .5, .6, .65, .7, .75, .8, .85, .9, .95, 1}, 1},
	}},
	{Name: "reactive_keda", New: func(_ Scene, set Setting) Policy { return NewReactive(set[0], set[1]) }, Knobs: []Knob{
		{"kv_target", utilisations, .7}, {"scale_in", scaleIns, 5},
	}},
	{Name: "reactive_floor", New: newFloor, Knobs: []Knob{
		{"utilisation", utilisations, .8}, {"scale_in", scaleIns, 30},
	}},
	{Name: "knative_kpa", New: newKnative, Knobs: []Knob{
		{"utilisation", utilisations, .7}, {"scale_down_delay", []float64{0, 5, 15, 30, 60}, 0},
	}},
	{Name: "holt_winters", New: newHoltWinters, Knobs: []Knob{
		{"utilisation", utilisations, .8}, {"smoothing", []float64{.3, .5, .8}, .5}, {"trend", []float64{.1, .3}, .1},
		{"scale_in", scaleIns, 5},
	}},
	{Name: OraclePolicy, New: newOracle, Knobs: []Knob{
		{"violation_cost", []float64{1, 3, 5, 7, 9, 11, 13, 14, 15, 16, 17, 18, 19, 20, 22, 25, 30, 40, 60, 100, 200, 1e6}, 1e6},
		{"others", []float64{3, 12, 40}, 3},
	}},
}

// PoliciesNamed returns the rows of the catalog that a list names, in the order of the catalog; "all" names all.
func PoliciesNamed(list []string) ([]PolicySpec, error) {
	var chosen []PolicySpec
	var names []string
	for _, p := range Policies {
		names = append(names, p.Name)
		if slices.Contains(list, p.Name) || slices.Contains(list, "all") {
			chosen = append(chosen, p)
		}
	}
	for _, name := range list {
		if name != "all" && !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown policy %q: use all or some of %s", name, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}

// settings returns the default setting or, for a sweep, all combinations of the knobs' values and the default setting.
// The last knob varies fastest.
func (p *PolicySpec) settings(sweep bool) []Setting {
	defaults, all := Setting(nil), []Setting{nil}
	for _, k := range p.Knobs {
		defaults = append(defaults, k.Default)
		var more []Setting
		for _, set := range all {
			for _, v := range k.Values {
				more = append(more, append(slices.Clip(set), v))
			}
		}
		all = more
	}
	if !sweep {
		return []Setting{defaults}
	}
	if !slices.ContainsFunc(all, func(s Setting) bool { return slices.Equal(s, defaults) }) {
		all = append(all, defaults)
	}
	return all
}

// knob is how a setting is written in outputs, such as utilisation=0.8,scale_in=5.
func (p *PolicySpec) knob(set Setting) string {
	var values []string
	for i, k := range p.Knobs {
		values = append(values, k.Name+"="+strconv.FormatFloat(set[i], 'g', -1, 64))
	}
	return strings.Join(values, ",")
}

// hpa has the rules of the Kubernetes Horizontal Pod Autoscaler (kubernetes.io, "Horizontal Pod Autoscaling",
// "Algorithm details" and "Configurable scaling behavior"). KEDA's triggers use them too. Each metric proposes a number
// of replicas; the largest wins. Within 10 % of its target a metric proposes the current number. Scale-in stops at the
// largest number proposed in the stabilisation window, five minutes by default. The HPA acts every 15 s and may each
// time double, or add four; that is sixteenfold or sixteen more per minute.
type hpa struct {
	proposals     []int // of the last minutes
	stabilisation int   // minutes
}

const (
	hpaTolerance = 0.1
	hpaSteps     = 4 // evaluations in a minute
)

func newHPA(stabilisationMinutes float64) *hpa {
	return &hpa{stabilisation: max(1, int(stabilisationMinutes))}
}

// latest adds x to the values and keeps the newest n.
func latest[T any](values []T, x T, n int) []T {
	values = append(values, x)
	return values[max(0, len(values)-n):]
}

// average evaluates an AverageValue metric: total over target, or current if it is within the tolerance.
func average(total, target float64, current int) int {
	if current > 0 && math.Abs(total/(target*float64(current))-1) <= hpaTolerance {
		return current
	}
	return int(math.Ceil(total/target - 1e-9))
}

// settle converts the metrics' proposal to the HPA's desired replicas; at least one.
func (h *hpa) settle(want, current int) int {
	want = max(want, 1)
	want = min(want, max(current<<hpaSteps, current+4*hpaSteps))
	h.proposals = latest(h.proposals, want, h.stabilisation)
	for _, proposed := range h.proposals {
		want = max(want, min(proposed, current))
	}
	return want
}

// waitingPerReplica is the threshold of KEDA's examples for LLM engines.
const waitingPerReplica = 4

// NewReactive is KEDA with two triggers and the rules of the Horizontal Pod Autoscaler:
//
//   - queue: waiting requests over waitingPerReplica, as an AverageValue metric;
//   - KV use: ceil(ready · use / kvTarget), as a Value metric.
func NewReactive(kvTarget, stabilisationMinutes float64) Policy {
	h := newHPA(stabilisationMinutes)
	return func(o Observation) int {
		current := o.Ready + o.Pending
		byKV := current // without the metric the HPA does not act
		if ratio := o.KVUse / kvTarget; math.Abs(ratio-1) > hpaTolerance {
			byKV = int(math.Ceil(float64(o.Ready)*ratio - 1e-9))
		}
		return h.settle(max(average(o.Waiting, waitingPerReplica, current), byKV), current)
	}
}

// newFloor is KEDA on demand, which is known even when all replicas are full, with a long stabilisation window: a good
// setup without forecasts, if replicas start slowly.
func newFloor(_ Scene, set Setting) Policy {
	h := newHPA(set[1])
	return func(o Observation) int {
		current := o.Ready + o.Pending
		return h.settle(average(o.Need, set[0], current), current)
	}
}

const (
	knativePanic     = 2.0 // panic-threshold-percentage
	knativeScaleUp   = 1000.0
	knativeScaleDown = 2.0
)

// newKnative is the Knative Pod Autoscaler on concurrency (knative.dev, "Autoscaling", and pkg/autoscaler/scaling of
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
func newKnative(_ Scene, set Setting) Policy {
	var results []int  // of the last minutes
	panicMinutes := 0  // until the panic ends, including the next one
	panicReplicas := 0 // largest result in this panic
	return func(o Observation) int {
		ready := max(1, float64(o.Ready))
		want := math.Ceil((o.Need+o.Backlog)/set[0] - 1e-9)
		want = max(math.Floor(ready/knativeScaleDown), min(want, math.Ceil(ready*knativeScaleUp)))
		if want/ready >= knativePanic {
			panicMinutes = 2
		}
		result := int(want)
		if panicMinutes > 0 {
			panicMinutes--
			panicReplicas = max(panicReplicas, result)
			result = panicReplicas
		} else {
			panicReplicas = 0
		}
		results = latest(results, result, 1+int(set[1]))
		return slices.Max(results)
	}
}

const holtRange = 60 // minutes

// newHoltWinters is Prometheus' double_exponential_smoothing (holt_winters before version 3) of the need: Holt's linear
// method without a season. PromQL returns the smoothed current value.
func newHoltWinters(_ Scene, set Setting) Policy {
	h := newHPA(set[3])
	var need []float64 // of the last minutes
	return func(o Observation) int {
		need = latest(need, o.Need, holtRange)
		current := o.Ready + o.Pending
		return h.settle(average(max(smoothed(need, set[1], set[2]), 0), set[0], current), current)
	}
}

// smoothed follows promql/functions.go: the level starts at the first value, the trend at the first difference.
func smoothed(values []float64, smoothing, trendFactor float64) float64 {
	level := values[0]
	if len(values) < 2 {
		return level
	}
	trend, before := values[1]-level, level
	for i, x := range values[1:] {
		if i > 0 {
			trend = trendFactor*(level-before) + (1-trendFactor)*trend
		}
		before, level = level, smoothing*x+(1-smoothing)*(level+trend)
	}
	return level
}

const day = 1440 // minutes

// newStatic keeps a share of the peak, which it knows in advance. A real static setup is weaker, unless demand is flat.
func newStatic(s Scene, set Setting) Policy {
	peak := math.Ceil(max(1, value.Highest(s.Need)) - 1e-6)
	replicas := int(math.Ceil(set[0]*peak - 1e-9))
	return func(Observation) int { return replicas }
}
