package backtest

import (
	"math"
	"time"
)

func (r *runner) summary() Summary {
	s := Summary{
		Traces: r.traces, Start: r.start, Minutes: len(r.demand.Minutes), Origins: r.origins,
		Refused: r.pipeline.Counters().Refused, Scores: r.scores.all(),
	}
	for _, spec := range r.policies {
		if spec.New != nil {
			s.Policies = append(s.Policies, r.rival(&spec)...)
			continue
		}
		s.Policies = append(s.Policies, r.forewarm(&spec)...)
	}
	return s
}

// forewarm is how the pipeline did, among the variants at other quantiles.
func (r *runner) forewarm(spec *PolicySpec) (results []Result) {
	quantile := r.quantile()
	own := r.fluid.Result(spec.Name, spec.knob(quantile))
	for _, v := range r.variants {
		if own.Policy != "" && v.cfg.Quantile > quantile {
			results, own = append(results, own), Result{}
		}
		results = append(results, v.fluid.Result(spec.Name, spec.knob(v.cfg.Quantile)))
	}
	if own.Policy != "" {
		results = append(results, own)
	}
	return results
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
	for _, spec := range r.policies {
		if spec.New != nil || !r.cfg.Sweep {
			continue
		}
		for _, quantile := range spec.Settings {
			if quantile != r.quantile() {
				vs = append(vs, newVariant(r.pool, r.demand.Start, r.cfg.Seed, r.cfg.Decision, quantile))
			}
		}
	}
	return vs
}

// rival runs one policy over the same demand and the same draws.
func (r *runner) rival(spec *PolicySpec) (results []Result) {
	settings := []float64{spec.Default}
	if r.cfg.Sweep {
		settings = spec.Settings
	}
	for _, setting := range settings {
		p := NewFluidPool(r.pool, r.demand.Start, r.cfg.Seed)
		scene := Scene{PeakReplicas: r.peak(p), Lead: r.pool.Warmup.Quantile(.9) + time.Minute, Start: r.demand.Start}
		for _, load := range r.demand.Minutes {
			scene.Need = append(scene.Need, p.Need(load))
		}
		policy := spec.New(scene, setting)
		for _, load := range r.demand.Minutes {
			p.Step(load)
			o := p.Observe()
			n := policy.Desired(o)
			if setting == spec.Default && o.At.Unix()%int64(r.cfg.Decide/time.Second) == 0 {
				r.decisions.rival(r.start, r.pool.Name, spec.Name, o, n)
			}
			p.SetDesired(n)
		}
		results = append(results, p.Result(spec.Name, spec.knob(setting)))
	}
	return results
}

// peak is how many replicas the busiest minute needs.
func (r *runner) peak(p *FluidPool) int {
	most := 1.0
	for _, load := range r.demand.Minutes {
		most = max(most, p.Need(load))
	}
	return int(math.Ceil(most - 1e-6))
}
