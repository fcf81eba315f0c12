package storage

import (
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/forecaster"
)

// ForecastSeries is the name of all forecast series. Labels: pool, class, dimension, horizon (minutes, or
// [HorizonWindowMax]) and quantile.
const ForecastSeries = "forewarm_forecast"

// HorizonWindowMax is the horizon label of the largest minute in forecaster.WindowFrom..WindowTo.
const HorizonWindowMax = forecaster.HorizonWindowMax

// forecastMinutes are the stored horizons, and horizons their labels, including the window maximum.
var (
	forecastMinutes = [...]int{5, 15, 30, 60}
	horizons        = [...]string{"5", "15", "30", "60", HorizonWindowMax}
)

var levelLabels = func() (out [forecaster.NumLevels]string) {
	for i, level := range forecaster.Levels {
		out[i] = strconv.FormatFloat(level, 'g', -1, 64)
	}
	return out
}()

// column is one number of a T, stored as a series. Columns of one series differ by label; only the first has help.
type column[T any] struct {
	series string
	label  []string // name and value; nil if the series has one column
	help   string
	value  func(T) float64 // NaN is not stored
}

// shapeColumns are quantiles over the calls of a class in a settled minute. Labels: pool, class, quantile.
var shapeColumns = slices.Concat(
	shape("prompt_tokens", "Prompt tokens of a call", func(w *features.Window) *sketch.Quantile { return &w.Prompt }),
	shape("output_tokens", "Output tokens of a call", func(w *features.Window) *sketch.Quantile { return &w.Output }),
)

// latencyColumns are quantiles over the calls of a pool in a settled minute. Labels: pool, quantile.
var latencyColumns = slices.Concat(
	shape("ttft_seconds", "Time to first token", func(s *features.Served) *sketch.Quantile { return &s.TTFT }),
	shape("itl_seconds", "Time between output tokens", func(s *features.Served) *sketch.Quantile { return &s.ITL }),
)

func shape[T any](name, what string, of func(T) *sketch.Quantile) []column[T] {
	level := func(label string, q float64) column[T] {
		return column[T]{
			series: "forewarm_" + name, label: []string{"quantile", label},
			help:  what + ", as a quantile over the minute's calls.",
			value: func(x T) float64 { return of(x).Quantile(q) },
		}
	}
	return []column[T]{level("0.5", .5), level("0.95", .95)}
}

// ofRoles is a number of replicas by role; unknown in a pool that is not disaggregated.
func ofRoles(replicas func(*alerting.Roles) int) func(*alerting.Decision) float64 {
	return func(d *alerting.Decision) float64 {
		if d.ByRole == nil {
			return math.NaN()
		}
		return float64(replicas(d.ByRole))
	}
}

// poolColumns are stored of a decision. Label: pool. Names and labels are those of /metrics.
var poolColumns = []column[*alerting.Decision]{
	{"forewarm_desired_replicas", []string{"role", "all"}, "Replicas that the pool should have, pending ones included.",
		func(d *alerting.Decision) float64 { return float64(d.Desired) }},
	{"forewarm_desired_replicas", []string{"role", "prefill"}, "",
		ofRoles(func(r *alerting.Roles) int { return r.Prefill })},
	{"forewarm_desired_replicas", []string{"role", "decode"}, "",
		ofRoles(func(r *alerting.Roles) int { return r.Decode })},
	{"forewarm_replicas", []string{"state", "ready"}, "Replicas by state: ready, or pending on their way.",
		func(d *alerting.Decision) float64 { return float64(d.Ready) }},
	{"forewarm_replicas", []string{"state", "pending"}, "",
		func(d *alerting.Decision) float64 { return float64(d.Pending) }},
	{"forewarm_floor_replicas", nil, "Replicas that the load of this minute takes, forecast or not.",
		func(d *alerting.Decision) float64 {
			if floor := d.SeenFloor(); floor != nil {
				return float64(*floor)
			}
			return math.NaN()
		}},
	{"forewarm_lead_time_seconds", nil, "How far ahead advice looks: the warm-up lag at its quantile.",
		func(d *alerting.Decision) float64 { return d.Lead.Seconds() }},
}

// resourceColumns are stored of the evidence of a decision. Labels: pool, resource.
var resourceColumns = []column[*alerting.ResourceEvidence]{
	{"forewarm_saturation_probability", []string{"horizon", "lead"},
		"Probability that the resource runs out within the lead window (horizon lead) if nothing is done.",
		func(r *alerting.ResourceEvidence) float64 { return r.Probability }},
	{"forewarm_saturation_eta_seconds", []string{"quantile", "0.1"},
		"Time until the resource runs out, by quantile; +Inf when not within the horizon.",
		func(r *alerting.ResourceEvidence) float64 { return forecaster.Seconds(r.ETA.P10) }},
	{"forewarm_saturation_eta_seconds", []string{"quantile", "0.5"}, "",
		func(r *alerting.ResourceEvidence) float64 { return forecaster.Seconds(r.ETA.P50) }},
	{"forewarm_saturation_eta_seconds", []string{"quantile", "0.9"}, "",
		func(r *alerting.ResourceEvidence) float64 { return forecaster.Seconds(r.ETA.P90) }},
	{"forewarm_resource_needed_replicas", nil, "Replicas that the resource takes at the pool's quantile.",
		func(r *alerting.ResourceEvidence) float64 { return float64(r.NeedReplicas) }},
	{"forewarm_replica_capacity", nil, "What one replica holds or does, in the resource's unit.",
		func(r *alerting.ResourceEvidence) float64 { return r.PerReplica }},
}

// SeriesHelp describes each series of a [Store], by name. All are gauges.
func SeriesHelp() map[string]string {
	all := map[string]string{
		ForecastSeries: "Demand forecast, stamped with the time of issue; horizon is in minutes, or the maximum over 15 to 30. Class * is the pool.",
	}
	for _, d := range features.Dimensions {
		all[d.Series] = d.Help
	}
	describe(all, shapeColumns)
	describe(all, latencyColumns)
	describe(all, poolColumns)
	describe(all, resourceColumns)
	return all
}

func describe[T any](all map[string]string, columns []column[T]) {
	for _, c := range columns {
		if c.help != "" {
			all[c.series] = c.help
		}
	}
}

// series returns the labels of a series, from its name and other labels: names and values in turn.
func series(name string, with ...string) labels.Labels {
	b := labels.NewScratchBuilder(8)
	b.Add(model.MetricNameLabel, name)
	for i := 0; i < len(with); i += 2 {
		b.Add(with[i], with[i+1])
	}
	b.Sort()
	return b.Labels()
}
