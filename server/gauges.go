package server

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

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

// add writes one sample of a family; labels alternate names and values.
type add func(value float64, labels ...string)

// familyOf is one metric rendered from a T.
type familyOf[T any] struct {
	name, kind, help string
	samples          func(out *T, add add)
}

// family is one metric that each tick sets. Series that are not in the last tick are deleted.
type family = familyOf[pipeline.Output]

// families are the gauges of a tick. By Prometheus' conventions only summaries have a label quantile, so the two gauges
// with that label have no declared type.
var families = []family{
	{"forewarm_advice_valid", "gauge", "1 when an autoscaler may obey the decision: the mode is active, telemetry is fresh, and enough of it is known (5 minutes if replicas report, else an hour).", each(decisions, func(d *alerting.Decision, add add) {
		add(truth(d.Withheld == "" && d.Mode == alerting.Active), "pool", d.Pool, "mode", string(d.Mode))
	})},
	{"forewarm_alerts_firing", "gauge", "Alerts that are firing.", func(out *pipeline.Output, add add) {
		for i := range out.Alerts {
			if a := &out.Alerts[i]; !a.Resolved {
				add(1, "alertname", string(a.Name), "pool", a.Labels["pool"], "resource", a.Labels["resource"])
			}
		}
	}},
	{"forewarm_below_reserve", "gauge", "1 when the pool serves its demand, but would not after a failure that it keeps replicas for. Prefill replicas of a disaggregated pool have role prefill.", func(out *pipeline.Output, add add) {
		eachSide(out, func(d *alerting.Decision, role string) { add(truth(d.BelowReserve()), "pool", d.Pool, "role", role) })
	}},
	{"forewarm_binding_resource", "gauge", "1 for the resource of the pool that needs most replicas.", each(decisions, func(d *alerting.Decision, add add) {
		for j := range d.Resources {
			add(truth(d.Resources[j].Dimension == d.Binding), "pool", d.Pool, "resource", d.Resources[j].Dimension)
		}
	})},
	{"forewarm_desired_replicas", "gauge", "Replicas that the pool should have, with those that are starting, also where the advice may not be obeyed: autoscalers join it with forewarm_advice_valid == 1. A disaggregated pool has one value for each role, too.", each(decisions, func(d *alerting.Decision, add add) {
		for _, role := range rolesIn(d) {
			add(float64(replicasOf(d, role)), "pool", d.Pool, "role", role)
		}
	})},
	{"forewarm_driver_change", "gauge", "How much a cause behind a rise changed: the newest value over that of an hour ago. For cause mix it is the share of the pool's requests, for cache the hit ratio, for retries the share of attempts.", each(decisions, func(d *alerting.Decision, add add) {
		eachChange(d, func(x *forecaster.Driver) {
			add(x.Factor, "pool", d.Pool, "class", x.Class, "cause", x.Cause)
		})
	})},
	{"forewarm_floor_replicas", "gauge", "Replicas that the load of this minute needs, without a forecast.", each(decisions, func(d *alerting.Decision, add add) {
		if floor := d.SeenFloor(); floor != nil {
			add(float64(*floor), "pool", d.Pool)
		}
	})},
	{"forewarm_forecast", "untyped", "Demand forecast a number of minutes ahead; class * is the pool.", each(forecasts, func(pf *forecaster.PoolForecast, add add) {
		for _, f := range slices.Concat(pf.Total, pf.Classes) {
			addForecast(add, &f)
		}
	})},
	{"forewarm_forecast_coverage_ratio", "gauge", "Share of outcomes at or below the published quantile of the largest of the minutes 15 to 30, over about a week. Absent before a day is known.", each(forecasts, func(pf *forecaster.PoolForecast, add add) {
		for j := range pf.Total {
			f := &pf.Total[j]
			if covered := &f.Basis.Covered; covered.N >= forecaster.OriginsPerDay {
				for _, l := range forecastQuantiles {
					add(float64(covered.Below[l]), "pool", f.Pool, "dimension", f.Dimension, "level", strconv.FormatFloat(forecaster.Levels[l], 'g', -1, 64))
				}
			}
		}
	})},
	{"forewarm_forecast_fallback", "gauge", "1 when the last value has been the better forecast lately and has the larger part in the forecast of the pool's total.", each(forecasts, func(pf *forecaster.PoolForecast, add add) {
		for j := range pf.Total {
			f := &pf.Total[j]
			add(truth(f.Fallback), "pool", f.Pool, "dimension", f.Dimension)
		}
	})},
	{"forewarm_headroom_ratio", "gauge", "Median of the smallest free share of the capacity within the lead window. Negative when the pool is short, absent without a replica.", func(out *pipeline.Output, add add) {
		eachResource(out, func(pool string, r *forecaster.ResourceProjection) {
			add(r.Headroom.P50, "pool", pool, "resource", r.Dimension)
		})
	}},
	{"forewarm_headroom_after_failure_ratio", "gauge", "forewarm_headroom_ratio without the replicas that are kept for failures. Absent where none are kept, or none would be left.", func(out *pipeline.Output, add add) {
		eachResource(out, func(pool string, r *forecaster.ResourceProjection) {
			if r.AfterFailure != nil {
				add(r.AfterFailure.Headroom.P50, "pool", pool, "resource", r.Dimension)
			}
		})
	}},
	{"forewarm_latency_objective_ratio", "gauge", "90th percentile of the newest minutes' time to first token (ttft) or time per output token (itl), over the pool's objective.", each(decisions, func(d *alerting.Decision, add add) {
		for _, x := range d.Objectives {
			add(x.P90/x.Stated, "pool", d.Pool, "latency", x.Latency)
		}
	})},
	{"forewarm_lead_time_seconds", "gauge", "Warm-up lag that decisions look beyond. Scaling cannot avert anything nearer.", each(projections, func(p *forecaster.Projection, add add) {
		add(p.Lead.Seconds(), "pool", p.Pool)
	})},
	{"forewarm_limit_replicas", "gauge", "Most replicas that the pool's bounds allow. Prefill replicas of a disaggregated pool have role prefill.", func(out *pipeline.Output, add add) {
		eachSide(out, func(d *alerting.Decision, role string) { add(float64(d.Limit), "pool", d.Pool, "role", role) })
	}},
	{"forewarm_needed_replicas", "gauge", "Replicas that would be asked for without bounds and steps: for demand at its quantile, reserves and the floor, and those that may not be given up yet. Prefill replicas of a disaggregated pool have role prefill.", func(out *pipeline.Output, add add) {
		eachSide(out, func(d *alerting.Decision, role string) { add(float64(d.Needed), "pool", d.Pool, "role", role) })
	}},
	{"forewarm_pool_stale", "gauge", "1 when telemetry of the pool is too old to forecast from.", each(forecasts, func(pf *forecaster.PoolForecast, add add) {
		add(truth(pf.Stale), "pool", pf.Pool)
	})},
	{"forewarm_producer_clock_skew_seconds", "gauge", "Least difference between a producer's clock and the stream's: positive when it is ahead, negative when it is behind or holds records back.", each(producers, func(p *features.ProducerState, add add) {
		add(p.Skew, "source", p.Name)
	})},
	{"forewarm_producer_fault", "gauge", "1 while a producer's clock is ahead (clock_ahead), is behind or holds records back (clock_behind), or it alone of its pool is silent.", each(pools, func(p *features.PoolMinute, add add) {
		for _, f := range p.Faults {
			add(1, "pool", p.Pool, "source", f.Producer, "kind", string(f.Kind))
		}
	})},
	{"forewarm_kv_sharing_ratio", "gauge", "Share of a request's KV tokens that counts in the cache, because requests share prefixes. 1 unless the evidence is good.", each(pools, func(p *features.PoolMinute, add add) {
		add(p.KVSharing.Ratio(), "pool", p.Pool)
	})},
	{"forewarm_queue_growing", "gauge", "1 when more came in the newest minute than the pool could serve. Its throughput is then its capacity, not the demand.", each(pools, func(p *features.PoolMinute, add add) {
		add(truth(p.QueueGrowing), "pool", p.Pool)
	})},
	{"forewarm_replicas", "gauge", "Replicas of the pool as the last decision counted them.", each(decisions, func(d *alerting.Decision, add add) {
		add(float64(d.Pending), "pool", d.Pool, "state", "pending")
		add(float64(d.Ready), "pool", d.Pool, "state", "ready")
	})},
	{"forewarm_retry_attempts_ratio", "gauge", "Share of the attempts of the last three minutes that were retries.", each(forecasts, func(pf *forecaster.PoolForecast, add add) {
		add(pf.Retries.Share, "pool", pf.Pool)
	})},
	{"forewarm_retry_load_ratio", "gauge", "Load of all attempts over that of the calls in the last ten minutes. Demand and forecasts are multiplied by it for projections and decisions.", each(forecasts, func(pf *forecaster.PoolForecast, add add) {
		for j := range pf.Total {
			add(pf.Factor(pf.Total[j].Dimension), "pool", pf.Pool, "dimension", pf.Total[j].Dimension)
		}
	})},
	{"forewarm_saturation_eta_seconds", "untyped", "Quantile of the time to saturation; +Inf beyond the forecast horizon.", func(out *pipeline.Output, add add) {
		eachResource(out, func(pool string, r *forecaster.ResourceProjection) { addETA(add, pool, r.Dimension, r.ETA) })
	}},
	{"forewarm_saturation_probability", "gauge", "Probability that demand exceeds capacity within a number of minutes, or the lead window.", func(out *pipeline.Output, add add) {
		eachEvidence(out, func(d *alerting.Decision, r *alerting.ResourceEvidence) {
			add(r.Probability, "pool", d.Pool, "resource", r.Dimension, "horizon", "lead")
		})
		eachResource(out, func(pool string, r *forecaster.ResourceProjection) {
			for _, h := range probabilityHorizons {
				add(r.Probability[h-1], "pool", pool, "resource", r.Dimension, "horizon", strconv.Itoa(h))
			}
		})
	}},
	{"forewarm_scaling_actions_per_day", "gauge", "Times in the last day that more or fewer replicas were asked for.", each(decisions, func(d *alerting.Decision, add add) {
		add(float64(d.ActionsPerDay), "pool", d.Pool)
	})},
	{"forewarm_telemetry_age_seconds", "gauge", "Time from the newest event of the pool to the tick. 0 when the event is newer.", func(out *pipeline.Output, add add) {
		for i := range out.Pools {
			if p := &out.Pools[i]; !p.LastEvent.IsZero() {
				add(max(0, out.Tick.Sub(p.LastEvent).Seconds()), "pool", p.Pool)
			}
		}
	}},
	{"forewarm_utilisation_ratio", "gauge", "Demand of the newest minute over the capacity of ready replicas.", func(out *pipeline.Output, add add) {
		eachResource(out, func(pool string, r *forecaster.ResourceProjection) {
			add(r.Utilisation, "pool", pool, "resource", r.Dimension)
		})
	}},
	{"forewarm_false_warnings_per_week", "gauge", "Expected false warnings per week at forewarm_warning_threshold. A warning that lasts counts once an hour. Absent until it is learned.", each(decisions, func(d *alerting.Decision, add add) {
		if d.FalsePerWeek > 0 {
			add(d.FalsePerWeek, "pool", d.Pool)
		}
	})},
	{"forewarm_warning_probability", "gauge", "Probability that demand exceeds capacity within the lead time and 15 minutes.", func(out *pipeline.Output, add add) {
		eachEvidence(out, func(d *alerting.Decision, r *alerting.ResourceEvidence) {
			add(r.Ahead, "pool", d.Pool, "resource", r.Dimension)
		})
	}},
	{"forewarm_warning_threshold", "gauge", "The pool is warned when forewarm_warning_probability reaches this value.", each(decisions, func(d *alerting.Decision, add add) {
		if d.WarnFrom > 0 {
			add(d.WarnFrom, "pool", d.Pool)
		}
	})},
}

// each makes the samples of every element of a part of the output.
func each[T any](part func(*pipeline.Output) []T, samples func(x *T, add add)) func(*pipeline.Output, add) {
	return func(out *pipeline.Output, add add) {
		all := part(out)
		for i := range all {
			samples(&all[i], add)
		}
	}
}

func decisions(out *pipeline.Output) []alerting.Decision       { return out.Decisions }
func pools(out *pipeline.Output) []features.PoolMinute         { return out.Pools }
func forecasts(out *pipeline.Output) []forecaster.PoolForecast { return out.Forecasts }
func producers(out *pipeline.Output) []features.ProducerState  { return out.Producers }
func projections(out *pipeline.Output) []forecaster.Projection { return out.Projections }

// eachEvidence visits the resources of the decisions.
func eachEvidence(out *pipeline.Output, visit func(d *alerting.Decision, r *alerting.ResourceEvidence)) {
	for i := range out.Decisions {
		d := &out.Decisions[i]
		for _, r := range slices.Concat(d.Resources, d.Prompts) {
			visit(d, &r)
		}
	}
}

// eachSide visits the decisions for a pool's own replicas, and for a disaggregated pool's prefill replicas.
func eachSide(out *pipeline.Output, visit func(d *alerting.Decision, role string)) {
	for i := range out.Decisions {
		visit(&out.Decisions[i], RoleAll)
		if prefill := out.Decisions[i].Prefilling(); prefill != nil {
			visit(prefill, RolePrefill)
		}
	}
}

// demand is the demand of whole pools in the newest minute, with the names of the stored series.
var demand = func() (out []family) {
	for _, dim := range features.Dimensions {
		if dim.Forecast {
			out = append(out, family{dim.Series, "gauge", dim.Help, func(o *pipeline.Output, add add) {
				for i := range o.Forecasts {
					if f := o.Forecasts[i].Of(dim.Name); f != nil {
						add(f.Now.Mean, "class", f.Class, "pool", f.Pool)
					}
				}
			}})
		}
	}
	return out
}()

// eachChange visits the changes of the classes that drive a pool's demand, each class and cause once.
func eachChange(d *alerting.Decision, visit func(x *forecaster.Driver)) {
	for i := range d.Drivers {
		x := &d.Drivers[i]
		same := func(y forecaster.Driver) bool { return y.Class == x.Class && y.Cause == x.Cause }
		if x.Cause != "" && slices.IndexFunc(d.Drivers, same) == i {
			visit(x)
		}
	}
}

func eachResource(out *pipeline.Output, visit func(pool string, r *forecaster.ResourceProjection)) {
	for i := range out.Projections {
		for _, p := range rolesOf(&out.Projections[i]) {
			for j := range p.Resources {
				visit(p.Pool, &p.Resources[j])
			}
		}
	}
}

func addForecast(add add, f *forecaster.Forecast) {
	labels := func(horizon string, level int) []string {
		return []string{"pool", f.Pool, "class", f.Class, "dimension", f.Dimension, "horizon", horizon,
			"quantile", strconv.FormatFloat(forecaster.Levels[level], 'g', -1, 64)}
	}
	for _, l := range forecastQuantiles {
		for _, h := range forecastHorizons {
			add(f.Minute[h-1][l], labels(strconv.Itoa(h), l)...)
		}
		add(f.WindowMax[l], labels("max15_30", l)...)
	}
}

func addETA(add add, pool, resource string, eta forecaster.ETA) {
	add(etaSeconds(eta.P10), "pool", pool, "resource", resource, "quantile", "0.1")
	add(etaSeconds(eta.P50), "pool", pool, "resource", resource, "quantile", "0.5")
	add(etaSeconds(eta.P90), "pool", pool, "resource", resource, "quantile", "0.9")
}

func etaSeconds(d time.Duration) float64 {
	if d == forecaster.Never {
		return math.Inf(1)
	}
	return d.Seconds()
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// render writes families of out in the text exposition format. Unknown values (NaN) are left out.
func render[T any](out *T, families []familyOf[T]) []byte {
	var b bytes.Buffer
	for _, f := range families {
		described := false
		f.samples(out, func(value float64, labels ...string) {
			if math.IsNaN(value) {
				return
			}
			if !described {
				b.WriteString("# HELP " + f.name + " " + f.help + "\n# TYPE " + f.name + " " + f.kind + "\n")
				described = true
			}
			b.WriteString(f.name + "{")
			for i := 0; i < len(labels); i += 2 {
				if i > 0 {
					b.WriteByte(',')
				}
				b.WriteString(labels[i] + `="` + labelEscaper.Replace(labels[i+1]) + `"`)
			}
			b.WriteString("} " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
		})
	}
	return b.Bytes()
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
