package features

import (
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/ingest"
)

// aheadMinutes is how far occupancy may reach beyond the newest minute: only traces with drawn times know the future.
const aheadMinutes = 60

// Aggregator folds records into windows, one minute of event time per pool and class.
//
// It owns no clock. The caller adds records in the order of the log and calls Close at every minute boundary; which
// minutes are open follows from the last Close alone. With o the first minute that has not been closed and R =
// Config.Revise in minutes, the open span is [o − R, o + 60 and a little): records before it are late, records beyond
// it are in the future. The first record opens the span when no Close has come before it.
//
// Every Add costs O(1) amortised, plus the ten-second slots that a request's life touches. Memory is bounded by classes
// × open minutes. Pools are bounded by the caller, who refuses those it does not know. An Aggregator must not be used
// by two goroutines at once.
type Aggregator struct {
	cfg           Config
	revise, ahead int64 // minutes

	started bool  // the span is open
	closed  bool  // Close has been called
	open    int64 // first minute that has not been closed

	byName   map[string]*pool
	pools    []*pool // ordered by name
	arrivals arrivals
	counters Counters

	free     []*cell // for reuse
	returned []*cell // out of the span, but lent to the caller until the next Close

	windows []Window
	minutes []PoolMinute
}

// pool is what the Aggregator keeps of one pool.
type pool struct {
	name      string
	service   Service
	phased    bool // sends a record of its own when a request arrives
	lastEvent time.Time
	watermark time.Time
	coverage  []coverage // by slot
	byName    map[string]*class
	classes   []*class // ordered by name
	fleet     fleet
}

// coverage is the evidence of life of a pool in one minute.
type coverage struct {
	evidence bool // a record fell into the minute
	returned bool // what the windows that were returned last said
}

// class is what the Aggregator keeps of one class of a pool.
type class struct {
	key        Key
	born, last int64 // first and newest minute with a record
	reports    Reports
	moments    sketch.Moments // fading
	tenants    *sketch.TopK   // fading
	top        []sketch.Count
	cells      []*cell // by slot; nil where nothing came
}

// cell is the accumulating window of one minute.
type cell struct {
	Window
	shapes [shapeCount]sketch.Quantile
	dirty  bool // changed since it was returned last
}

// New makes an empty Aggregator. Bounds in cfg that are not positive mean their defaults.
func New(cfg Config) *Aggregator {
	cfg = cfg.complete()
	return &Aggregator{
		cfg:      cfg,
		revise:   minutes(cfg.Revise),
		ahead:    aheadMinutes + minutes(cfg.Lateness+cfg.FutureBound) + 1,
		byName:   make(map[string]*pool),
		arrivals: newArrivals(maxArrivals),
	}
}

// Counters are the counts since the Aggregator began, snapshots included.
func (a *Aggregator) Counters() Counters { return a.counters }

// AddReplica takes in the state of one replica. The caller has checked that its pool is known and that it is not ahead
// of the clock.
func (a *Aggregator) AddReplica(r *ingest.Replica) {
	m := minuteOf(r.At)
	a.begin(m)
	p := a.pool(r.Pool)
	p.fleet.add(r, a.cfg.MaxReplicas, &a.counters)
	a.evidence(p, m, r.At)
}

// AddWatermark takes in a promise about time. One that names a pool covers that pool's minutes up to it, so that
// silence in them is zero traffic; one without a pool says nothing to the Aggregator.
func (a *Aggregator) AddWatermark(w *ingest.Watermark) {
	if w.Pool == "" {
		return
	}
	p := a.pool(w.Pool)
	p.watermark = later(p.watermark, w.At)
	p.lastEvent = later(p.lastEvent, w.At)
}

// begin opens the span at the first record. Until the first Close, a record beyond the span opens it anew, so that one
// that is absurdly old cannot keep the others out.
func (a *Aggregator) begin(minute int64) {
	switch {
	case !a.started:
		a.started, a.open = true, minute
	case !a.closed && minute >= a.end():
		a.advance(minute)
	}
}

// oldest is the first minute of the open span, end the first beyond it.
func (a *Aggregator) oldest() int64 { return a.open - a.revise }
func (a *Aggregator) end() int64    { return a.open + a.ahead }

// holds says whether a minute is in the open span.
func (a *Aggregator) holds(minute int64) bool { return minute >= a.oldest() && minute < a.end() }

func (a *Aggregator) span() int { return int(a.revise + a.ahead) }

// slot is where a minute of the open span lies in a ring.
func (a *Aggregator) slot(minute int64) int {
	n := int64(a.span())
	return int(((minute % n) + n) % n)
}

// refuse says why a record of this minute cannot be counted, and counts that.
func (a *Aggregator) refuse(minute int64) ingest.Reason {
	switch {
	case minute < a.oldest():
		a.counters.Late++
		return ingest.ReasonLate
	case minute >= a.end():
		a.counters.Future++
		return ingest.ReasonFuture
	}
	return ""
}

// evidence notes that a record of the pool fell into a minute.
func (a *Aggregator) evidence(p *pool, minute int64, at time.Time) {
	p.lastEvent = later(p.lastEvent, at)
	if a.holds(minute) {
		p.coverage[a.slot(minute)].evidence = true
	}
}

// covered says whether telemetry of the pool was alive in a minute of the open span.
func (a *Aggregator) covered(p *pool, minute int64) bool {
	return p.coverage[a.slot(minute)].evidence || !p.watermark.Before(startOf(minute+1))
}

func (a *Aggregator) pool(name string) *pool {
	if p, ok := a.byName[name]; ok {
		return p
	}
	p := &pool{
		name:     name,
		service:  a.cfg.service(name),
		coverage: make([]coverage, a.span()),
		byName:   make(map[string]*class),
		fleet:    newFleet(),
	}
	a.byName[name] = p
	i, _ := slices.BinarySearchFunc(a.pools, name, func(p *pool, name string) int { return strings.Compare(p.name, name) })
	a.pools = slices.Insert(a.pools, i, p)
	return p
}

// class finds the class that a record of the given minute belongs to, and notes the minute as one with traffic. A name
// beyond the cap, and the reserved name of the total, go to OverflowClass.
func (a *Aggregator) class(p *pool, name string, minute int64) *class {
	c, ok := p.byName[name]
	if !ok {
		if name == TotalClass || p.named() >= a.cfg.MaxClasses {
			a.counters.OverflowRecords++
			name = OverflowClass
		}
		if c, ok = p.byName[name]; !ok {
			c = a.newClass(p, name)
			c.born, c.last = minute, minute
		}
	}
	c.born, c.last = min(c.born, minute), max(c.last, minute)
	return c
}

// named is the number of classes beside OverflowClass.
func (p *pool) named() int {
	if _, ok := p.byName[OverflowClass]; ok {
		return len(p.classes) - 1
	}
	return len(p.classes)
}

// newClass adds a class to a pool that does not have it. The names of records are kept: they outlive their batch.
func (a *Aggregator) newClass(p *pool, name string) *class {
	name = strings.Clone(name)
	c := &class{
		key:     Key{Pool: p.name, Class: name},
		tenants: sketch.NewTopK(a.tenantCounters()),
		cells:   make([]*cell, a.span()),
	}
	p.byName[name] = c
	i, _ := slices.BinarySearchFunc(p.classes, name, func(c *class, name string) int { return strings.Compare(c.key.Class, name) })
	p.classes = slices.Insert(p.classes, i, c)
	return c
}

// tenantCounters is how many counters stand behind the tenants that are listed: with eight for each, a listed weight is
// off by at most 1/(8·MaxTenants) of the class's tokens.
func (a *Aggregator) tenantCounters() int { return 8 * a.cfg.MaxTenants }

// cell is the accumulating window of a minute of the open span, which the caller is about to change.
func (a *Aggregator) cell(c *class, minute int64) *cell {
	at := &c.cells[a.slot(minute)]
	if *at == nil {
		if n := len(a.free); n > 0 {
			*at, a.free = a.free[n-1], a.free[:n-1]
		} else {
			*at = new(cell)
		}
	}
	(*at).dirty = true
	return *at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b.UTC()
	}
	return a
}
