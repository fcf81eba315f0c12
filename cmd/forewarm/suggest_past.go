package main

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm"
	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

const (
	// learnDays before the period are what models learn from: a week has each day once.
	learnDays = 7
	// leastLearned must be known before what counts; of a first week the first day is learned from.
	leastLearned = 24 * time.Hour
	// mostDays of a longer period, the newest, are run again.
	mostDays = 14
	// fewestLags tell how long replicas take.
	fewestLags = 8
)

// pastPool is what a history keeps of a pool.
type pastPool struct {
	backtest.Past
	pool capacity.Pool // as configured, with the capacity that decisions had
	key  string        // of the pool in the configuration
	lags int           // that Past.Lag was told from
	why  string        // it cannot be run again; "" when it can
}

// readPasts reads what is kept of the period and of the days before it, of every pool that is configured.
func readPasts(ctx context.Context, h report.History, cfg *forewarm.Config, from, to time.Time) (map[string]*pastPool, error) {
	from, to = from.Truncate(features.Minute), to.Truncate(features.Minute)
	if newest := to.Add(-mostDays * 24 * time.Hour); from.Before(newest) {
		from = newest
	}
	start := from.Add(-learnDays * 24 * time.Hour)
	pasts, evidence := map[string]*pastPool{}, map[string]*supplied{}
	err := h.Decisions(ctx, start, to, func(d *alerting.Decision) error {
		if evidence[d.Pool] == nil {
			evidence[d.Pool] = &supplied{}
		}
		evidence[d.Pool].take(d, from)
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	err = h.Observed(ctx, start, to, func(key features.Key, dimension string, values []float64) error {
		p := pasts[key.Pool]
		if key.Class != features.TotalClass {
			return ctx.Err()
		}
		if p == nil {
			if p = configuredPast(cfg, key.Pool); p == nil {
				return nil
			}
			pasts[key.Pool] = p
		}
		p.Demand[dimension] = slices.Clone(values)
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	for name, p := range pasts {
		p.complete(evidence[name], start, from)
	}
	return pasts, nil
}

// configuredPast is a pool of the configuration without a past; nil for one that it does not have.
func configuredPast(cfg *forewarm.Config, name string) *pastPool {
	p := &pastPool{key: "pools[" + name + "]"}
	i := slices.IndexFunc(cfg.Pools, func(c capacity.Pool) bool { return c.Name == name })
	switch {
	case i >= 0:
		p.pool = cfg.Pools[i]
	case cfg.DefaultPool != nil:
		p.pool, p.key = *cfg.DefaultPool, "default_pool"
		p.pool.Name = name
	default:
		return nil
	}
	p.Demand, p.Events, p.Every, p.Stale = map[string][]float64{}, cfg.Events, cfg.Every, cfg.Features.StaleAfter
	return p
}

// complete puts the pieces together.
func (p *pastPool) complete(s *supplied, start, from time.Time) {
	if s == nil || len(s.each) == 0 {
		p.why = "no decision of the period knew what a replica carries"
		return
	}
	p.setCapacity(s.each)
	first := p.firstKnown()
	if first < 0 {
		p.why = "no demand of the pool is kept"
		return
	}
	p.Start, p.From = start.Add(time.Duration(first)*features.Minute), max(int(from.Sub(start)/features.Minute)-first, int(leastLearned/features.Minute))
	for dimension, values := range p.Demand {
		p.Demand[dimension] = values[min(first, len(values)):]
	}
	if p.Days() < 2 {
		p.why = "two whole days are needed, after one that models learn from"
		return
	}
	p.Lag = capacity.Lag{P50: p.pool.Warmup.Quantile(.5), P90: p.pool.Warmup.Quantile(.9)}
	if p.lags = len(s.lags); p.lags >= fewestLags {
		slices.Sort(s.lags)
		p.Lag = capacity.Lag{P50: s.lags[p.lags/2], P90: s.lags[p.lags*9/10]}
	}
	most, _ := p.pool.Limit()
	p.Initial = min(max(s.initial, p.pool.Replicas.Min), most)
	p.Prompts = min(max(s.prompts, p.pool.PrefillReplicas.Min), p.pool.PrefillReplicas.Max)
}

// setCapacity has the pool's replicas carry what decisions took them to carry, and nothing else bind.
func (p *pastPool) setCapacity(each map[string][]float64) {
	middle := map[string]float64{}
	for dimension, values := range each {
		slices.Sort(values)
		middle[dimension] = values[len(values)/2]
	}
	p.pool.KVTokens = middle[capacity.KV] / p.pool.KVTarget
	p.pool.Rates = capacity.Rates{
		PrefillTokensPerS: middle[capacity.Prefill], DecodeTokensPerS: middle[capacity.Decode], RequestsPerS: middle[capacity.Requests],
		ITL: p.pool.Rates.ITL, Bound: true, Source: p.pool.Rates.Source,
	}
}

// firstKnown is the first minute in which demand is known, -1 when it never is.
func (p *pastPool) firstKnown() int {
	first := -1
	for _, values := range p.Demand {
		if i := slices.IndexFunc(values, func(v float64) bool { return !math.IsNaN(v) }); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	return first
}

// supplied is what decisions tell of a pool's replicas.
type supplied struct {
	each    map[string][]float64 // capacity of a replica by dimension, of the period
	initial int                  // replicas at the start of the period
	prompts int                  // of a disaggregated pool, the prefill replicas that were asked for then
	lags    []time.Duration      // from asking to ready, the oldest first

	last    alerting.Decision
	waiting []time.Time // when each replica that is not ready was asked for
}

// take follows replicas: those that are on their way become ready in the order in which they were asked for, and the
// newest are given up first. A replica that comes up after a decision that wanted more was asked for then.
func (s *supplied) take(d *alerting.Decision, from time.Time) {
	if !d.Tick.Before(from) {
		if s.each == nil {
			s.each, s.initial = map[string][]float64{}, d.Ready+d.Pending
			if d.ByRole != nil {
				s.prompts = d.ByRole.Prefill
			}
		}
		for _, r := range slices.Concat(d.Resources, d.PromptEvidence()) {
			if r.PerReplica > 0 {
				s.each[r.Dimension] = append(s.each[r.Dimension], r.PerReplica)
			}
		}
	}
	defer func() {
		s.last = alerting.Decision{Tick: d.Tick, Ready: d.Ready, Pending: d.Pending, Desired: d.Desired}
	}()
	if d.SupplyAssumed || s.last.Tick.IsZero() || d.Tick.Sub(s.last.Tick) > time.Hour {
		s.waiting = make([]time.Time, d.Pending) // asked for nobody knows when
		return
	}
	ready := min(max(d.Ready-s.last.Ready, 0), len(s.waiting))
	for _, asked := range s.waiting[:ready] {
		if lag := d.Tick.Sub(asked); lag > 0 && !asked.IsZero() {
			s.lags = append(s.lags, lag)
		}
	}
	s.waiting = s.waiting[ready:]
	asked := d.Tick
	if s.last.Desired > s.last.Ready+s.last.Pending {
		asked = s.last.Tick
	}
	for len(s.waiting) < d.Pending {
		s.waiting = append(s.waiting, asked)
	}
	s.waiting = s.waiting[:d.Pending]
}
