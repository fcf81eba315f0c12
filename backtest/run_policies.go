package backtest

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/pipeline"
)

// createPools creates the pools of the run: of the pipeline, of Forewarm with other settings, and of rivals.
func (r *runner) createPools() {
	r.now = r.demand.Start
	scene := r.scene(NewFluidPool(r.pool, r.demand.Start, r.cfg.Seed))
	from := r.scores.from
	fixed := newFixedPool(r.pool, r.cfg.Decision, scene.Need, r.minutes(from), fixedPoolShare, from)
	r.fixedPools = []*fixedPool{fixed}
	for _, spec := range r.cfg.specs {
		pool := r.pool
		switch spec.Name {
		case ForewarmPolicy:
			spec.Knobs = slices.Clone(spec.Knobs)
			spec.Knobs[0].Default, _ = alerting.DecisionQuantile(&r.pool, r.cfg.Decision)
		case RecordedPolicy:
			if !r.hasReplicas() {
				continue
			}
			pool.Replicas = capacity.Replicas{Max: r.cfg.Recorded.peak(), Initial: r.cfg.Recorded.replicas(r.demand.Start)}
			pool.BudgetHourUSD = 0 // no other bound
			pool.Warmup = capacity.NewWarmup(time.Second, time.Second)
		}
		var all []*contender
		for _, set := range spec.settings(r.cfg.Sweep) {
			c := &contender{
				name: spec.Name, set: set, knob: spec.knob(set), isDefault: slices.Equal(set, spec.settings(false)[0]),
				pool: NewFluidPool(pool, r.demand.Start, r.cfg.Seed),
			}
			switch {
			case spec.New != nil:
				c.policy = spec.New(scene, set)
			case c.isDefault:
				r.own = c
			default:
				c.other = newVariant(r.pool, r.cfg.Decision, set[0])
			}
			all = append(all, c)
		}
		r.policies = append(r.policies, all)
	}
}

func (r *runner) summary() Summary {
	s := Summary{
		Trace: r.trace, Start: r.start, Minutes: len(r.demand.Minutes), Origins: r.origins, Holes: r.holes,
		Refused: r.pipeline.Counters().Refused, Scores: r.scores.all(),
		Alarms: r.fixedPools[0].alarms(),
	}
	if r.cfg.Recorded != nil {
		s.NotKnown = r.cfg.Recorded.notes(r.cfg.Pool == nil && r.hasReplicas())
	}
	for _, settings := range r.policies {
		for _, c := range settings {
			s.Policies = append(s.Policies, c.row())
		}
	}
	if r.cfg.Sweep && len(r.policies) > 1 {
		for _, target := range Targets {
			s.Comparisons = append(s.Comparisons, compare(r.policies, target))
		}
	}
	return s
}

// minutes returns the minutes of demand before t, a time in the trace.
func (r *runner) minutes(t time.Time) int { return int(t.Sub(r.demand.Start) / features.Minute) }

// scene returns the input for policies of p; p draws the warm-ups.
func (r *runner) scene(p *FluidPool) Scene {
	limit, _ := p.pool.Limit()
	s := Scene{
		Start: r.demand.Start, Min: p.pool.Replicas.Min, Max: limit, Initial: p.pool.Replicas.Initial,
		Lag: p.minutesToWarm(), Recorded: r.cfg.Recorded,
	}
	for _, load := range r.demand.Minutes[:r.minutes(r.until)] {
		s.Need = append(s.Need, p.Need(load))
	}
	return s
}

// minutesToWarm returns the warm-up of the k-th replica in whole minutes, drawn once each.
func (p *FluidPool) minutesToWarm() func(k int) int {
	var drawn []int
	return func(k int) int {
		for len(drawn) < k {
			drawn = append(drawn, int(math.Ceil(p.lag(uint64(len(drawn)+1)).Minutes())))
		}
		return drawn[k-1]
	}
}

// contender is one setting of one policy with its pool.
type contender struct {
	name, knob string // of the policy and its setting
	set        Setting
	isDefault  bool // the default setting in the documentation of the original, or Forewarm's configured one
	pool       *FluidPool
	policy     Policy   // nil for Forewarm
	other      *variant // Forewarm with another setting than the pipeline's; otherwise nil

	tuning Account       // of the part before the scored one
	track  []trackMinute // of the scored part
}

func (c *contender) row() Result {
	a := &c.pool.account
	return Result{
		Policy: c.name, Knob: c.knob, Default: c.isDefault,
		SaturatedShare: Number(a.SaturatedShare()), SaturatedMinutes: a.Saturated,
		SLOAttainment: Number(value.Share(a.Met, a.Asked)),
		GPUHours:      Number(a.GPUHours), ScaleActions: a.Actions,
		ReversedShare: Number(value.Share(float64(a.Reversed), float64(a.Actions))),
		ActionsPerDay: Number(value.Share(float64(a.Actions), float64(a.Minutes)/day)),
	}
}

// variant is Forewarm with another decision quantile and a simulated pool of its own. Forecasts and learned rates do
// not depend on the pool, so all variants use those of one pipeline, and its Calibrator.
type variant struct {
	pool     capacity.Pool // with the learned warm-up lag
	cfg      alerting.Config
	state    alerting.State
	signals  alerting.Signals
	replicas *features.Aggregator // of the reports
}

func newVariant(pool capacity.Pool, cfg alerting.Config, quantile float64) *variant {
	cfg.Quantile, pool.Quantile = quantile, quantile
	return &variant{pool: pool, cfg: cfg, replicas: features.New(features.DefaultConfig())}
}

// decide returns Forewarm's decision for a simulated pool at a tick, and scales the pool. f is the load of x.
func (v *variant) decide(
	tick *pipeline.Output, x *pipeline.PoolOutput, f *forecaster.PoolForecast, simulated *FluidPool,
) alerting.Decision {
	t := tick.Tick
	for _, report := range simulated.Reports(nil) {
		v.pool.Warmup.Observe(v.replicas.AddReplica(&report).Warmed)
	}
	v.replicas.AddWatermark(&ingest.Watermark{Pool: v.pool.Name, At: t})
	_, pools := v.replicas.Close(t)
	minute := f.Minute
	minute.State = pools[0].State
	pool := v.pool
	var waiting []time.Duration
	for _, since := range minute.State.PendingSince {
		waiting = append(waiting, t.Sub(since))
	}
	pool.Warmup, pool.Rates = v.pool.Warmup.Given(waiting), x.Trusted.Rates
	supply, _ := alerting.CurrentSupply(t, minute, &pool, v.state, v.cfg.Mode)
	window := forecaster.LeadTime(&pool.Warmup) + v.cfg.Hold
	own := alerting.Serving{Pool: &pool, Trusted: &x.Trusted, Role: capacity.DecodeRole}
	projection := forecaster.Project(f, own, &pool.Warmup, supply, pool.Reserves.Failure, window, x.Calibrator)
	i := slices.IndexFunc(tick.Minutes, func(m features.PoolMinute) bool { return m.Pool == v.pool.Name })
	v.signals = v.signals.Add(tick.Minutes[i].Latencies)
	in := alerting.Input{
		Projection: projection, Forecast: f, Pool: pool, Minute: minute, Sequence: tick.Sequence, Signals: v.signals, Limits: x.Limits,
	}
	var d alerting.Decision
	d, v.state = alerting.Decide(t, in, v.state, v.cfg)
	simulated.SetDesired(d.Desired)
	return d
}
