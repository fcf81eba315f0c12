package server

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/pipeline"
)

// probabilityHorizons and forecastHorizons are the minutes ahead that are exported as gauges.
var (
	probabilityHorizons = []int{15, 30, 60}
	forecastHorizons    = []int{15, 30}
)

// forecastQuantiles are the levels that are exported as gauges: indices into forecaster.Levels.
var forecastQuantiles = []int{forecaster.L50, forecaster.L90, forecaster.L95}

const (
	gauge   = prometheus.GaugeValue
	untyped = prometheus.UntypedValue
)

// family is one metric; its labels are separated by spaces.
type family struct {
	name, help string
	kind       prometheus.ValueType
	labels     string
}

// add adds one sample of a family with the values of its labels. An unknown value (NaN) is left out.
type add func(family string, value float64, labels ...string)

// families are the gauges of a tick, and of the shape of demand. By Prometheus' conventions only
// summaries have a label quantile, so gauges with that label have no declared type.
var families = append([]family{
	{"forewarm_advice_valid", "1 when an autoscaler may obey the decision: the mode is active, telemetry is fresh, and enough of it is known (5 minutes if replicas report, else an hour).", gauge, "pool mode"},
	{"forewarm_alerts_firing", "Alerts that are firing.", gauge, "alertname pool resource"},
	{"forewarm_below_reserve", "1 when the pool serves its demand, but would not after a failure that it keeps replicas for. Prefill replicas of a disaggregated pool have role prefill.", gauge, "pool role"},
	{"forewarm_binding_resource", "1 for the resource of the pool that needs most replicas.", gauge, "pool resource"},
	{"forewarm_desired_replicas", "Replicas that the pool should have, with those that are starting, also where the advice may not be obeyed: autoscalers join it with forewarm_advice_valid == 1. A disaggregated pool has one value for each role, too.", gauge, "pool role"},
	{"forewarm_driver_change", "How much a cause behind a rise changed: the newest value over that of an hour ago. For cause mix it is the share of the pool's requests, for cache the hit ratio, for retries the share of attempts.", gauge, "pool class cause"},
	{"forewarm_floor_replicas", "Replicas that the load of this minute needs, without a forecast.", gauge, "pool"},
	{"forewarm_forecast", "Demand forecast a number of minutes ahead; class * is the pool.", untyped, "pool class dimension horizon quantile"},
	{"forewarm_forecast_coverage_ratio", "Share of outcomes at or below the published quantile of the largest of the minutes 15 to 30, over about a week. Absent before a day is known.", gauge, "pool dimension level"},
	{"forewarm_forecast_fallback", "1 when the last value has been the better forecast lately and has the larger part in the forecast of the pool's total.", gauge, "pool dimension"},
	{"forewarm_headroom_ratio", "Median of the smallest free share of the capacity within the lead window. Negative when the pool is short, absent without a replica.", gauge, "pool resource"},
	{"forewarm_headroom_after_failure_ratio", "forewarm_headroom_ratio without the replicas that are kept for failures. Absent where none are kept, or none would be left.", gauge, "pool resource"},
	{"forewarm_latency_objective_ratio", "90th percentile of the newest minutes' time to first token (ttft) or time per output token (itl), over the pool's objective.", gauge, "pool latency"},
	{"forewarm_lead_time_seconds", "Warm-up lag that decisions look beyond. Scaling cannot avert anything nearer.", gauge, "pool"},
	{"forewarm_limit_replicas", "Most replicas that the pool's bounds allow. Prefill replicas of a disaggregated pool have role prefill.", gauge, "pool role"},
	{"forewarm_needed_replicas", "Replicas that would be asked for without bounds and steps: for demand at its quantile, reserves and the floor, and those that may not be given up yet. Prefill replicas of a disaggregated pool have role prefill.", gauge, "pool role"},
	{"forewarm_pool_stale", "1 when telemetry of the pool is too old to forecast from.", gauge, "pool"},
	{"forewarm_producer_clock_skew_seconds", "Least difference between a producer's clock and the stream's: positive when it is ahead, negative when it is behind or holds records back.", gauge, "source"},
	{"forewarm_producer_fault", "1 while a producer's clock is ahead (clock_ahead), is behind or holds records back (clock_behind), or it alone of its pool is silent.", gauge, "pool source kind"},
	{"forewarm_kv_sharing_ratio", "Share of a request's KV tokens that counts in the cache, because requests share prefixes. 1 unless the evidence is good.", gauge, "pool"},
	{"forewarm_queue_growing", "1 when more came in the newest minute than the pool could serve. Its throughput is then its capacity, not the demand.", gauge, "pool"},
	{"forewarm_replicas", "Replicas of the pool as the last decision counted them.", gauge, "pool state"},
	{"forewarm_retry_attempts_ratio", "Share of the attempts of the last three minutes that were retries.", gauge, "pool"},
	{"forewarm_retry_load_ratio", "Load of all attempts over that of the calls in the last ten minutes. Demand and forecasts are multiplied by it for projections and decisions.", gauge, "pool dimension"},
	{"forewarm_saturation_eta_seconds", "Quantile of the time to saturation; +Inf beyond the forecast horizon.", untyped, "pool resource quantile"},
	{"forewarm_saturation_probability", "Probability that demand exceeds capacity within a number of minutes, or the lead window.", gauge, "pool resource horizon"},
	{"forewarm_scaling_actions_per_day", "Times in the last day that more or fewer replicas were asked for.", gauge, "pool"},
	{"forewarm_telemetry_age_seconds", "Time from the newest event of the pool to the tick. 0 when the event is newer.", gauge, "pool"},
	{"forewarm_utilisation_ratio", "Demand of the newest minute over the capacity of ready replicas.", gauge, "pool resource"},
	{"forewarm_warning_probability", "Probability that demand exceeds capacity within the lead time and 15 minutes.", gauge, "pool resource"},
	{"forewarm_warning_threshold", "The pool is warned when forewarm_warning_probability reaches this value.", gauge, "pool"},
	{"forewarm_traffic_burst_seconds", "Length of bursts in the last day, by quantile. A burst is a run of minutes above twice the mean. Quantile 1 is the longest; class * is the pool.", untyped, "pool class dimension quantile"},
	{"forewarm_traffic_bursts", "Bursts in the last day. A burst is a run of minutes above twice the mean. Class * is the pool.", gauge, "pool class dimension"},
	{"forewarm_traffic_demand", "Demand in the minutes of the last day, by quantile, in the dimension's unit. Class * is the pool.", untyped, "pool class dimension quantile"},
	{"forewarm_traffic_peak_to_mean_ratio", "Largest demand of one minute, or of 15 minutes in a row, over the mean of the last day. Class * is the pool.", gauge, "pool class dimension window"},
}, demand()...)

// demand is the demand of whole pools in the newest minute, with the names of the stored series.
func demand() (out []family) {
	for _, d := range features.Dimensions {
		if d.Forecast {
			out = append(out, family{d.Series, d.Help, gauge, "pool class"})
		}
	}
	return out
}

// collect adds the samples of a tick.
func collect(out *pipeline.Output, add add) {
	for i := range out.Decisions {
		d := &out.Decisions[i]
		collectDecision(d, func(family string, value float64, labels ...string) {
			add(family, value, append([]string{d.Pool}, labels...)...)
		})
	}
	for i := range out.Forecasts {
		collectForecasts(&out.Forecasts[i], add)
	}
	for i := range out.Projections {
		add("forewarm_lead_time_seconds", out.Projections[i].Lead.Seconds(), out.Projections[i].Pool)
		for _, p := range rolesOf(&out.Projections[i]) {
			for j := range p.Resources {
				collectResource(&p.Resources[j], func(family string, value float64, labels ...string) {
					add(family, value, append([]string{p.Pool, p.Resources[j].Dimension}, labels...)...)
				})
			}
		}
	}
	for i := range out.Pools {
		p := &out.Pools[i]
		add("forewarm_kv_sharing_ratio", p.KVRatio, p.Pool)
		add("forewarm_queue_growing", boolean(p.QueueGrowing), p.Pool)
		if !p.LastEvent.IsZero() {
			add("forewarm_telemetry_age_seconds", max(0, out.Tick.Sub(p.LastEvent).Seconds()), p.Pool)
		}
		for _, f := range p.Faults {
			add("forewarm_producer_fault", 1, p.Pool, f.Producer, string(f.Kind))
		}
	}
	for i := range out.Producers {
		add("forewarm_producer_clock_skew_seconds", float64(out.Producers[i].Skew), out.Producers[i].Name)
	}
	for i := range out.Alerts {
		if a := &out.Alerts[i]; !a.Resolved {
			add("forewarm_alerts_firing", 1, string(a.Name), a.Labels["pool"], a.Labels["resource"])
		}
	}
}

// collectDecision adds the samples of a decision; add adds the label pool.
func collectDecision(d *alerting.Decision, add add) {
	add("forewarm_advice_valid", boolean(d.Withheld == "" && d.Mode == alerting.Active), string(d.Mode))
	add("forewarm_replicas", float64(d.Pending), "pending")
	add("forewarm_replicas", float64(d.Ready), "ready")
	add("forewarm_scaling_actions_per_day", float64(d.ActionsPerDay))
	for _, role := range rolesIn(d) {
		add("forewarm_desired_replicas", float64(replicasOf(d, role)), role)
	}
	if floor := d.SeenFloor(); floor != nil {
		add("forewarm_floor_replicas", float64(*floor))
	}
	if d.WarnFrom > 0 {
		add("forewarm_warning_threshold", d.WarnFrom)
	}
	side := func(d *alerting.Decision, role string) {
		add("forewarm_below_reserve", boolean(d.BelowReserve()), role)
		add("forewarm_limit_replicas", float64(d.Limit), role)
		add("forewarm_needed_replicas", float64(d.Needed), role)
	}
	side(d, RoleAll)
	if prefill := d.Prefilling(); prefill != nil {
		side(prefill, RolePrefill)
	}
	for _, r := range d.Resources {
		add("forewarm_binding_resource", boolean(r.Dimension == d.Binding), r.Dimension)
	}
	for _, r := range slices.Concat(d.Resources, d.Prompts) {
		add("forewarm_saturation_probability", r.Probability, r.Dimension, "lead")
		add("forewarm_warning_probability", r.Ahead, r.Dimension)
	}
	for i, x := range d.Drivers { // each class and cause once
		same := func(y forecaster.Driver) bool { return y.Class == x.Class && y.Cause == x.Cause }
		if x.Cause != "" && slices.IndexFunc(d.Drivers, same) == i {
			add("forewarm_driver_change", x.Factor, x.Class, x.Cause)
		}
	}
	for _, x := range d.Objectives {
		add("forewarm_latency_objective_ratio", x.P90/x.Stated, x.Latency)
	}
}

// collectResource adds the samples of a projected resource; add adds the labels pool and resource.
func collectResource(r *forecaster.ResourceProjection, add add) {
	add("forewarm_headroom_ratio", r.Headroom.P50)
	if r.AfterFailure != nil {
		add("forewarm_headroom_after_failure_ratio", r.AfterFailure.Headroom.P50)
	}
	add("forewarm_utilisation_ratio", r.Utilisation)
	add("forewarm_saturation_eta_seconds", forecaster.Seconds(r.ETA.P10), "0.1")
	add("forewarm_saturation_eta_seconds", forecaster.Seconds(r.ETA.P50), "0.5")
	add("forewarm_saturation_eta_seconds", forecaster.Seconds(r.ETA.P90), "0.9")
	for _, h := range probabilityHorizons {
		add("forewarm_saturation_probability", r.Probability[h-1], strconv.Itoa(h))
	}
}

// collectForecasts adds the samples of the forecasts of a pool.
func collectForecasts(pf *forecaster.PoolForecast, add add) {
	add("forewarm_pool_stale", boolean(pf.Stale), pf.Pool)
	add("forewarm_retry_attempts_ratio", pf.Retries.Share, pf.Pool)
	for _, f := range slices.Concat(pf.Total, pf.Classes) {
		labels := []string{f.Pool, f.Class, f.Dimension}
		for _, l := range forecastQuantiles {
			for _, h := range forecastHorizons {
				add("forewarm_forecast", f.Minute[h-1][l], append(labels, strconv.Itoa(h), level(l))...)
			}
			add("forewarm_forecast", f.WindowMax[l], append(labels, "max15_30", level(l))...)
		}
	}
	for i := range pf.Total {
		f := &pf.Total[i]
		labels := []string{f.Pool, f.Dimension}
		add("forewarm_forecast_fallback", boolean(f.Fallback), labels...)
		add("forewarm_retry_load_ratio", pf.Factor(f.Dimension), labels...)
		if d, _ := features.DimensionByName(f.Dimension); d.Forecast {
			add(d.Series, f.Now.Mean, f.Pool, f.Class)
		}
		if covered := &f.Basis.Covered; covered.N >= forecaster.OriginsPerDay {
			for _, l := range forecastQuantiles {
				add("forewarm_forecast_coverage_ratio", float64(covered.Below[l]), append(labels, level(l))...)
			}
		}
	}
}

// level is a level of forecaster.Levels as a label.
func level(i int) string { return strconv.FormatFloat(forecaster.Levels[i], 'g', -1, 64) }

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// described are the families by name.
var described = func() map[string]description {
	all := make(map[string]description, len(families))
	for _, f := range families {
		all[f.name] = description{prometheus.NewDesc(f.name, f.help, strings.Fields(f.labels), nil), f.kind}
	}
	return all
}()

type description struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

// sampled are the samples that collect adds, without unknown values.
func sampled(collect func(add)) (all []prometheus.Metric) {
	collect(func(family string, value float64, labels ...string) {
		if math.IsNaN(value) {
			return
		}
		m, err := prometheus.NewConstMetric(described[family].Desc, described[family].kind, value, labels...)
		if err != nil {
			m = prometheus.NewInvalidMetric(described[family].Desc, err)
		}
		all = append(all, m)
	})
	return all
}
