package forecaster

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
)

// Config parameterises a Forecaster.
type Config struct {
	// Settle is how long after its first count a minute can still be amended (features.Config.Revise): learning from an
	// outcome waits for it.
	Settle time.Duration
	// StaleAfter is how long a pool may be silent before its forecasts count as stale.
	StaleAfter time.Duration
	// MaxClasses is how many classes all pools may have together, as in features.Config: about 30 KiB each. Not positive means
	// DefaultMaxClasses.
	MaxClasses int
	// Shown is how many classes of a pool, the heaviest by tokens, are in its forecasts. Not positive means DefaultShown.
	Shown int
	// Zones are the time zones, by pool, whose clocks daily and weekly seasons follow; that of pools which it does not name
	// is Zone. Nil is UTC.
	Zones map[string]*time.Location
	Zone  *time.Location
	// Events are the calendar of what is known to come, of all pools. At most MaxEvents, each name once in a pool.
	Events []Event
}

// DefaultMaxClasses is what an unset Config.MaxClasses means.
const DefaultMaxClasses = 10_000

// DefaultShown is what an unset Config.Shown means.
const DefaultShown = 64

// forecast dimensions, in the order of features.Dimensions.
var dimensions = func() (ds []features.Dimension) {
	for _, d := range features.Dimensions {
		if d.Forecast {
			ds = append(ds, d)
		}
	}
	return ds
}()

// Forecaster holds the series of all pools.
type Forecaster struct {
	cfg   Config
	pools []*pool // ordered by name
}

type pool struct {
	of       *Forecaster
	name     string
	calendar *model.Calendar
	classes  []*class  // ordered by name
	total    []*series // by index into dimensions; nil until the dimension is known
	minute   features.PoolMinute
	retries  retries

	newest int64 // minute observed
	ranked int64 // minute in which classes were ranked last

	effects []*effect // of the calendar's events of this pool, in its order
}

// class has series by index into dimensions; nil until the dimension is known.
type class struct {
	key    features.Key
	series []*series
	weight float64 // tokens, fading, as of shape.Newest
	shown  bool    // is in the output
	began  bool    // while the pool was watched
	shape  shape
}

// New returns an empty Forecaster.
func New(cfg Config) *Forecaster {
	if cfg.MaxClasses <= 0 {
		cfg.MaxClasses = DefaultMaxClasses
	}
	if cfg.Shown <= 0 {
		cfg.Shown = DefaultShown
	}
	return &Forecaster{cfg: cfg}
}

func (f *Forecaster) settleMinutes() int { return int(f.cfg.Settle / features.Minute) }

// Observe takes what features.Aggregator.Close returned for one tick: the newest minute, and earlier minutes whose counts
// or nowcasts changed. Models start from nowcasts and learn from settled counts. Windows are ordered by minute and key.
// O(windows).
func (f *Forecaster) Observe(windows []features.Window, pools []features.PoolMinute) {
	for i := range pools {
		p := f.pool(pools[i].Pool)
		p.minute = pools[i]
		p.retries.observe(p.minute.Attempts, p.minute.Start.Unix()/60)
		p.minute.Attempts = nil // they are in there
	}
	for len(windows) > 0 {
		n := 1
		for n < len(windows) && windows[n].Pool == windows[0].Pool && windows[n].Start.Equal(windows[0].Start) {
			n++
		}
		f.pool(windows[0].Pool).observe(windows[:n], f.settleMinutes())
		windows = windows[n:]
	}
	for i := range pools { // not before: a hole in time that was jumped over is none of the classes' silence
		f.pool(pools[i].Pool).forget(pools[i].Start.Unix() / 60)
	}
}

// forgetAfter is how many minutes a class may be left out of the windows before it is forgotten: the aggregator lists
// every class it still follows, silent ones too.
const forgetAfter = 1440

func (p *pool) forget(minute int64) {
	p.classes = slices.DeleteFunc(p.classes, func(c *class) bool { return c.shape.Newest < minute-forgetAfter })
}

// sums add up the classes of a pool in one minute, by index into dimensions.
type sums struct {
	first []features.Estimate // of classes whose newest minute it is
	moved []float64           // by how much the others changed
	was   []float64           // the pool's totals before
}

// observe takes the windows of one pool and one minute.
func (p *pool) observe(windows []features.Window, settle int) {
	minute := windows[0].Start.Unix() / 60
	p.rank(minute)
	newest := minute > p.newest
	if newest {
		p.newest = minute
		p.expectEvents(minute)
	}
	t := sums{unknowns(), make([]float64, len(dimensions)), make([]float64, len(dimensions))}
	for d, s := range p.total {
		if s != nil {
			t.was[d] = s.history.At(minute)
		}
	}
	for i := range windows {
		w := &windows[i]
		c := p.class(features.Key{Pool: p.name, Class: w.Class})
		multiplier := p.multiplier(w.Class, minute)
		c.weigh(minute, w)
		c.shape.observe(minute, w)
		for d := range dimensions {
			now, ok := p.base(d, w, multiplier, newest)
			if !ok {
				now = unknown
			}
			p.take(c, d, minute, now, &t, settle)
		}
	}
	if newest {
		p.learnEvents(minute)
	}
	for d := range dimensions {
		p.add(d, minute, &t, settle)
	}
}

// add brings the pool's total up to what its classes add up to.
func (p *pool) add(d int, minute int64, t *sums, settle int) {
	s := p.total[d]
	if s == nil {
		if math.IsNaN(t.first[d].Mean) {
			return
		}
		s = p.newSeries(features.Key{Pool: p.name, Class: features.TotalClass}, settle)
		p.total[d] = s
	}
	if minute > s.history.Newest || s.history.Known == 0 {
		s.push(minute, t.first[d])
		return
	}
	if t.moved[d] != 0 {
		s.history.Amend(minute, math.Max(0, zeroIfNaN(t.was[d])+t.moved[d]))
	}
	s.learnReporting(minute, &t.first[d], t.was[d])
}

// take counts what a minute of a class will come to, and adds it to the sums.
func (p *pool) take(c *class, d int, minute int64, now features.Estimate, t *sums, settle int) {
	s, ok := c.series[d], !math.IsNaN(now.Mean)
	if s == nil {
		if !ok {
			return
		}
		if !slices.ContainsFunc(c.series, func(s *series) bool { return s != nil }) {
			c.began = p.begins(c, minute)
		}
		s = p.newSeries(c.key, settle)
		s.began = c.began
		c.series[d] = s
	}
	if ok {
		t.first[d] = plus(t.first[d], now)
	}
	if h := s.history; h.Known > 0 && minute <= h.Newest {
		if was := h.At(minute); s.amend(minute, now) {
			t.moved[d] += now.Mean - zeroIfNaN(was)
		}
		return
	}
	s.push(minute, now)
	if ok {
		t.moved[d] += now.Mean // a class that was heard of late, if this is an earlier minute of the pool
	}
}

// begins says whether a class that is first heard of in a minute has just begun: the quarter of an hour before is known.
func (p *pool) begins(c *class, minute int64) bool {
	watched := func(s *series) bool {
		for m := minute - 15; m < minute; m++ {
			if s == nil || math.IsNaN(s.history.At(m)) {
				return false
			}
		}
		return true
	}
	return c.key.Class != features.OverflowClass && slices.ContainsFunc(p.total, watched)
}

func zeroIfNaN(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// Forecast answers for every pool at origin, the end of the newest minute observed. O(pools × shown classes × dimensions)
// passes of the network.
func (f *Forecaster) Forecast(origin time.Time) []PoolForecast {
	out := make([]PoolForecast, 0, len(f.pools))
	for _, p := range f.pools {
		out = append(out, p.forecast(origin, f.cfg.StaleAfter))
	}
	return out
}

func (p *pool) forecast(origin time.Time, staleAfter time.Duration) PoolForecast {
	pf := PoolForecast{Pool: p.name, Origin: origin, Minute: p.minute}
	pf.Stale = p.minute.LastEvent.IsZero() || origin.Sub(p.minute.LastEvent) > staleAfter
	events := p.upcoming()
	var allNow, allThen shapeSums
	for _, c := range p.classes {
		now, then := c.shape.sum(0), c.shape.sum(shapeBack)
		allNow.add(&now)
		allThen.add(&then)
		if !c.shown && events == nil {
			continue
		}
		for d, s := range c.series {
			f := Forecast{Key: c.key, Dimension: dimensions[d].Name, Origin: origin}
			if s == nil || !s.forecast(&f) {
				continue
			}
			f.Basis.Now, f.Basis.Then = now, then
			events.class(d, &f)
			if c.shown {
				pf.Classes = append(pf.Classes, f)
			}
		}
	}
	for d, s := range p.total {
		f := Forecast{Key: features.Key{Pool: p.name, Class: features.TotalClass}, Dimension: dimensions[d].Name, Origin: origin}
		if s == nil || !s.forecast(&f) {
			continue
		}
		f.Basis.Now, f.Basis.Then = allNow, allThen
		events.total(d, &f)
		pf.Total = append(pf.Total, f)
		pf.Paths.Dimensions = append(pf.Paths.Dimensions, f.Dimension)
		pf.Paths.At = append(pf.Paths.At, samplePaths(&f.Minute))
	}
	pf.Retries = p.retries.forecast(p.minute.Start.Unix()/60, pf.Total)
	return pf
}

// Of returns the forecast of the pool's total for a dimension, nil when there is none.
func (pf *PoolForecast) Of(dimension string) *Forecast {
	for i := range pf.Total {
		if pf.Total[i].Dimension == dimension {
			return &pf.Total[i]
		}
	}
	return nil
}

// pool finds or adds a pool, keeping the order.
func (f *Forecaster) pool(name string) *pool {
	i, ok := f.find(name)
	if !ok {
		zone, own := f.cfg.Zones[name]
		if !own {
			zone = f.cfg.Zone
		}
		p := &pool{
			of: f, name: name, calendar: model.NewCalendar(zone), total: make([]*series, len(dimensions)), newest: -1,
		}
		for j := range f.cfg.Events {
			if e := &f.cfg.Events[j]; e.Pool == name {
				p.effects = append(p.effects, newEffect(e))
			}
		}
		f.pools = slices.Insert(f.pools, i, p)
	}
	return f.pools[i]
}

// SetZone has the seasons of a pool follow the clocks of a time zone from now on; nil is UTC.
func (f *Forecaster) SetZone(name string, zone *time.Location) {
	f.cfg.Zones[name] = zone
	i, ok := f.find(name)
	if !ok {
		return
	}
	p := f.pools[i]
	p.calendar = model.NewCalendar(zone)
	follow := func(all []*series) {
		for _, s := range all {
			if s != nil {
				s.history.Calendar = p.calendar
			}
		}
	}
	follow(p.total)
	for _, c := range p.classes {
		follow(c.series)
	}
}

// Forget forgets a pool.
func (f *Forecaster) Forget(name string) {
	delete(f.cfg.Zones, name)
	if i, ok := f.find(name); ok {
		f.pools = slices.Delete(f.pools, i, i+1)
	}
}

func (f *Forecaster) find(name string) (int, bool) {
	return slices.BinarySearchFunc(f.pools, name, func(p *pool, n string) int { return strings.Compare(p.name, n) })
}

// newSeries is an empty series of a class of the pool, or of its total.
func (p *pool) newSeries(key features.Key, settle int) *series {
	s := newSeries(key, settle)
	s.history.Calendar = p.calendar
	return s
}

// find finds a class with series of its own, nil when there is none.
func (p *pool) find(name string) *class {
	i, ok := slices.BinarySearchFunc(p.classes, name, func(c *class, n string) int { return strings.Compare(c.key.Class, n) })
	if !ok {
		return nil
	}
	return p.classes[i]
}

// class finds or adds a class, keeping the order.
func (p *pool) class(key features.Key) *class {
	i, ok := slices.BinarySearchFunc(p.classes, key.Class, func(c *class, n string) int { return strings.Compare(c.key.Class, n) })
	if !ok {
		p.classes = slices.Insert(p.classes, i, &class{key: key, shown: len(p.classes) < p.of.cfg.Shown, series: make([]*series, len(dimensions))})
	}
	return p.classes[i]
}
