// Package forecaster turns windows into calibrated forecasts 1 to 60 minutes ahead, and forecasts into projections of
// when a pool's capacity runs out.
//
// It is pure: no clock, no I/O, no logging, no goroutine. One network forecasts each series (pool × class × dimension,
// and the pool's total). The forecast is shifted towards yesterday and the last value, as far as those were right
// before. Then it is calibrated. Files: series.go has all steps of a minute; slope.go and calibration.go have what is
// learned.
//
// Invariants: a forecast depends only on windows before its origin; quantiles are monotone; a missing minute is
// skipped, never read as zero; the paths of a pool's total have its quantiles at each minute. Units: those of
// features.Dimensions, averaged over a minute. Bounds: state per series is fixed, series are bounded by
// features.Config.
package forecaster

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
)

// Config parameterises a Forecaster.
type Config struct {
	// Settle is how long after its first count a minute can still change (features.Config.Revise). Outcomes are learned
	// after it.
	Settle time.Duration
	// StaleAfter is the silence after which a pool's forecasts are stale.
	StaleAfter time.Duration
	// Shown is the number of classes of a pool, heaviest by tokens first, in its forecasts. 0 or less means 64.
	Shown int
	// Zone is the time zone of a pool's daily and weekly seasons. Nil, and a nil result, are UTC.
	Zone func(pool string) *time.Location
	// Events are the calendar of all pools. At most MaxEvents.
	Events []Event
}

// Forecaster holds the series of all pools.
type Forecaster struct {
	cfg   Config
	pools []*pool // ordered by name
}

type pool struct {
	of      *Forecaster
	zone    *time.Location // of its seasons; nil is UTC
	total   *class
	classes []*class // ordered by name
	events  []*Event // of this pool, in the order of the calendar
	poolState
}

// class is a class of a pool, or its total.
type class struct {
	key    features.Key
	series []*series // by index into features.Forecast; nil until the dimension is known
	classState
}

// New returns an empty Forecaster.
func New(cfg Config) *Forecaster {
	if cfg.Shown <= 0 {
		cfg.Shown = 64
	}
	return &Forecaster{cfg: cfg}
}

// Observe takes the result of features.Aggregator.Close for one tick: the newest minute, and earlier minutes whose
// counts or nowcasts changed, ordered by minute and key. Models start from nowcasts and learn from settled counts.
// O(windows).
func (f *Forecaster) Observe(windows []features.Window, pools []features.PoolMinute) {
	for i := range pools {
		p := f.pool(pools[i].Pool)
		p.Minute = pools[i]
		p.Retries.observe(p.Minute.Attempts, p.newest())
		p.Minute.Attempts = nil // p.Retries has them
	}
	for len(windows) > 0 {
		n := 1
		for n < len(windows) && windows[n].Pool == windows[0].Pool && windows[n].Start.Equal(windows[0].Start) {
			n++
		}
		f.pool(windows[0].Pool).observe(windows[:n])
		windows = windows[n:]
	}
	for i := range pools { // after the windows: a skipped gap in time is not silence of the classes
		p, oldest := f.pool(pools[i].Pool), pools[i].Start.Unix()/60-forgetAfter
		p.classes = slices.DeleteFunc(p.classes, func(c *class) bool { return c.Shape.Newest < oldest })
	}
}

// forgetAfter is how many minutes after its last window a class is dropped. The aggregator lists every class it
// follows, also silent ones.
const forgetAfter = 1440

// observe takes the windows of one pool and one minute.
func (p *pool) observe(windows []features.Window) {
	minute := windows[0].Start.Unix() / 60
	multiplier := p.multiplier(minute)
	sum := slices.Repeat([]features.Estimate{unknown}, len(features.Forecast)) // of the classes, by dimension
	change := make([]float64, len(features.Forecast))                          // of the minute's mean, since it was last seen
	for i := range windows {
		w := &windows[i]
		c := p.class(w.Class)
		if minute > c.Shape.Newest { // the first count of a minute
			c.Weight = c.weightAt(minute) + w.PromptTokens + w.OutputTokens
		}
		c.Shape.observe(minute, w)
		for d := range features.Forecast {
			now, ok := features.Forecast[d].Now(w)
			if !ok {
				now = unknown
			} else if multiplier != 1 {
				scale(&now, 1/multiplier)
			}
			change[d] += p.count(c, d, minute, now)
			if math.IsNaN(sum[d].Mean) {
				sum[d] = now
			} else if !math.IsNaN(now.Mean) {
				sum[d] = sum[d].Plus(now)
			}
		}
	}
	for d, now := range sum {
		if s := p.total.series[d]; s != nil && minute <= s.history.Newest { // only classes that changed are in the sum
			was, learned := s.history.At(minute), !math.IsNaN(now.Mean)
			now.Mean = was
			if change[d] != 0 || learned && math.IsNaN(was) { // an unknown minute may turn out to be without demand
				now.Mean = math.Max(0, zeroIfNaN(was)+change[d])
			}
		}
		p.count(p.total, d, minute, now)
	}
}

// count adds the estimate of a new minute, or replaces that of an earlier one. It returns the change of its mean.
func (p *pool) count(c *class, d int, minute int64, now features.Estimate) (change float64) {
	s := c.series[d]
	if s == nil {
		if math.IsNaN(now.Mean) {
			return 0
		}
		if !slices.ContainsFunc(c.series, func(s *series) bool { return s != nil }) {
			c.Began = p.justBegan(c, minute)
		}
		s = p.addSeries(c, d)
	}
	if minute > s.history.Newest {
		s.push(minute, now)
		return zeroIfNaN(now.Mean)
	}
	return s.amend(minute, now)
}

// justBegan reports whether a class that is new in a minute has just begun: the 15 minutes before are known.
func (p *pool) justBegan(c *class, minute int64) bool {
	known := func(s *series) bool {
		for m := minute - 15; m < minute; m++ {
			if s == nil || math.IsNaN(s.history.At(m)) {
				return false
			}
		}
		return true
	}
	return c.key.Class != features.OverflowClass && slices.ContainsFunc(p.total.series, known)
}

func zeroIfNaN(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// Shown reports whether a class is one of the heaviest of its pool, so that it has forecasts in the output.
func (f *Forecaster) Shown(key features.Key) bool {
	i, ok := f.find(key.Pool)
	if !ok {
		return false
	}
	c, ok := f.pools[i].search(key.Class)
	return ok && f.pools[i].classes[c].Shown
}

// Forecast returns the forecasts of all pools at origin, the end of the newest observed minute. O(pools × shown classes
// × dimensions) passes of the network.
func (f *Forecaster) Forecast(origin time.Time) []PoolForecast {
	out := make([]PoolForecast, 0, len(f.pools))
	for _, p := range f.pools {
		out = append(out, p.forecast(origin, f.cfg.StaleAfter))
	}
	return out
}

func (p *pool) forecast(origin time.Time, staleAfter time.Duration) PoolForecast {
	pf := PoolForecast{Pool: p.Name, Origin: origin, Minute: p.Minute}
	pf.Stale = p.Minute.LastEvent.IsZero() || origin.Sub(p.Minute.LastEvent) > staleAfter
	p.rank()
	events := p.impact()
	var all shapeSums
	for _, c := range p.classes {
		now := c.Shape.sum(0)
		all.add(&now, 1)
		if c.Shown {
			pf.Classes = append(pf.Classes, c.forecast(origin, now, &events)...)
		}
	}
	pf.Total = p.total.forecast(origin, all, &events)
	pf.dropFractions()
	for i := range pf.Total {
		f := &pf.Total[i]
		f.Paths, f.LoadFactor = samplePaths(&f.Minute), p.Retries.factor(f.Dimension, p.newest())
	}
	pf.Retries.Share, pf.Retries.Attempts = p.Retries.recent(p.newest())
	return pf
}

// forecast returns the forecasts of a class by dimension; now is its recent load.
func (c *class) forecast(origin time.Time, now shapeSums, events *impact) (out []Forecast) {
	for d, s := range c.series {
		f := Forecast{Key: c.key, Dimension: features.Forecast[d].Name, Origin: origin}
		if s == nil || !s.forecast(&f) {
			continue
		}
		f.Basis.Recent = now
		events.apply(&f)
		out = append(out, f)
	}
	return out
}

// dropFractions sets quantiles of the total to zero where no request runs and fewer than half a request is forecast for
// a minute. Requests come whole, and models do not: an office pool without replicas would saturate by a thousandth.
func (pf *PoolForecast) dropFractions() {
	requests, kv := pf.Of(features.DimRequests), pf.Of(features.DimKV)
	if requests == nil || kv != nil && kv.Now.Mean > 0 {
		return
	}
	drop := func(q, requests *Quantiles) {
		for i := range q {
			if requests[i] < .5/60 { // per second
				q[i] = 0
			}
		}
	}
	for i := range pf.Total {
		f := &pf.Total[i]
		for h := range f.Minute {
			drop(&f.Minute[h], &requests.Minute[h])
		}
		drop(&f.WindowMax, &requests.WindowMax)
	}
}

// Of returns the forecast of the pool's total for a dimension; nil if there is none.
func (pf *PoolForecast) Of(dimension string) *Forecast {
	for i := range pf.Total {
		if pf.Total[i].Dimension == dimension {
			return &pf.Total[i]
		}
	}
	return nil
}

// pool finds or adds a pool, in order of name.
func (f *Forecaster) pool(name string) *pool {
	i, ok := f.find(name)
	if !ok {
		p := &pool{of: f, total: newClass(name, features.TotalClass), poolState: poolState{Name: name}}
		if f.cfg.Zone != nil {
			p.zone = f.cfg.Zone(name)
		}
		for j := range f.cfg.Events {
			if e := &f.cfg.Events[j]; e.Pool == name {
				p.events = append(p.events, e)
			}
		}
		f.pools = slices.Insert(f.pools, i, p)
	}
	return f.pools[i]
}

// Forget drops the models of a pool.
func (f *Forecaster) Forget(name string) {
	f.pools = slices.DeleteFunc(f.pools, func(p *pool) bool { return p.Name == name })
}

func (p *pool) newest() int64 { return p.Minute.Start.Unix() / 60 }

func (p *pool) all() []*class { return append([]*class{p.total}, p.classes...) }

func (f *Forecaster) find(name string) (int, bool) {
	return slices.BinarySearchFunc(f.pools, name, func(p *pool, n string) int { return strings.Compare(p.Name, n) })
}

func newClass(pool, name string) *class {
	return &class{key: features.Key{Pool: pool, Class: name}, series: make([]*series, len(features.Forecast))}
}

// search returns the index at which a class is or belongs.
func (p *pool) search(name string) (int, bool) {
	return slices.BinarySearchFunc(p.classes, name, func(c *class, n string) int { return strings.Compare(c.key.Class, n) })
}

// class finds or adds a class, in order of name, or finds the total.
func (p *pool) class(name string) *class {
	if name == features.TotalClass {
		return p.total
	}
	i, ok := p.search(name)
	if !ok {
		p.classes = slices.Insert(p.classes, i, newClass(p.Name, name))
	}
	return p.classes[i]
}

func (p *pool) addSeries(c *class, d int) *series {
	s := newSeries(c.key, int(p.of.cfg.Settle/features.Minute))
	s.history.Zone, s.began = p.zone, c.Began
	c.series[d] = s
	return s
}

// weightAt is the tokens by which classes are ranked. They halve in six hours.
func (c *class) weightAt(minute int64) float64 {
	return c.Weight * math.Exp2(-float64(max(minute-c.Shape.Newest, 0))/(6*60))
}

// rank selects the heaviest classes for the output. A shown class stays until a quarter more classes outrank it, so
// output is stable. Ties go by name.
func (p *pool) rank() {
	all := slices.Clone(p.classes)
	slices.SortStableFunc(all, func(a, b *class) int { return cmp.Compare(b.weightAt(p.newest()), a.weightAt(p.newest())) })
	for n, c := range all {
		c.Shown = n < p.of.cfg.Shown || c.Shown && n < p.of.cfg.Shown*5/4
	}
}
