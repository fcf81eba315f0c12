package storage

import (
	"maps"
	"math"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
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

// levelLabels has forecaster.Levels as label values.
var levelLabels = func() (out [forecaster.NumLevels]string) {
	for i, level := range forecaster.Levels {
		out[i] = strconv.FormatFloat(level, 'g', -1, 64)
	}
	return out
}()

// shapeLevels are the stored quantiles of each shape.
var shapeLevels = []struct {
	q     float64
	label string
}{{.5, "0.5"}, {.95, "0.95"}}

// A shape is a distribution over a minute's requests, with one series per level; labels pool, class, quantile.
type shape struct {
	series string
	value  func(w *features.Window, q float64) float64
}

const (
	promptSeries = "forewarm_prompt_tokens"
	outputSeries = "forewarm_output_tokens"
)

var shapes = []shape{
	{promptSeries, func(w *features.Window, q float64) float64 { return w.Prompt.Quantile(q) }},
	{outputSeries, func(w *features.Window, q float64) float64 { return w.Output.Quantile(q) }},
	{"forewarm_ttft_seconds", func(w *features.Window, q float64) float64 { return w.TTFT.Quantile(q) }},
	{"forewarm_itl_seconds", func(w *features.Window, q float64) float64 { return w.ITL.Quantile(q) }},
}

// A lateValue is one number of the late data, stored with the next minute that settled, if it is not 0; labels pool,
// class.
type lateValue struct {
	series string
	value  func(l *features.Late) float64
}

var lateValues = []lateValue{
	{"forewarm_late_records", func(l *features.Late) float64 { return l.Records }},
	{"forewarm_late_requests", func(l *features.Late) float64 { return l.Requests }},
	{"forewarm_late_prompt_tokens", func(l *features.Late) float64 { return l.PromptTokens }},
	{"forewarm_late_cached_tokens", func(l *features.Late) float64 { return l.CachedTokens }},
	{"forewarm_late_output_tokens", func(l *features.Late) float64 { return l.OutputTokens }},
	{"forewarm_late_kv_token_seconds", func(l *features.Late) float64 { return l.KVTokenSeconds }},
}

// A poolValue is one number of a decision. Labels: pool, and another if several series share a name. Names and labels
// are those of /metrics.
type poolValue struct {
	series string
	label  [2]string
	value  func(d *alerting.Decision) float64
}

var poolValues = []poolValue{
	{"forewarm_desired_replicas", [2]string{"role", "all"}, func(d *alerting.Decision) float64 { return float64(d.Desired) }},
	{"forewarm_replicas", [2]string{"state", "ready"}, func(d *alerting.Decision) float64 { return float64(d.Ready) }},
	{"forewarm_replicas", [2]string{"state", "pending"}, func(d *alerting.Decision) float64 { return float64(d.Pending) }},
	{"forewarm_floor_replicas", [2]string{}, seenFloor},
	{"forewarm_lead_time_seconds", [2]string{}, func(d *alerting.Decision) float64 { return d.Lead.Seconds() }},
}

func seenFloor(d *alerting.Decision) float64 {
	if floor := d.SeenFloor(); floor != nil {
		return float64(*floor)
	}
	return math.NaN() // not stored
}

// A resourceValue is one number of a decision's evidence. Labels: pool, resource, and another if several share a name.
type resourceValue struct {
	series string
	label  [2]string
	value  func(r *alerting.ResourceEvidence) float64
}

var resourceValues = []resourceValue{
	{"forewarm_saturation_probability", [2]string{"horizon", "lead"}, func(r *alerting.ResourceEvidence) float64 { return r.Probability }},
	{"forewarm_saturation_eta_seconds", [2]string{"quantile", "0.1"}, func(r *alerting.ResourceEvidence) float64 { return forecaster.Seconds(r.ETA.P10) }},
	{"forewarm_saturation_eta_seconds", [2]string{"quantile", "0.5"}, func(r *alerting.ResourceEvidence) float64 { return forecaster.Seconds(r.ETA.P50) }},
	{"forewarm_saturation_eta_seconds", [2]string{"quantile", "0.9"}, func(r *alerting.ResourceEvidence) float64 { return forecaster.Seconds(r.ETA.P90) }},
	{"forewarm_resource_needed_replicas", [2]string{}, func(r *alerting.ResourceEvidence) float64 { return float64(r.NeedReplicas) }},
	{"forewarm_replica_capacity", [2]string{}, func(r *alerting.ResourceEvidence) float64 { return r.PerReplica }},
}

// seriesKey identifies a series by its labels, without those that are "". more is a label that only some series have.
type seriesKey struct {
	name, pool, class                      string
	dimension, horizon, quantile, resource string
	more                                   [2]string
}

// demandKey identifies a series of a class's demand.
func demandKey(name string, of features.Key) seriesKey {
	return seriesKey{name: name, pool: of.Pool, class: of.Class}
}

func (k *seriesKey) labels() labels.Labels {
	b := labels.NewScratchBuilder(8)
	for _, l := range [...][2]string{
		{model.MetricNameLabel, k.name}, {"class", k.class}, {"dimension", k.dimension}, {"horizon", k.horizon},
		{"pool", k.pool}, {"quantile", k.quantile}, {"resource", k.resource}, k.more,
	} {
		if l[1] != "" {
			b.Add(l[0], l[1])
		}
	}
	b.Sort()
	return b.Labels()
}

// series is one series of the TSDB.
type series struct {
	ref    promstorage.SeriesRef
	labels labels.Labels
	last   int64 // newest sample, Unix ms
	used   int64 // newest tick that wrote to it, Unix ms
}

// seriesHelp describes the series that no other table describes.
var seriesHelp = map[string]string{
	ForecastSeries:                      "Demand forecast, stamped with the time of issue; horizon is in minutes, or the maximum over 15 to 30. Class * is the pool.",
	"forewarm_prompt_tokens":            "Prompt tokens of a call, as a quantile over the minute's calls.",
	"forewarm_output_tokens":            "Output tokens of a call, as a quantile over the minute's calls.",
	"forewarm_ttft_seconds":             "Time to first token, as a quantile over the minute's calls.",
	"forewarm_itl_seconds":              "Time between output tokens, as a quantile over the minute's calls.",
	"forewarm_late_records":             "Records that came too late for their own minute.",
	"forewarm_late_requests":            "Calls that came too late for their own minute.",
	"forewarm_late_prompt_tokens":       "Prompt tokens that came too late for their own minute.",
	"forewarm_late_cached_tokens":       "Cached prompt tokens that came too late for their own minute.",
	"forewarm_late_output_tokens":       "Output tokens that came too late for their own minute.",
	"forewarm_late_kv_token_seconds":    "KV-cache token-seconds that came too late for their own minute.",
	"forewarm_desired_replicas":         "Replicas that the pool should have, pending ones included.",
	"forewarm_replicas":                 "Replicas by state: ready, or pending on their way.",
	"forewarm_floor_replicas":           "Replicas that the load of this minute takes, forecast or not.",
	"forewarm_lead_time_seconds":        "How far ahead advice looks: the warm-up lag at its quantile.",
	"forewarm_saturation_probability":   "Probability that the resource runs out within the lead window (horizon lead) if nothing is done.",
	"forewarm_saturation_eta_seconds":   "Time until the resource runs out, by quantile; +Inf when not within the horizon.",
	"forewarm_resource_needed_replicas": "Replicas that the resource takes at the pool's quantile.",
	"forewarm_replica_capacity":         "What one replica holds or does, in the resource's unit.",
}

// SeriesHelp describes each series of a [Store], by name. All are gauges.
func SeriesHelp() map[string]string {
	all := maps.Clone(seriesHelp)
	for _, d := range features.Dimensions {
		all[d.Series] = d.Help
	}
	return all
}
