package backtest

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

func (r *runner) summary() Summary {
	s := Summary{
		Traces: r.traces, Start: r.start, Minutes: len(r.demand.Minutes), Origins: r.origins,
		Refused: r.pipeline.Counters().Refused, Scores: r.scores.all(),
	}
	field := field{specs: r.policies}
	for i := range r.policies {
		spec := &r.policies[i]
		outcomes := r.forewarm()
		if spec.New != nil {
			outcomes = r.rival(spec)
		}
		field.outcomes = append(field.outcomes, outcomes)
		for _, o := range outcomes {
			s.Policies = append(s.Policies, o.scored.result(spec.Name, spec.knob(o.set)))
		}
	}
	if r.cfg.Sweep && len(r.policies) > 1 {
		for _, target := range Targets {
			s.Comparisons = append(s.Comparisons, field.compare(target))
		}
	}
	return s
}

// forewarm is how the pipeline did, among the variants at other quantiles.
func (r *runner) forewarm() (outcomes []outcome) {
	outcomes = append(outcomes, r.outcome(Setting{r.quantile()}, r.tuned, r.fluid.Account()))
	for _, v := range r.variants {
		outcomes = append(outcomes, r.outcome(Setting{v.cfg.Quantile}, v.tuned, v.fluid.Account()))
	}
	slices.SortStableFunc(outcomes, func(a, b outcome) int { return slices.Compare(a.set, b.set) })
	return outcomes
}

func (r *runner) outcome(set Setting, tuned, all Account) outcome {
	return outcome{set: set, tuning: tuned, scored: all.Since(tuned)}
}

// quantile is the one that the pipeline's own decisions provide for.
func (r *runner) quantile() float64 {
	if r.pool.Quantile > 0 {
		return r.pool.Quantile
	}
	if r.cfg.Decision.Quantile > 0 {
		return r.cfg.Decision.Quantile
	}
	if tau, ok := r.pool.CostQuantile(); ok {
		return tau
	}
	return defaultQuantile
}

// makeVariants are Forewarm at the other settings of its knob, when a sweep is asked for.
func (r *runner) makeVariants() (vs []*variant) {
	for i := range r.policies {
		spec := &r.policies[i]
		if spec.New != nil {
			continue
		}
		for _, set := range spec.settings(r.cfg.Sweep) {
			if set[0] != r.quantile() && r.cfg.Sweep {
				vs = append(vs, newVariant(r.pool, r.demand.Start, r.cfg.Seed, r.cfg.Decision, set[0]))
			}
		}
	}
	return vs
}

// rival runs one policy over the same demand and the same draws.
func (r *runner) rival(spec *PolicySpec) (outcomes []outcome) {
	defaults := spec.defaults()
	for _, set := range spec.settings(r.cfg.Sweep) {
		p := NewFluidPool(r.pool, r.demand.Start, r.cfg.Seed)
		policy := spec.New(r.scene(p), set)
		var tuned Account
		for _, load := range r.demand.Minutes[:r.minutes(r.until)] {
			if p.now.Equal(r.scores.from) {
				tuned = p.Account()
			}
			p.Step(load)
			o := p.Observe()
			n := policy.Desired(o)
			if r.decisions != nil && slices.Equal(set, defaults) && o.At.Unix()%int64(r.cfg.Decide/time.Second) == 0 {
				r.decisions.rival(r.start, r.pool.Name, spec.Name, o, n)
			}
			p.SetDesired(n)
		}
		outcomes = append(outcomes, r.outcome(set, tuned, p.Account()))
	}
	return outcomes
}

// minutes is how many minutes of demand there are before t.
func (r *runner) minutes(t time.Time) int {
	return min(max(int(t.Sub(r.demand.Start)/features.Minute), 0), len(r.demand.Minutes))
}

// scene is what policies are made for: a pool like p.
func (r *runner) scene(p *FluidPool) Scene {
	most, _ := r.pool.Limit()
	future := &Future{
		Start: r.demand.Start, Min: r.pool.Replicas.Min, Max: most, Initial: r.pool.Replicas.Initial,
		Lag: p.minutesToWarm(),
	}
	peak := 1.0
	for _, load := range r.demand.Minutes[:r.minutes(r.until)] {
		need := p.Need(load)
		peak = max(peak, need)
		future.Need = append(future.Need, need)
	}
	return Scene{PeakReplicas: int(math.Ceil(peak - 1e-6)), Lead: r.pool.Warmup.Quantile(.9) + time.Minute, Future: future}
}

// minutesToWarm is the k-th replica's warm-up in whole minutes, each drawn once.
func (p *FluidPool) minutesToWarm() func(k int) int {
	var drawn []int
	return func(k int) int {
		for len(drawn) < k {
			drawn = append(drawn, int(math.Ceil(p.lag(uint64(len(drawn)+1)).Minutes())))
		}
		return drawn[k-1]
	}
}
