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
// Of the traffic it has the pool's settled demand, without reporting delay, sessions or classes. Decisions rest on the
// forecasts of the totals, to which classes add only what is known of sessions and events.
type PoolHistory struct {
	Start time.Time // of the first minute, from which models learn
	From  int       // the first minute that counts
	// Demand is the pool's, by dimension: a value a minute, in the dimension's unit, NaN where it is not known.
	Demand         map[string][]float64
	Lag            capacity.Lag // that replicas take in the run
	Initial        int          // replicas that are ready at From
	InitialPrefill int          // the same of prefill replicas, in a disaggregated pool
	Events         []forecaster.Event
	Every          time.Duration // between decisions
	Stale          time.Duration // silence after which a forecast is stale
}

// Variant is a configuration that a history is run with.
type Variant struct {
	Pool     capacity.Pool // its warm-up lag is the prior, from which the run learns
	Decision alerting.Config
}

// rerunClass is the one class of a rerun.
const rerunClass = "all"

// Rerun serves a history once for each variant: the same demand, forecasts and warm-up draws, with decisions and replicas
// of its own. It returns each variant's account of the minutes from PoolHistory.From on. step, when set, is called after
// each minute. The cost is that of forecasting the history, and some 0.1 ms a minute and variant.
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

// Counted is how long the part of the history is that counts.
func (p *PoolHistory) Counted() time.Duration {
	return time.Duration(max(p.minutes()-p.From, 0)) * features.Minute
}

// minutes are all that the history has.
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
	heard      time.Time     // the end of the newest minute whose demand is known
	binding    capacity.Pool // says which dimensions have a capacity
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

// minute is served, then learned from, then decided after.
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

// load is the demand of a minute.
func (p *PoolHistory) load(m int) Load {
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
		windows, r.heard = []features.Window{w}, start.Add(features.Minute)
	}
	r.forecaster.Observe(windows, []features.PoolMinute{{Pool: r.pool, Start: start, Covered: known, LastEvent: r.heard}})
}
