package backtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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

// defaultQuantile is Forewarm's quantile without a configured quantile or costs.
const defaultQuantile = .95

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
		{"quantile", []float64{.3, .5, .6, .7, .75, .8, .85, .9, .925, .95, .97, .98, .99, .995, .999}, defaultQuantile},
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

// rival reports whether Forewarm is compared with the policy.
func (p *PolicySpec) rival() bool { return p.Name != ForewarmPolicy && !p.Clairvoyant }

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
