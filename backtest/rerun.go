package backtest

import (
	"context"
	"math"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Past is what a history keeps of one pool, for it to be run again with other settings.
//
// Of the traffic it has the pool's settled demand: nobody's reporting delay, no sessions, no classes. Decisions rest on the
// totals' own forecasts, to which classes add only what is known of sessions and events, so that another division into
// classes, or other tiers of series, would run the same.
type Past struct {
	Start time.Time // of the first minute, from which models learn
	From  int       // the first minute that counts; days are counted from it
	// Demand is the pool's, by dimension: a value a minute, in the dimension's unit, NaN where it is not known.
	Demand  map[string][]float64
	Lag     capacity.Lag // that replicas took in fact
	Initial int          // replicas that are ready at From
	Prompts int          // likewise, that only compute prompts, in a disaggregated pool
	Events  []forecaster.Event
	Every   time.Duration // between decisions
	Stale   time.Duration // silence after which a forecast is stale
}

// Arm is a configuration that a past is run with.
type Arm struct {
	Pool     capacity.Pool // its warm-up lag is the prior, from which the arm learns
	Decision alerting.Config
	// Forgets has the arm begin each day with the prior of the lag, as a first start does.
	Forgets bool
}

// rerunClass is the one class of a run again.
const rerunClass = "all"

// Rerun serves a past once for each arm: the same demand, the same forecasts and the same warm-up draws, and decisions and
// replicas of its own. It answers with each arm's account of each whole day from Past.From on. step, when set, is told of
// each minute that is done. It costs what forecasting the past costs, and some 0.1 ms a minute and arm.
func Rerun(ctx context.Context, past *Past, arms []Arm, seed uint64, step func(done, all int)) ([][]Account, error) {
	r := newRerun(past, arms, seed)
	all := past.From + past.Days()*minutesPerDay
	for m := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.minute(m)
		if step != nil {
			step(m+1, all)
		}
	}
	return r.days, nil
}

// Days is how many whole days count.
func (p *Past) Days() int {
	n := 0
	for _, values := range p.Demand {
		n = max(n, len(values))
	}
	return max(n-p.From, 0) / minutesPerDay
}

const minutesPerDay = 1440

// rerun is a past that is run.
type rerun struct {
	past       *Past
	forecaster *forecaster.Forecaster
	pool       string
	heard      time.Time // the end of the newest minute whose demand is known
	arms       []rerunArm
	days       [][]Account // by arm
}

// rerunArm is an arm with its pool.
type rerunArm struct {
	*variant
	pool  simulated
	prior capacity.Warmup
	so    Account // at the end of the last day
	Arm
}

func newRerun(past *Past, arms []Arm, seed uint64) *rerun {
	name := arms[0].Pool.Name
	r := &rerun{past: past, pool: name, days: make([][]Account, len(arms))}
	r.forecaster = forecaster.New(forecaster.Config{
		StaleAfter: past.Stale, Zones: map[string]*time.Location{name: arms[0].Pool.Zone}, Events: past.Events,
	})
	for _, a := range arms {
		a.Decision.Mode = alerting.Active
		actual := a.Pool
		actual.Warmup = capacity.NewWarmup(past.Lag.P50, past.Lag.P90)
		actual.Replicas.Initial, actual.PrefillReplicas.Initial = past.Initial, past.Prompts
		arm := rerunArm{Arm: a, variant: &variant{pool: a.Pool, cfg: a.Decision}, prior: a.Pool.Warmup}
		start := past.Start.Add(time.Duration(past.From) * features.Minute)
		arm.pool = newFluid(actual, start, seed)
		r.arms = append(r.arms, arm)
	}
	return r
}

// minute is served, then learned from, then decided after.
func (r *rerun) minute(m int) {
	start := r.past.Start.Add(time.Duration(m) * features.Minute)
	end := start.Add(features.Minute)
	if m >= r.past.From {
		load := r.past.load(m)
		for i := range r.arms {
			r.arms[i].pool.Step(load)
		}
		if n := m + 1 - r.past.From; n%minutesPerDay == 0 {
			r.endDay()
		}
	}
	r.observe(m, start)
	if m+1 < r.past.From || r.past.Every > 0 && end.Unix()%int64(r.past.Every/time.Second) != 0 {
		return
	}
	for _, f := range r.forecaster.Forecast(end) {
		for i := range r.arms {
			a := &r.arms[i]
			a.decide(end, uint64(m), &f, nil, a.pool)
		}
	}
}

func (r *rerun) endDay() {
	for i := range r.arms {
		a := &r.arms[i]
		now := a.pool.Account()
		r.days[i] = append(r.days[i], now.Since(a.so))
		if a.so = now; a.Forgets {
			a.variant.pool.Warmup = a.prior
		}
	}
}

// load is the demand of a minute.
func (p *Past) load(m int) Load {
	l := unknownLoad
	for i, d := range loadDimensions {
		if values := p.Demand[d]; m < len(values) {
			l[i] = values[m]
		}
	}
	return l
}

// observe tells the forecaster of a minute: of what can bind, for nothing else moves a decision.
func (r *rerun) observe(m int, start time.Time) {
	load := r.past.load(m)
	seconds := features.Minute.Seconds()
	w := features.Window{Key: features.Key{Pool: r.pool, Class: rerunClass}, Start: start, Covered: true, Settled: true, Records: 1}
	known := false
	for i, d := range loadDimensions {
		if _, binds := r.arms[0].Pool.PerReplica(d, 0); !binds || math.IsNaN(load[i]) {
			continue
		}
		known = true
		switch d {
		case capacity.KV:
			w.KVKnown, w.KVModelled = 1, load[i]*seconds
		case capacity.Prefill:
			w.PromptKnown, w.PromptTokens = 1, load[i]*seconds
		case capacity.Decode:
			w.OutputKnown, w.OutputTokens = 1, load[i]*seconds
		case capacity.Requests:
			w.RequestsKnown, w.Requests = 1, load[i]*seconds
		}
	}
	var windows []features.Window
	if known {
		windows, r.heard = []features.Window{w}, start.Add(features.Minute)
	}
	r.forecaster.Observe(windows, []features.PoolMinute{{Pool: r.pool, Start: start, Covered: known, LastEvent: r.heard}})
}
