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

// PoolHistory is the recorded history of one pool, for a run with other settings.
//
// Its traffic is the pool's settled demand, without reporting delay, sessions or classes. Decisions use the forecasts
// of totals. Classes add only sessions and events to them.
type PoolHistory struct {
	Start time.Time // first minute, at which learning starts
	From  int       // first minute that counts
	// Demand is the pool's, by dimension: one value per minute in the dimension's unit, NaN if unknown.
	Demand         map[string][]float64
	Lag            capacity.Lag // of replicas in the run
	Initial        int          // replicas ready at From
	InitialPrefill int          // prefill replicas ready at From, in a disaggregated pool
	Events         []forecaster.Event
	Every          time.Duration // between decisions
	Stale          time.Duration // silence after which a forecast is stale
}

// Variant is a configuration for a run.
type Variant struct {
	Pool     capacity.Pool // its warm-up lag is the prior for learning
	Decision alerting.Config
}

// rerunClass is the only class of a rerun.
const rerunClass = "all"

// Rerun serves a history once per variant: with the same demand, forecasts and warm-ups, and its own decisions and
// replicas. It returns each variant's account from PoolHistory.From on. It calls step, if set, after each minute. The
// cost is forecasting the history, plus 0.1 ms per minute and variant.
func Rerun(ctx context.Context, history *PoolHistory, variants []Variant, seed uint64, step func(done, all int)) ([]Account, error) {
	r := newRerun(history, variants, seed)
	all := history.minutes()
	for m := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.minute(m)
		if step != nil {
			step(m+1, all)
		}
	}
	accounts := make([]Account, len(r.variants))
	for i := range r.variants {
		accounts[i] = r.variants[i].pool.Account()
	}
	return accounts, nil
}

// Counted is the length of the counted part of the history.
func (p *PoolHistory) Counted() time.Duration {
	return time.Duration(max(p.minutes()-p.From, 0)) * features.Minute
}

// minutes is the length of the history.
func (p *PoolHistory) minutes() (n int) {
	for _, values := range p.Demand {
		n = max(n, len(values))
	}
	return n
}

// rerun is a run of a history.
type rerun struct {
	history    *PoolHistory
	forecaster *forecaster.Forecaster
	pool       string
	lastKnown  time.Time     // end of the newest minute with known demand
	binding    capacity.Pool // the dimensions with a capacity
	variants   []rerunVariant
}

// rerunVariant is a variant with its replicas.
type rerunVariant struct {
	*variant
	pool *FluidPool
}

func newRerun(history *PoolHistory, variants []Variant, seed uint64) *rerun {
	first := variants[0].Pool
	r := &rerun{history: history, pool: first.Name, binding: first}
	r.forecaster = forecaster.New(forecaster.Config{
		StaleAfter: history.Stale, Zones: map[string]*time.Location{first.Name: first.Zone}, Events: history.Events,
	})
	start := history.Start.Add(time.Duration(history.From) * features.Minute)
	for _, s := range variants {
		s.Decision.Mode = alerting.Active
		actual := s.Pool
		actual.Warmup = capacity.NewWarmup(history.Lag.P50, history.Lag.P90)
		actual.Replicas.Initial, actual.PrefillReplicas.Initial = history.Initial, history.InitialPrefill
		r.variants = append(r.variants, rerunVariant{&variant{pool: s.Pool, cfg: s.Decision}, NewFluidPool(actual, start, seed)})
	}
	return r
}

// minute serves a minute, learns from it, and then decides.
func (r *rerun) minute(m int) {
	start := r.history.Start.Add(time.Duration(m) * features.Minute)
	end := start.Add(features.Minute)
	if m >= r.history.From {
		load := r.history.load(m)
		for i := range r.variants {
			r.variants[i].pool.Step(load)
		}
	}
	r.observe(m, start)
	if m+1 < r.history.From || r.history.Every > 0 && end.Unix()%int64(r.history.Every/time.Second) != 0 {
		return
	}
	for _, f := range r.forecaster.Forecast(end) {
		for i := range r.variants {
			s := &r.variants[i]
			s.decide(end, uint64(m), &f, nil, s.pool)
		}
	}
}

// load returns the demand of a minute.
func (p *PoolHistory) load(m int) Load {
	l := unknownLoad
	for i, d := range loadDimensions {
		if values := p.Demand[d]; m < len(values) {
			l[i] = values[m]
		}
	}
	return l
}

// observe passes a minute to the forecaster, with the dimensions that can bind. Others affect no decision.
func (r *rerun) observe(m int, start time.Time) {
	load := r.history.load(m)
	seconds := features.Minute.Seconds()
	w := features.Window{Key: features.Key{Pool: r.pool, Class: rerunClass}, Start: start, Covered: true, Settled: true, Records: 1}
	known := false
	for i, d := range loadDimensions {
		if _, binds := r.binding.PerReplica(d, 0); !binds || math.IsNaN(load[i]) {
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
		windows, r.lastKnown = []features.Window{w}, start.Add(features.Minute)
	}
	r.forecaster.Observe(windows, []features.PoolMinute{{Pool: r.pool, Start: start, Covered: known, LastEvent: r.lastKnown}})
}
