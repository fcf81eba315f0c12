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
	// MaxClasses is how many classes of a pool, the heaviest by tokens, are forecast by the whole stack of models: some
	// 600 KiB a class. Not positive means DefaultMaxClasses.
	MaxClasses int
	// Zones are the time zones, by pool, whose clocks daily and weekly seasons follow; that of pools which it does not name
	// is Zone. Nil is UTC.
	Zones map[string]*time.Location
	Zone  *time.Location
	// MaxLight is how many further classes, over all pools, have light series: some 35 KiB a class. What is left is
	// forecast together as features.OverflowClass. Pool totals are of all.
	MaxLight int
	// Events are the calendar of what is known to come, of all pools. At most MaxEvents, each name once in a pool.
	Events []Event
}

// DefaultMaxClasses is what an unset Config.MaxClasses means, DefaultMaxLight a MaxLight that takes some 350 MiB when all
// of it is used.
const (
	DefaultMaxClasses = 64
	DefaultMaxLight   = 10_000
)

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
	light int     // classes with light series, over all pools
}

type pool struct {
	of       *Forecaster
	name     string
	calendar *model.Calendar
	classes  []*class  // with series of their own, ordered by class
	total    []*series // by index into dimensions; nil until the dimension is known
	shared   []*shared // by index into dimensions
	minute   features.PoolMinute
	retries  retries

	standings []*standing // of every class, ordered by name
	newest    int64       // minute observed
	rest      span        // sums of the classes without series of their own
	full      int         // classes with full series, features.OverflowClass aside
	chosen    int64       // minute in which standings were looked at last

	effects []*effect // of the calendar's events of this pool, in its order
}

// class has either full or light series, by index into dimensions; nil until the dimension is known.
type class struct {
	key    features.Key
	series []*series
	light  []*light
	shown  bool // has forecasts of its own in the output
	shape  shape
}

// follower is a series of a class.
type follower interface {
	past() *model.History
	begun() bool
	push(m int64, now features.Estimate)
	amend(m int64, now features.Estimate) (changed bool)
}

// follower of a dimension; nil until that is known.
func (c *class) follower(d int) follower {
	if c.light != nil {
		if l := c.light[d]; l != nil {
			return l
		}
		return nil
	}
	if s := c.series[d]; s != nil {
		return s
	}
	return nil
}

// New returns an empty Forecaster.
func New(cfg Config) *Forecaster {
	if cfg.MaxClasses <= 0 {
		cfg.MaxClasses = DefaultMaxClasses
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
	p.standings = slices.DeleteFunc(p.standings, func(s *standing) bool {
		gone := s.newest < minute-forgetAfter
		if gone {
			p.seat(s, tierPooled)
		}
		return gone
	})
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
	p.choose(minute, settle)
	newest := minute > p.newest
	if newest {
		p.newest = minute
		p.expectEvents(minute)
	}
	others := unknowns()
	t := sums{unknowns(), make([]float64, len(dimensions)), make([]float64, len(dimensions))}
	for d, s := range p.total {
		if s != nil {
			t.was[d] = s.history.At(minute)
		}
	}
	var rest features.Window // what the classes without series of their own add up to
	at := 0
	for i := range windows {
		w := &windows[i]
		s := p.stand(w.Class, &at)
		s.rank(minute, w)
		if s.tier == tierPooled {
			p.pooled(s, minute, w, others, settle, newest)
			addShape(&rest, w)
			continue
		}
		multiplier := p.multiplier(w.Class, minute)
		s.class.shape.observe(minute, w)
		for d := range dimensions {
			now, ok := p.base(d, w, multiplier, newest)
			if !ok {
				now = unknown
			}
			p.take(s.class, d, minute, now, &t, settle)
		}
	}
	if rest.Class != "" {
		c := p.class(features.Key{Pool: p.name, Class: features.OverflowClass})
		if minute > c.shape.Newest { // of later amendments it does not have all
			c.shape.observe(minute, &rest)
		}
		for d, y := range p.rest.row(minute) {
			p.take(c, d, minute, around(y, others[d]), &t, settle)
		}
	}
	if newest {
		p.learnEvents(minute)
	}
	for d, s := range p.shared {
		if s != nil {
			s.settle()
		}
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
	s.reckon(minute, &t.first[d], t.was[d])
}

// take counts what a minute of a class will come to, and adds it to the sums.
func (p *pool) take(c *class, d int, minute int64, now features.Estimate, t *sums, settle int) {
	s, ok := c.follower(d), !math.IsNaN(now.Mean)
	if s == nil {
		if !ok {
			return
		}
		s = p.follow(c, d, settle, p.witnessed(c, d, minute))
	}
	if ok {
		t.first[d] = plus(t.first[d], now)
	}
	if h := s.past(); h.Known > 0 && minute <= h.Newest {
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

// follow begins a series; witnessed says that the class has just begun, too.
func (p *pool) follow(c *class, d, settle int, witnessed bool) follower {
	if c.light == nil {
		c.series[d] = p.newSeries(c.key, settle)
		c.series[d].spread.Spells.Witnessed = witnessed
		p.lend(c.series[d], d)
		return c.series[d]
	}
	c.light[d] = newLight(c.key, p.sharing(d), p.nothing(settle))
	c.light[d].spread.Spells.Witnessed = witnessed
	return c.light[d]
}

// sharing is what light series of a dimension share.
func (p *pool) sharing(d int) *shared {
	if p.shared[d] == nil {
		p.shared[d] = newShared()
	}
	return p.shared[d]
}

func zeroIfNaN(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// Forecast answers for every pool at origin, the end of the newest minute observed. Cost: about a quantile per class,
// dimension, path and minute.
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
	paths := make([][][Horizon]float32, len(dimensions))
	tails := make([]tail, len(dimensions))
	events := p.upcoming()
	var allNow, allThen shapeSums
	for _, c := range p.classes {
		now, then := c.shape.sum(0), c.shape.sum(shapeBack)
		allNow.add(&now)
		allThen.add(&then)
		for d := range dimensions {
			f := Forecast{Key: c.key, Dimension: dimensions[d].Name, Origin: origin}
			if c.light != nil {
				var at [numTargets]Quantiles
				if l := c.light[d]; l == nil || !l.distributions(&at) {
					continue
				} else if events != nil || c.shown {
					l.forecast(&f, &at)
					f.Basis.Now, f.Basis.Then = now, then
					events.light(d, &f, &at)
				}
				if tails[d].add(&at); c.shown {
					pf.Classes = append(pf.Classes, f)
				}
				continue
			}
			if s := c.series[d]; s != nil && s.forecast(&f) {
				f.Basis.Now, f.Basis.Then = now, then
				events.class(d, &f)
				open(&paths[d])
				addPaths(paths[d], &f.Minute, &s.ranks)
				pf.Classes = append(pf.Classes, f)
			}
		}
	}
	for d, s := range p.total {
		f := Forecast{Key: features.Key{Pool: p.name, Class: features.TotalClass}, Dimension: dimensions[d].Name, Origin: origin}
		if s == nil || !s.forecast(&f) || paths[d] == nil && !tails[d].any {
			continue
		}
		f.Basis.Now, f.Basis.Then = allNow, allThen
		events.total(d, &f)
		open(&paths[d])
		if tails[d].any {
			var minutes [Horizon]Quantiles
			interpolate(&tails[d].at, &minutes)
			addPaths(paths[d], &minutes, &s.ranks)
		}
		settleMarginals(paths[d], &f)
		pf.Total = append(pf.Total, f)
		pf.Paths.Dimensions = append(pf.Paths.Dimensions, f.Dimension)
		pf.Paths.At = append(pf.Paths.At, paths[d])
	}
	pf.Retries = p.retries.forecast(p.minute.Start.Unix()/60, pf.Total)
	return pf
}

// tail adds up the quantiles of a pool's light series. As a path they are taken to run like the pool's total did, all
// together: of thousands of classes only what they have in common is left in the sum.
type tail struct {
	at  [numTargets]Quantiles
	any bool
}

func (t *tail) add(at *[numTargets]Quantiles) {
	t.any = true
	for k := range at {
		for i, q := range at[k] {
			t.at[k][i] += q
		}
	}
}

// open makes room for paths.
func open(paths *[][Horizon]float32) {
	if *paths == nil {
		*paths = make([][Horizon]float32, NumPaths)
	}
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
	i, ok := slices.BinarySearchFunc(f.pools, name, func(p *pool, n string) int { return strings.Compare(p.name, n) })
	if !ok {
		zone, own := f.cfg.Zones[name]
		if !own {
			zone = f.cfg.Zone
		}
		p := &pool{
			of: f, name: name, calendar: model.NewCalendar(zone), total: make([]*series, len(dimensions)), shared: make([]*shared, len(dimensions)), newest: -1,
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

// newSeries is an empty series of a class of the pool, or of its total.
func (p *pool) newSeries(key features.Key, settle int) *series {
	s := newSeries(key, settle)
	s.history.Calendar = p.calendar
	return s
}

// nothing is what is observed of a series that is new.
func (p *pool) nothing(settle int) observed {
	o := observed{settle: settle, history: model.NewHistory()}
	o.history.Calendar = p.calendar
	return o
}

// find finds a class with series of its own, nil when there is none.
func (p *pool) find(name string) *class {
	i, ok := slices.BinarySearchFunc(p.classes, name, func(c *class, n string) int { return strings.Compare(c.key.Class, n) })
	if !ok {
		return nil
	}
	return p.classes[i]
}

// class finds or adds a class, with full series, keeping the order.
func (p *pool) class(key features.Key) *class {
	i, ok := slices.BinarySearchFunc(p.classes, key.Class, func(c *class, n string) int { return strings.Compare(c.key.Class, n) })
	if !ok {
		p.classes = slices.Insert(p.classes, i, &class{key: key, shown: true, series: make([]*series, len(dimensions))})
	}
	return p.classes[i]
}
