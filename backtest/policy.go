package backtest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// Observation is what an autoscaler sees of a pool at the end of a minute.
type Observation struct {
	At             time.Time
	Ready, Pending int
	Waiting        float64 // queued requests of the pool
	KVUse          float64 // 0..1, of the fullest ready replica; NaN if none is ready
	Need           float64 // last minute's demand in replicas, not rounded; NaN if unknown
	Backlog        float64 // waiting work, in minutes of one replica; NaN if unknown
}

// Policy decides the replicas of a pool once a minute, in order of time. It may keep state.
type Policy interface {
	Desired(o Observation) int
}

// Scene is the input for creating policies.
type Scene struct {
	PeakReplicas int       // for the busiest minute of the trace
	Recorded     *Recorded // nil for a trace
	// Future is for a clairvoyant policy only.
	Future *Future
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
	// A clairvoyant policy reads the future, and is no rival.
	Clairvoyant bool
	// New creates the policy; nil for Forewarm, which decides in the pipeline.
	New func(s Scene, set Setting) Policy
}

// Names of policies with a special role.
const (
	ForewarmPolicy = "forewarm" // follows the pipeline's decisions
	OraclePolicy   = "oracle"
	RecordedPolicy = "recorded" // used if the replicas were recorded
)

var (
	utilisations = []float64{.3, .4, .45, .5, .55, .6, .65, .7, .75, .8, .85, .9, 1}
	// scaleIns are stabilisation windows for scale-in, in minutes: the Horizontal Pod Autoscaler's default, and up to
	// twice the half hour that is usual for replicas that start slowly.
	scaleIns = []float64{5, 15, 30, 60}
)

// Policies lists all policies. To add one, write a type and add a row.
var Policies = []PolicySpec{
	// Obeys Forewarm's decisions.
	{Name: ForewarmPolicy, Knobs: []Knob{
		{"quantile", []float64{.3, .5, .6, .7, .75, .8, .85, .9, .925, .95, .97, .98, .99, .995, .999}, alerting.DefaultQuantile},
	}},
	// The replicas that there were.
	{Name: RecordedPolicy, New: newRecorded, Knobs: []Knob{{"share", []float64{1}, 1}}},
	// Always as many replicas as a share of the busiest minute needs.
	{Name: "static_peak", New: newStatic, Knobs: []Knob{
		{"share", []float64{.3, .4, .5, .6, .65, .7, .75, .8, .85, .9, .95, 1}, 1},
	}},
	// KEDA on queue length and KV use, by the rules of the Horizontal Pod Autoscaler.
	{Name: "reactive_keda", New: newReactive, Knobs: []Knob{
		{"kv_target", utilisations, .7}, {"scale_in", scaleIns, 5},
	}},
	// KEDA on the demand itself, by the rules of the Horizontal Pod Autoscaler, given up late.
	{Name: "reactive_floor", New: newFloor, Knobs: []Knob{
		{"utilisation", utilisations, .8}, {"scale_in", scaleIns, 30},
	}},
	// The Knative Pod Autoscaler on concurrency.
	{Name: "knative_kpa", New: newKnative, Knobs: []Knob{
		{"utilisation", utilisations, .7}, {"scale_down_delay", []float64{0, 5, 15, 30, 60}, 0},
	}},
	// PromQL's double_exponential_smoothing of the demand over an hour, as a KEDA trigger.
	{Name: "holt_winters", New: newHoltWinters, Knobs: []Knob{
		{"utilisation", utilisations, .8}, {"smoothing", []float64{.3, .5, .8}, .5}, {"trend", []float64{.1, .3}, .1}, {"scale_in", scaleIns, 5},
	}},
	// Knows the demand to come and each replica's warm-up, and pays it.
	{Name: OraclePolicy, New: newOracle, Clairvoyant: true, Knobs: []Knob{
		{"violation_cost", []float64{1, 3, 5, 7, 9, 11, 13, 14, 15, 16, 17, 18, 19, 20, 22, 25, 30, 40, 60, 100, 200, 1e6}, 1e6}, {"others", []float64{3, 12, 40}, 3},
	}},
}

// PolicyNames converts a list such as "forewarm,oracle" or "all" to rows of the catalog, in its order.
func PolicyNames(list []string) ([]PolicySpec, error) {
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

// defaults returns the default setting in the documentation of the original.
func (p *PolicySpec) defaults() Setting {
	var set Setting
	for _, k := range p.Knobs {
		set = append(set, k.Default)
	}
	return set
}

// grid returns all combinations of the knobs' values; the last knob varies fastest.
func (p *PolicySpec) grid() []Setting {
	all := []Setting{nil}
	for _, k := range p.Knobs {
		var more []Setting
		for _, set := range all {
			for _, v := range k.Values {
				more = append(more, append(slices.Clip(set), v))
			}
		}
		all = more
	}
	return all
}

// settings returns the settings to run: the default only, or a sweep that includes it.
func (p *PolicySpec) settings(sweep bool) []Setting {
	defaults := p.defaults()
	var all []Setting
	if sweep {
		all = p.grid()
	}
	if !slices.ContainsFunc(all, func(s Setting) bool { return slices.Equal(s, defaults) }) {
		all = append(all, defaults)
	}
	return all
}

// knob is how a setting is written in outputs, such as utilisation=0.8,scale_in=5.
func (p *PolicySpec) knob(set Setting) string {
	var b strings.Builder
	for i, k := range p.Knobs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(k.Name + "=" + strconv.FormatFloat(set[i], 'g', -1, 64))
	}
	return b.String()
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

func newHPA(stabilisationMinutes float64) hpa {
	return hpa{stabilisation: max(1, int(stabilisationMinutes))}
}

// latest adds x to the values and keeps the newest n.
func latest[T any](values []T, x T, n int) []T {
	values = append(values, x)
	return values[max(0, len(values)-n):]
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
	want = min(want, max(current<<hpaSteps, current+4*hpaSteps))
	h.proposals = latest(h.proposals, want, h.stabilisation)
	for _, proposed := range h.proposals {
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

// NewReactive has the threshold of KEDA's examples for LLM engines: four waiting requests per replica.
func NewReactive(kvTarget, stabilisationMinutes float64) *Reactive {
	return &Reactive{WaitingPerReplica: 4, KVTarget: kvTarget, hpa: newHPA(stabilisationMinutes)}
}

func newReactive(_ Scene, set Setting) Policy { return NewReactive(set[0], set[1]) }

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
	results     []int // of the last minutes
	delay       int   // minutes

	panicking int // minutes until the panic ends, including the next one
	panicMax  int // largest result in this panic
}

const (
	knativePanic     = 2.0 // panic-threshold-percentage
	knativeScaleUp   = 1000.0
	knativeScaleDown = 2.0
)

func newKnative(_ Scene, set Setting) Policy {
	return &knative{utilisation: set[0], delay: 1 + int(set[1])}
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
	k.results = latest(k.results, answer, k.delay)
	return slices.Max(k.results)
}

// holtWinters is Prometheus' double_exponential_smoothing (holt_winters before version 3) of the need: Holt's linear
// method without a season. PromQL returns the smoothed current value.
type holtWinters struct {
	utilisation, smoothing, trend float64
	need                          []float64 // of the last minutes
	hpa                           hpa
}

const holtRange = 60 // minutes

func newHoltWinters(_ Scene, set Setting) Policy {
	return &holtWinters{utilisation: set[0], smoothing: set[1], trend: set[2], hpa: newHPA(set[3])}
}

func (p *holtWinters) Desired(o Observation) int {
	p.need = latest(p.need, o.Need, holtRange)
	current := o.Ready + o.Pending
	return p.hpa.settle(p.hpa.average(max(p.smoothed(), 0), p.utilisation, current), current)
}

// smoothed follows promql/functions.go: the level starts at the first value, the trend at the first difference.
func (p *holtWinters) smoothed() float64 {
	level := p.need[0]
	if len(p.need) < 2 {
		return level
	}
	trend, before := p.need[1]-level, level
	for i, need := range p.need[1:] {
		if i > 0 {
			trend = p.trend*(level-before) + (1-p.trend)*trend
		}
		before, level = level, p.smoothing*need+(1-p.smoothing)*(level+trend)
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
