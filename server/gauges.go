package server

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/pipeline"
)

// Horizons in minutes ahead, and levels as indices into forecaster.Levels, that are exported as gauges.
var (
	probabilityHorizons = []int{15, 30, 60}
	forecastHorizons    = []int{15, 30}
	forecastQuantiles   = []int{forecaster.L50, forecaster.L90, forecaster.L95}
)

type family struct{ name, kind, help string }

// add adds one sample of a family; labels alternate names and values. An unknown value (NaN) is left out.
type add func(family string, value float64, labels ...string)

// families are the gauges of a tick. Series that are not in the last tick are deleted. By Prometheus' conventions only
// summaries have a label quantile, so gauges with that label have no declared type.
var families = append([]family{
	{"forewarm_advice_valid", "gauge", "1 when an autoscaler may obey the decision: the mode is active, telemetry is fresh, and enough of it is known (5 minutes if replicas report, else an hour)."},
	{"forewarm_alerts_firing", "gauge", "Alerts that are firing."},
	{"forewarm_below_reserve", "gauge", "1 when the pool serves its demand, but would not after a failure that it keeps replicas for. Prefill replicas of a disaggregated pool have role prefill. Absent while demand or capacity is unknown."},
	{"forewarm_binding_resource", "gauge", "1 for the resource of the pool that needs most replicas, in a disaggregated pool most decode replicas."},
	{"forewarm_desired_replicas", "gauge", "Replicas that the pool should have, with those that are starting, also where the advice may not be obeyed: autoscalers join it with forewarm_advice_valid == 1. A disaggregated pool has one value for each role, too."},
	{"forewarm_driver_change", "gauge", "How much a cause behind a rise changed: the newest value over that of an hour ago. For cause mix it is the share of the pool's requests, for cache the hit ratio, for retries the share of attempts."},
	{"forewarm_floor_replicas", "gauge", "Replicas that the load of this minute needs, without a forecast."},
	{"forewarm_forecast", "untyped", "Demand forecast a number of minutes ahead; class * is the pool."},
	{"forewarm_forecast_coverage_ratio", "gauge", "Share of outcomes at or below the published quantile of the largest of the minutes 15 to 30, over about a week. Absent before a day is known."},
	{"forewarm_forecast_fallback", "gauge", "1 when, in the forecast of the pool's total, the last value weighs more than the network's forecast, because recent outcomes were nearer to it."},
	{"forewarm_headroom_ratio", "gauge", "Median of the smallest free share of the capacity within the lead window. Negative when the pool is short, absent without a replica."},
	{"forewarm_headroom_after_failure_ratio", "gauge", "forewarm_headroom_ratio without the replicas that are kept for failures. Absent where none are kept, or none would be left."},
	{"forewarm_latency_objective_ratio", "gauge", "90th percentile of the newest minutes' time to first token (ttft) or time per output token (itl), over the pool's objective."},
	{"forewarm_lead_time_seconds", "gauge", "Warm-up lag that decisions look beyond. Scaling cannot avert anything nearer."},
	{"forewarm_limit_replicas", "gauge", "Most replicas that the pool's bounds allow. Prefill replicas of a disaggregated pool have role prefill."},
	{"forewarm_needed_replicas", "gauge", "Replicas that would be asked for without bounds and steps: for demand at its quantile, reserves and the floor, and those that may not be given up yet. Prefill replicas of a disaggregated pool have role prefill."},
	{"forewarm_pool_stale", "gauge", "1 when telemetry of the pool is too old to forecast from."},
	{"forewarm_producer_clock_skew_seconds", "gauge", "Least difference between a producer's clock and the stream's: positive when it is ahead, negative when it is behind or holds records back."},
	{"forewarm_producer_fault", "gauge", "1 while a producer's clock is ahead (clock_ahead), is behind or holds records back (clock_behind), or it alone of its pool is silent."},
	{"forewarm_kv_sharing_ratio", "gauge", "Share of a request's KV tokens that counts in the cache, because requests share prefixes. 1 unless the evidence is good."},
	{"forewarm_queue_growing", "gauge", "1 when more came in the newest minute than the pool could serve. Its throughput is then its capacity, not the demand. Absent in a minute without telemetry."},
	{"forewarm_replicas", "gauge", "Replicas of the pool as the last decision counted them."},
	{"forewarm_retry_attempts_ratio", "gauge", "Share of the attempts of the last three minutes that were retries."},
	{"forewarm_retry_load_ratio", "gauge", "Load of all attempts over that of the calls in the last ten minutes. Demand and forecasts are multiplied by it for projections and decisions."},
	{"forewarm_saturation_eta_seconds", "untyped", "Quantile of the time to saturation; +Inf beyond the forecast horizon."},
	{"forewarm_saturation_probability", "gauge", "Probability that demand exceeds capacity within a number of minutes, or the lead window."},
	{"forewarm_telemetry_age_seconds", "gauge", "Time from the newest event of the pool to the tick. 0 when the event is newer."},
	{"forewarm_utilisation_ratio", "gauge", "Demand of the newest minute over the capacity of ready replicas."},
	{"forewarm_warning_probability", "gauge", "Probability that demand exceeds capacity within the lead time and 15 minutes."},
	{"forewarm_warning_threshold", "gauge", "The pool is warned when forewarm_warning_probability is at least this value in two minutes in a row."},
}, demand()...)

// demand is the demand of whole pools in the newest minute, with the names of the stored series.
func demand() (out []family) {
	for _, d := range features.Forecast {
		out = append(out, family{d.Series, "gauge", d.Help})
	}
	return out
}

func collect(out *pipeline.Output, add add) {
	for i := range out.Pools {
		p := &out.Pools[i]
		ofPool := func(family string, value float64, labels ...string) {
			add(family, value, append([]string{"pool", p.Pool}, labels...)...)
		}
		if p.Decision != nil {
			collectDecision(p.Decision, ofPool)
			ofPool("forewarm_lead_time_seconds", p.Projection.Lead.Seconds())
		}
		collectForecasts(&p.Forecast, add)
		for r := range resources(p.Projection) {
			collectResource(r, func(family string, value float64, labels ...string) {
				ofPool(family, value, append([]string{"resource", r.Dimension}, labels...)...)
			})
		}
		m := &p.Forecast.Minute
		if !m.Start.IsZero() { // it is zero in a pool without telemetry, of which only history was loaded
			ofPool("forewarm_kv_sharing_ratio", m.KVRatio)
		}
		if m.Covered {
			ofPool("forewarm_queue_growing", boolean(m.QueueGrowing))
		}
		if !m.LastEvent.IsZero() {
			ofPool("forewarm_telemetry_age_seconds", max(0, out.Tick.Sub(m.LastEvent).Seconds()))
		}
		for _, f := range m.Faults {
			ofPool("forewarm_producer_fault", 1, "source", f.Producer, "kind", string(f.Kind))
		}
	}
	for i := range out.Producers {
		add("forewarm_producer_clock_skew_seconds", float64(out.Producers[i].Skew), "source", out.Producers[i].Name)
	}
	for i := range out.Alerts {
		if a := &out.Alerts[i]; !a.Resolved {
			add("forewarm_alerts_firing", 1, "alertname", string(a.Name), "pool", a.Labels["pool"], "resource", a.Labels["resource"])
		}
	}
}

// collectDecision adds the samples of a decision; add adds the label pool.
func collectDecision(d *alerting.Decision, add add) {
	add("forewarm_advice_valid", boolean(d.Withheld == "" && d.Mode == alerting.Active), "mode", string(d.Mode))
	add("forewarm_replicas", float64(d.Pending), "state", "pending")
	add("forewarm_replicas", float64(d.Ready), "state", "ready")
	for _, role := range rolesIn(d) {
		add("forewarm_desired_replicas", float64(replicasOf(d, role)), "role", role)
	}
	if floor := d.SeenFloor(); floor != nil {
		add("forewarm_floor_replicas", float64(*floor))
	}
	if d.WarnFrom > 0 {
		add("forewarm_warning_threshold", d.WarnFrom)
	}
	side := func(d *alerting.Decision, role string) {
		if len(d.Resources) > 0 {
			add("forewarm_below_reserve", boolean(d.BelowReserve()), "role", role)
		}
		add("forewarm_limit_replicas", float64(d.Limit), "role", role)
		add("forewarm_needed_replicas", float64(d.Needed), "role", role)
	}
	side(d, RoleAll)
	if prefill := d.Prefilling(); prefill != nil {
		side(prefill, RolePrefill)
	}
	for _, r := range d.Resources {
		add("forewarm_binding_resource", boolean(r.Dimension == d.Binding), "resource", r.Dimension)
	}
	for _, r := range slices.Concat(d.Resources, d.Prompts) {
		add("forewarm_saturation_probability", r.Probability, "resource", r.Dimension, "horizon", "lead")
		add("forewarm_warning_probability", r.Ahead, "resource", r.Dimension)
	}
	for i, x := range d.Drivers { // each class and cause once
		same := func(y forecaster.Driver) bool { return y.Class == x.Class && y.Cause == x.Cause }
		if x.Cause != "" && slices.IndexFunc(d.Drivers, same) == i {
			add("forewarm_driver_change", x.Factor, "class", x.Class, "cause", x.Cause)
		}
	}
	for _, x := range d.Objectives {
		add("forewarm_latency_objective_ratio", x.P90/x.Stated, "latency", x.Latency)
	}
}

// collectResource adds the samples of a projected resource; add adds the labels pool and resource.
func collectResource(r *forecaster.ResourceProjection, add add) {
	add("forewarm_headroom_ratio", r.Headroom.P50)
	if r.AfterFailure != nil {
		add("forewarm_headroom_after_failure_ratio", r.AfterFailure.P50)
	}
	add("forewarm_utilisation_ratio", r.Utilisation)
	add("forewarm_saturation_eta_seconds", forecaster.Seconds(r.ETA.P10), "quantile", "0.1")
	add("forewarm_saturation_eta_seconds", forecaster.Seconds(r.ETA.P50), "quantile", "0.5")
	add("forewarm_saturation_eta_seconds", forecaster.Seconds(r.ETA.P90), "quantile", "0.9")
	for _, h := range probabilityHorizons {
		add("forewarm_saturation_probability", r.Probability[h-1], "horizon", strconv.Itoa(h))
	}
}

func collectForecasts(pf *forecaster.PoolForecast, add add) {
	add("forewarm_pool_stale", boolean(pf.Stale), "pool", pf.Pool)
	add("forewarm_retry_attempts_ratio", pf.Retries.Share, "pool", pf.Pool)
	for _, f := range slices.Concat(pf.Total, pf.Classes) {
		labels := []string{"pool", f.Pool, "class", f.Class, "dimension", f.Dimension}
		for _, l := range forecastQuantiles {
			for _, h := range forecastHorizons {
				add("forewarm_forecast", f.Minute[h-1][l], append(labels, "horizon", strconv.Itoa(h), "quantile", level(l))...)
			}
			add("forewarm_forecast", f.WindowMax[l], append(labels, "horizon", "max15_30", "quantile", level(l))...)
		}
	}
	for i := range pf.Total {
		f := &pf.Total[i]
		labels := []string{"pool", f.Pool, "dimension", f.Dimension}
		add("forewarm_forecast_fallback", boolean(f.Fallback), labels...)
		add("forewarm_retry_load_ratio", pf.Factor(f.Dimension), labels...)
		d, _ := features.DimensionByName(f.Dimension)
		add(d.Series, f.Now.Mean, "class", f.Class, "pool", f.Pool)
		if covered := &f.Basis.Covered; covered.N >= forecaster.OriginsPerDay {
			for _, l := range forecastQuantiles {
				add("forewarm_forecast_coverage_ratio", float64(covered.Below[l]), append(labels, "level", level(l))...)
			}
		}
	}
}

func level(i int) string { return strconv.FormatFloat(forecaster.Levels[i], 'g', -1, 64) }

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// render writes the samples that collect adds in the text exposition format, by family.
func render(families []family, collect func(add)) []byte {
	texts := make(map[string]*bytes.Buffer, len(families))
	for _, f := range families {
		texts[f.name] = &bytes.Buffer{}
	}
	collect(func(family string, value float64, labels ...string) {
		if math.IsNaN(value) {
			return
		}
		b := texts[family] // of a family that is not listed it is nil, and the next line panics
		b.WriteString(family + "{")
		for i := 0; i < len(labels); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(labels[i] + `="` + labelEscaper.Replace(labels[i+1]) + `"`)
		}
		b.WriteString("} " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
	})
	var out bytes.Buffer
	for _, f := range families {
		if b := texts[f.name]; b.Len() > 0 {
			out.WriteString("# HELP " + f.name + " " + f.help + "\n# TYPE " + f.name + " " + f.kind + "\n")
			_, _ = b.WriteTo(&out)
		}
	}
	return out.Bytes()
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
