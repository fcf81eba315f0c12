// Package suggest reruns the recorded history of a pool with other settings, and computes their cost.
package suggest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/pipeline"
)

const (
	// learnDays before the period train the models: a week has each day once.
	learnDays = 7
	// minLearned of known demand must come first; in a first week it is the first day.
	minLearned = 24 * time.Hour
	// minCounted must remain after that.
	minCounted = 48 * time.Hour
	// maxDays is the part of a longer period that is run, its newest days.
	maxDays = 14
	// variantSeed draws the warm-ups: the same for all variants and reports.
	variantSeed = 1
)

// OtherSettings reruns a report's period for each pool, with the current configuration and a few others. It adds their
// costs to the report. A week of a pool takes some 20 s of one core per resource. It calls step, if set, with the
// progress.
func OtherSettings(ctx context.Context, h report.History, cfg pipeline.Config, r *report.Report, step func(thousandths int)) error {
	recorded, err := readRecorded(ctx, h, &cfg, r.From, r.To)
	if err != nil {
		return err
	}
	for i := range r.Pools {
		to, p := &r.Pools[i], recorded[r.Pools[i].Pool]
		if p == nil {
			to.OtherSettingsNote = "No other setting was tried: the configuration has no such pool, or no demand of it is kept."
			continue
		}
		err := p.run(ctx, cfg.Decision, to, func(done, all int) {
			if step != nil {
				step(1000*i + 1000*done/all)
			}
		})
		var missing missingError
		switch {
		case errors.As(err, &missing):
			to.OtherSettingsNote = fmt.Sprintf("No other setting was tried: %s.", missing)
		case err != nil:
			return fmt.Errorf("other settings of pool %s: %w", to.Pool, err)
		}
	}
	return nil
}

// missingError says which data a run lacks.
type missingError string

func (e missingError) Error() string { return string(e) }

// recordedPool is the history of a pool, with its replicas from decisions.
type recordedPool struct {
	backtest.PoolHistory
	pool       capacity.Pool        // as configured
	perReplica map[string][]float64 // capacity of a replica by dimension, for each decision
	weighed    int                  // minutes from Start on with Demand as the load of all attempts
}

// readRecorded reads the history of the period and the days before, for each configured pool.
func readRecorded(ctx context.Context, h report.History, cfg *pipeline.Config, from, to time.Time) (map[string]*recordedPool, error) {
	from, to = from.Truncate(features.Minute), to.Truncate(features.Minute)
	if newest := to.Add(-maxDays * 24 * time.Hour); from.Before(newest) {
		from = newest
	}
	start := from.Add(-learnDays * 24 * time.Hour)
	pools := map[string]*recordedPool{}
	err := h.Observed(ctx, start, to, func(key features.Key, dimension string, values []float64) error {
		pool, ok := cfg.Pool(key.Pool)
		if key.Class != features.TotalClass || !ok {
			return ctx.Err()
		}
		p := pools[key.Pool]
		if p == nil {
			p = &recordedPool{pool: pool, perReplica: map[string][]float64{}}
			p.PoolHistory = backtest.PoolHistory{
				Start: start, Demand: map[string][]float64{}, Lag: capacity.Lag{P50: pool.Warmup.Quantile(.5), P90: pool.Warmup.Quantile(.9)},
				Events: cfg.Events, Every: cfg.Every, Stale: cfg.Features.StaleAfter,
			}
			pools[key.Pool] = p
		}
		p.Demand[dimension] = slices.Clone(values)
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	err = h.Decisions(ctx, start, to, func(d *alerting.Decision) error {
		if p := pools[d.Pool]; p != nil {
			p.weigh(d)
			if !d.Tick.Before(from) {
				p.decided(d)
			}
		}
		return ctx.Err()
	})
	for name, p := range pools {
		if known := p.trim(int(from.Sub(start) / features.Minute)); !known {
			delete(pools, name)
		}
	}
	return pools, err
}

// weigh converts demand since the previous decision to the load of all attempts, as in the report. The run serves and
// learns from that load.
func (p *recordedPool) weigh(d *alerting.Decision) {
	const longest = 15 // minutes
	to := int(d.Tick.Sub(p.Start) / features.Minute)
	for _, r := range slices.Concat(d.Resources, d.Prompts) {
		values := p.Demand[r.Dimension]
		for m := max(p.weighed, to-longest, 0); m < min(to, len(values)); m++ {
			values[m] *= r.LoadFactor()
		}
	}
	p.weighed = to
}

// decided adds the next decision of the period: the capacity of a replica, the initial replicas, and the newest
// estimate of the warm-up lag.
func (p *recordedPool) decided(d *alerting.Decision) {
	if len(p.perReplica) == 0 {
		p.Initial = d.Ready + d.Pending
		if d.ByRole != nil {
			p.InitialPrefill = d.ByRole.Prefill
		}
	}
	for _, r := range slices.Concat(d.Resources, d.Prompts) {
		if r.PerReplica > 0 {
			p.perReplica[r.Dimension] = append(p.perReplica[r.Dimension], r.PerReplica)
		}
	}
	if d.Basis != nil && d.Basis.Warmup.P90 > 0 {
		seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
		p.Lag = capacity.Lag{P50: seconds(d.Basis.Warmup.P50), P90: seconds(d.Basis.Warmup.P90)}
	}
}

// trim removes minutes before the first known demand, and reports whether there is any. counted is the first minute of
// the period.
func (p *recordedPool) trim(counted int) (known bool) {
	first := math.MaxInt
	for _, values := range p.Demand {
		if i := slices.IndexFunc(values, func(v float64) bool { return !math.IsNaN(v) }); i >= 0 {
			first = min(first, i)
		}
	}
	if first == math.MaxInt {
		return false
	}
	p.Start, p.From = p.Start.Add(time.Duration(first)*features.Minute), max(counted-first, int(minLearned/features.Minute))
	for dimension, values := range p.Demand {
		p.Demand[dimension] = values[min(first, len(values)):]
	}
	return true
}

// run adds the other settings of a pool to its report. A missingError means that the history is too short.
func (p *recordedPool) run(ctx context.Context, decision alerting.Config, to *report.Pool, step func(done, all int)) error {
	switch {
	case len(p.perReplica) == 0:
		return missingError("no decision of the period knew the capacity of a replica")
	case p.Counted() < minCounted:
		return missingError("two days are needed, after one that models learn from")
	}
	p.setCapacity()
	rows, variants := p.variants(decision)
	accounts, err := backtest.Rerun(ctx, &p.PoolHistory, variants, variantSeed, step)
	if err != nil {
		return err
	}
	now := accounts[0]
	for i, other := range accounts[1:] {
		rows[i].GPUHoursNow, rows[i].SaturatedMinutesNow = report.Number(now.GPUHours), now.Saturated
		rows[i].GPUHours, rows[i].SaturatedMinutes = report.Number(other.GPUHours), other.Saturated
	}
	to.OtherSettings = rows
	to.OtherSettingsNote = fmt.Sprintf("The demand of %.3g days was run again in a simulation with each value, after %.3g days to learn from. All else is as configured. "+
		"A replica carries what decisions believed. Half of the replicas start within %s, and 90 %% within %s. Other days may differ.",
		p.Counted().Hours()/24, float64(p.From)/(24*60), shortDuration(p.Lag.P50), shortDuration(p.Lag.P90))
	return nil
}

// setCapacity sets a replica's capacity to the median over decisions; other resources do not bind.
func (p *recordedPool) setCapacity() {
	median := map[string]float64{}
	for dimension, values := range p.perReplica {
		slices.Sort(values)
		median[dimension] = values[len(values)/2]
	}
	p.pool.KVTokens = median[capacity.KV] / p.pool.KVTarget
	p.pool.Rates = capacity.Rates{
		PrefillTokensPerS: median[capacity.Prefill], DecodeTokensPerS: median[capacity.Decode], RequestsPerS: median[capacity.Requests],
		ITL: p.pool.Rates.ITL, Sustained: true, Bound: true, Source: p.pool.Rates.Source,
	}
	limit, _ := p.pool.Limit()
	p.Initial = min(max(p.Initial, p.pool.Replicas.Min), limit)
	p.InitialPrefill = min(max(p.InitialPrefill, p.pool.PrefillReplicas.Min), p.pool.PrefillReplicas.Max)
}

// variants returns the current configuration and the others, with a row for each of the others.
func (p *recordedPool) variants(decision alerting.Config) (rows []report.OtherSetting, variants []backtest.Variant) {
	base := backtest.Variant{Pool: p.pool, Decision: decision}
	variants = append(variants, base)
	inUse := backtest.Quantile(&p.pool, decision)
	for _, q := range []float64{.8, .9, .95, .99} {
		if q != inUse {
			v := base
			v.Pool.Quantile = q
			rows, variants = append(rows, report.OtherSetting{Setting: "quantile", Now: quantileText(inUse), Other: quantileText(q)}), append(variants, v)
		}
	}
	for _, cooldown := range []time.Duration{5 * time.Minute, 15 * time.Minute} {
		fits := forecaster.LeadTime(&p.pool.Warmup)+max(decision.Hold, cooldown) <= forecaster.Horizon*features.Minute
		if cooldown != decision.Cooldown && fits {
			v := base
			v.Decision.Cooldown = cooldown
			rows, variants = append(rows, report.OtherSetting{Setting: "decision.cooldown", Now: shortDuration(decision.Cooldown), Other: shortDuration(cooldown)}), append(variants, v)
		}
	}
	return rows, variants
}

// quantileText formats a quantile as in configurations.
func quantileText(q float64) string { return strconv.FormatFloat(q, 'g', 4, 64) }

// shortDuration formats a duration as in configurations: 5m, 1m30s.
func shortDuration(d time.Duration) string {
	s := d.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
