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
	Waiting        float64 // requests queued in the whole pool
	KVUse          float64 // 0..1, of the fullest ready replica; NaN when none is ready
	Need           float64 // last minute's demand in replicas, not rounded; NaN when not measured
}

// Policy decides each minute how many replicas a pool should have. It may keep state; it is asked once a minute, in
// order of time.
type Policy interface {
	Name() string
	Desired(o Observation) int
}

// Scene is what policies are made for.
type Scene struct {
	PeakReplicas int           // that the busiest minute needs
	Lead         time.Duration // how far ahead a policy must look: the warm-up's 90th percentile and a minute
	// Need is the need of every minute from Start on, which only the oracle may read.
	Start time.Time
	Need  []float64
}

// PolicySpec is one row of the catalog of policies.
type PolicySpec struct {
	Name, Help string
	Knob       string    // what a setting means
	Settings   []float64 // swept to draw the curve of cost against attainment
	Default    float64
	// New makes the policy; nil for Forewarm itself, whose decisions come from the pipeline.
	New func(s Scene, setting float64) Policy
}

// ForewarmPolicy is the name of the policy that obeys the pipeline's decisions.
const ForewarmPolicy = "forewarm"

// defaultQuantile is what Forewarm provides for when neither a quantile nor costs are stated.
const defaultQuantile = .95

// Policies lists every policy: to add one, write a type and add a row.
var Policies = []PolicySpec{
	{Name: ForewarmPolicy, Help: "obeys Forewarm's decisions", Knob: "quantile", Settings: []float64{.5, .8, .9, .95, .99}, Default: defaultQuantile},
	{Name: "static_peak", Help: "always as many replicas as the busiest minute needs", Knob: "share", Settings: []float64{.6, .7, .8, .9, 1}, Default: 1, New: newStatic},
	{Name: "reactive_keda", Help: "KEDA on queue length and KV use, by the rules of the Horizontal Pod Autoscaler", Knob: "kv_target", Settings: []float64{.4, .5, .6, .7, .8}, Default: .7, New: newReactive},
	{Name: "predict_linear", Help: "the last quarter hour's trend drawn on to the end of the warm-up", Knob: "utilisation", Settings: []float64{.5, .6, .7, .8, .9, 1}, Default: .8, New: newLinear},
	{Name: "last_value_planner", Help: "the mean of the last three minutes, every three minutes", Knob: "utilisation", Settings: []float64{.5, .6, .7, .8, .9, 1}, Default: .8, New: newLastValue},
	{Name: "oracle", Help: "knows the future, and still pays the warm-up", Knob: "utilisation", Settings: []float64{.8, .9, 1}, Default: 1, New: newOracle},
}

// PolicyNames resolves a list such as "forewarm,oracle" or "all" to rows of the catalog, in its order.
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

func (p *PolicySpec) knob(setting float64) string {
	return p.Knob + "=" + strconv.FormatFloat(setting, 'g', -1, 64)
}

// Result is how one setting of one policy did.
type Result struct {
	Policy         string `json:"policy"`
	Knob           string `json:"knob"`
	SaturatedShare Number `json:"saturated_share"` // of minutes
	SLOAttainment  Number `json:"slo_attainment"`  // share of requests served without delay
	GPUHours       Number `json:"gpu_hours"`       // warming up included
	ScaleActions   int    `json:"scale_actions"`
}
