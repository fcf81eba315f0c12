package storage

import "github.com/forewarm/forewarm/features"

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
	all := make(map[string]string, len(seriesHelp)+len(features.Dimensions))
	for name, help := range seriesHelp {
		all[name] = help
	}
	for _, d := range features.Dimensions {
		all[d.Series] = d.Help
	}
	return all
}
