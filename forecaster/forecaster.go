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
	// MaxClasses is how many classes of a pool have forecasts of their own, the heaviest by tokens; the others are
	// forecast together as features.OverflowClass. Pool totals are of all. Not positive means DefaultMaxClasses.
	MaxClasses int
	// Zones are the time zones, by pool, whose clocks daily and weekly seasons follow; that of pools which it does not name
	// is Zone. Nil is UTC.
	Zones map[string]*time.Location
	Zone  *time.Location
}

// DefaultMaxClasses is what an unset Config.MaxClasses means.
const DefaultMaxClasses = 64

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
	name     string
	calendar *model.Calendar
	classes  []*class  // ordered by class
	total    []*series // by index into dimensions; nil until the dimension is known
	minute   features.PoolMinute

	standings []*standing // of every class, ordered by name
	rest      span        // sums of the classes without series of their own
	chosen    int64       // minute in which standings were looked at last
}

type class struct {
	key    features.Key
	series []*series // by index into dimensions; nil until the dimension is known
	shape  shape

	sessions *model.Sessions // nil without any
	ahead    *[model.SessionDimensions][model.SessionLeads]float64
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
		p.forget(pools[i].Start.Unix() / 60)
	}
	for len(windows) > 0 {
		n := 1
		for n < len(windows) && windows[n].Pool == windows[0].Pool && windows[n].Start.Equal(windows[0].Start) {
			n++
		}
		f.pool(windows[0].Pool).observe(windows[:n], f.settleMinutes(), f.cfg.MaxClasses)
		windows = windows[n:]
	}
}

// forgetAfter is how many minutes a class may be left out of the windows before it is forgotten: the aggregator lists
// every class it still follows, silent ones too.
const forgetAfter = 1440

func (p *pool) forget(minute int64) {
	p.classes = slices.DeleteFunc(p.classes, func(c *class) bool { return c.shape.Newest < minute-forgetAfter })
	p.standings = slices.DeleteFunc(p.standings, func(s *standing) bool { return s.newest < minute-forgetAfter })
}

// observe takes the windows of one pool and one minute.
func (p *pool) observe(windows []features.Window, settle, limit int) {
	minute := windows[0].Start.Unix() / 60
	p.choose(minute, limit, settle)
	sums, others := unknowns(), unknowns()
	was := make([]float64, len(dimensions)) // the totals of an earlier minute
	for d, s := range p.total {
		if s != nil {
			was[d] = s.history.At(minute)
		}
	}
	var rest features.Window // what the classes without series of their own add up to
	for i := range windows {
		w := &windows[i]
		s := p.stand(w.Class, limit)
		s.rank(minute, w)
		if !s.alone {
			p.pooled(s, minute, w, others, settle)
			addShape(&rest, w)
			continue
		}
		c := p.class(w.Key)
		if minute > c.shape.Newest {
			c.converse(minute, w)
		}
		c.shape.observe(minute, w)
		for d := range dimensions {
			now, ok := dimensions[d].Now(w)
			if !ok {
				now = unknown
			}
			p.take(c, d, minute, now, sums, settle)
		}
	}
	if rest.Class != "" {
		c := p.class(features.Key{Pool: p.name, Class: features.OverflowClass})
		if minute > c.shape.Newest { // of later amendments it does not have all
			c.shape.observe(minute, &rest)
		}
		for d, y := range p.rest.row(minute) {
			p.take(c, d, minute, around(y, others[d]), sums, settle)
		}
	}
	for d := range sums {
		s := p.total[d]
		if s == nil {
			if math.IsNaN(sums[d].Mean) {
				continue
			}
			s = p.newSeries(features.Key{Pool: p.name, Class: features.TotalClass}, settle)
			p.total[d] = s
		}
		if minute > s.history.Newest {
			p.tellTotal(d, s, minute)
			s.push(minute, sums[d])
		} else {
			s.reckon(minute, &sums[d], was[d])
		}
	}
}

// take counts what a minute of a class will come to, and adds it to sums.
func (p *pool) take(c *class, d int, minute int64, now features.Estimate, sums []features.Estimate, settle int) {
	s, ok := c.series[d], !math.IsNaN(now.Mean)
	if s == nil {
		if !ok {
			return
		}
		s = p.newSeries(c.key, settle)
		c.series[d] = s
	}
	if ok {
		sums[d] = plus(sums[d], now)
	}
	if s.history.Known > 0 && minute <= s.history.Newest {
		p.amend(d, s, minute, now)
		return
	}
	c.tell(d, s)
	s.push(minute, now)
	if t := p.total[d]; ok && t != nil && minute <= t.history.Newest {
		t.history.Amend(minute, zeroIfNaN(t.history.At(minute))+now.Mean) // a class that was heard of late
	}
}

// amend corrects an earlier minute of a class and of the pool's total.
func (p *pool) amend(d int, s *series, minute int64, now features.Estimate) {
	was, changed := s.amend(minute, now)
	if t := p.total[d]; t != nil && changed {
		t.history.Amend(minute, math.Max(0, zeroIfNaN(t.history.At(minute))-zeroIfNaN(was)+now.Mean))
	}
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
	sums := make([][][Horizon]float32, len(dimensions))
	for _, c := range p.classes {
		for d, s := range c.series {
			f := Forecast{Key: c.key, Dimension: dimensions[d].Name, Origin: origin}
			if s == nil || !s.forecast(&f) {
				continue
			}
			if sums[d] == nil {
				sums[d] = make([][Horizon]float32, NumPaths)
			}
			addPaths(sums[d], &f, &s.ranks)
			pf.Classes = append(pf.Classes, f)
		}
	}
	for d, s := range p.total {
		f := Forecast{Key: features.Key{Pool: p.name, Class: features.TotalClass}, Dimension: dimensions[d].Name, Origin: origin}
		if s == nil || !s.forecast(&f) || sums[d] == nil {
			continue
		}
		settleMarginals(sums[d], &f)
		pf.Total = append(pf.Total, f)
		pf.Paths.Dimensions = append(pf.Paths.Dimensions, f.Dimension)
		pf.Paths.At = append(pf.Paths.At, sums[d])
	}
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
	i, ok := slices.BinarySearchFunc(f.pools, name, func(p *pool, n string) int { return strings.Compare(p.name, n) })
	if !ok {
		zone, own := f.cfg.Zones[name]
		if !own {
			zone = f.cfg.Zone
		}
		f.pools = slices.Insert(f.pools, i, &pool{name: name, calendar: model.NewCalendar(zone), total: make([]*series, len(dimensions))})
	}
	return f.pools[i]
}

// newSeries is an empty series of a class of the pool, or of its total.
func (p *pool) newSeries(key features.Key, settle int) *series {
	s := newSeries(key, settle)
	s.history.Calendar = p.calendar
	return s
}

// class finds or adds a class, keeping the order.
func (p *pool) class(key features.Key) *class {
	i, ok := slices.BinarySearchFunc(p.classes, key.Class, func(c *class, n string) int { return strings.Compare(c.key.Class, n) })
	if !ok {
		p.classes = slices.Insert(p.classes, i, &class{key: key, series: make([]*series, len(dimensions))})
	}
	return p.classes[i]
}
