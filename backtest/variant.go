package backtest

import (
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// variant is Forewarm with another decision quantile. It uses the same functions with a pool of its own. Forecasts do
// not depend on the pool, so one pipeline serves all settings. A separate Calibrator corrects the probabilities for
// this pool's supply.
type variant struct {
	pool       capacity.Pool // with the learned warm-up lag
	cfg        alerting.Config
	state      alerting.State
	projection forecaster.Projection // the newest
}

func newVariant(pool capacity.Pool, cfg alerting.Config, quantile float64) *variant {
	cfg.Quantile, pool.Quantile = quantile, quantile
	return &variant{pool: pool, cfg: cfg}
}

// decide returns Forewarm's decision for the pool at t, and scales the pool. calibrator is of this pool; nil applies no
// correction.
func (v *variant) decide(t time.Time, sequence uint64, f *forecaster.PoolForecast, calibrator *forecaster.Calibrator, obeys *FluidPool) alerting.Decision {
	for _, lag := range obeys.Warmed() {
		v.pool.Warmup.Observe(lag)
	}
	minute := f.Minute
	minute.State = obeys.state()
	pool := v.pool
	var waiting []time.Duration
	for _, since := range minute.State.PendingSince {
		waiting = append(waiting, t.Sub(since))
	}
	pool.Warmup = v.pool.Warmup.Given(waiting)
	supply, _ := alerting.CurrentSupply(t, minute, &pool, v.state, v.cfg.Mode)
	window := forecaster.LeadTime(&pool.Warmup) + v.cfg.Hold
	v.projection = forecaster.Project(f, alerting.Serving(&pool, nil), &pool.Warmup, supply, pool.Reserves.Failure, window, calibrator)
	calibrator.Issue(f, &v.projection, &pool.Warmup)
	in := alerting.Input{Projection: v.projection, Forecast: f, Pool: pool, Minute: minute, Sequence: sequence}
	var d alerting.Decision
	d, v.state = alerting.Decide(t, in, v.state, v.cfg)
	obeys.obey(&d)
	return d
}
