package backtest

import (
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// contender is one setting of one policy with its pool.
type contender struct {
	spec   *PolicySpec
	set    Setting
	pool   *FluidPool
	policy Policy   // nil for Forewarm
	other  *variant // Forewarm with another setting than the pipeline's; otherwise nil

	tuning Account // at the start of the scored part
	track  *track  // nil without a drawing
}

// step serves a minute and lets a rival decide.
func (c *contender) step(load Load) (o Observation, desired int) {
	c.pool.Step(load)
	o = c.pool.Observe()
	if c.policy != nil {
		desired = c.policy.Desired(o)
		c.pool.SetDesired(desired)
	}
	c.track.minute(o)
	return o, desired
}

func (c *contender) outcome() outcome {
	return outcome{set: c.set, tuning: c.tuning, scored: c.pool.Account().Since(c.tuning)}
}

// isDefault reports whether this is the default setting in the documentation of the original.
func (c *contender) isDefault() bool { return slices.Equal(c.set, c.spec.defaults()) }

// variant is Forewarm with another decision quantile. It uses the same functions with a pool of its own. Forecasts do
// not depend on the pool, so one pipeline serves all settings, and its Calibrator corrects the probabilities.
type variant struct {
	pool  capacity.Pool // with the learned warm-up lag
	cfg   alerting.Config
	state alerting.State
}

func newVariant(pool capacity.Pool, cfg alerting.Config, quantile float64) *variant {
	cfg.Quantile, pool.Quantile = quantile, quantile
	return &variant{pool: pool, cfg: cfg}
}

// decide returns Forewarm's decision for the pool at t, and scales the pool. calibrator is the pipeline's; nil applies
// no correction.
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
	projection := forecaster.Project(f, alerting.Serving(&pool, nil), &pool.Warmup, supply, pool.Reserves.Failure, window, calibrator)
	in := alerting.Input{Projection: projection, Forecast: f, Pool: pool, Minute: minute, Sequence: sequence}
	var d alerting.Decision
	d, v.state = alerting.Decide(t, in, v.state, v.cfg)
	obeys.SetDesired(d.Desired)
	return d
}
