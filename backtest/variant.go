package backtest

import (
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// variant is Forewarm at another decision quantile: the same forecasts, projected and decided by the same functions for
// a pool of its own. Forecasts do not depend on the pool, so one pipeline serves all settings.
type variant struct {
	fluid  *FluidPool
	pool   capacity.Pool
	cfg    alerting.Config
	state  alerting.State
	warmup capacity.Warmup // as learned from its pool
	tuned  Account         // at the first scored minute
}

func newVariant(pool capacity.Pool, start time.Time, seed uint64, cfg alerting.Config, quantile float64) *variant {
	cfg.Quantile, pool.Quantile = quantile, quantile
	return &variant{fluid: NewFluidPool(pool, start, seed), pool: pool, cfg: cfg, warmup: pool.Warmup}
}

// step serves one minute of demand.
func (v *variant) step(load Load) {
	v.fluid.Step(load)
	for _, lag := range v.fluid.warmed {
		v.warmup.Observe(lag)
	}
}

// decide obeys the decision that Forewarm would make for this pool at t.
func (v *variant) decide(t time.Time, sequence uint64, f *forecaster.PoolForecast) alerting.Decision {
	minute := f.Minute
	minute.State = v.fluid.state()
	var waiting []time.Duration
	for _, since := range minute.State.PendingSince {
		waiting = append(waiting, t.Sub(since))
	}
	v.pool.Warmup = v.warmup.Given(waiting)
	supply, _ := alerting.CurrentSupply(t, minute, &v.pool, v.state)
	window := forecaster.LeadTime(&v.pool.Warmup) + v.cfg.Hold
	projection := forecaster.Project(f, &v.pool, &v.pool.Warmup, supply, v.pool.Reserves.Failure, window)
	in := alerting.Input{Projection: projection, Forecast: f, Pool: v.pool, Minute: minute, Sequence: sequence}
	var d alerting.Decision
	d, v.state = alerting.Decide(t, in, v.state, v.cfg)
	v.fluid.SetDesired(d.Desired)
	return d
}
