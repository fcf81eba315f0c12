package features

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/features/sketch"
)

// pool is the state of one pool.
type pool struct {
	name      string
	service   Service
	phased    bool // sends a record of its own when a request arrives
	lastEvent unixTime
	watermark unixTime
	coverage  []coverage // by slot
	settled   coverage   // of the minute that settled last
	expected  Expected
	sharing   sharing
	byName    map[string]*class
	classes   []*class // ordered by name
	fleet     fleet
	lag       lag
	retried   int64 // the newest minute with an attempt at a call that was counted before
}

// coverage is the evidence of telemetry and of a queue of a pool in one minute.
type coverage struct {
	evidence      bool // a record has this minute
	queuePressure queuePressure
	use           engineUse

	returned, censored bool // Covered and Censored of the windows that were returned last
}

// class is the state of one class of a pool. Without an open window it is a few hundred bytes and the names of recent
// tenants.
type class struct {
	key        Key
	pool       *pool
	born, last int64 // first and newest minute with a record
	reports    Reports
	moments    sketch.Moments // fading
	expected   Expected
	late       Late     // since a window settled last
	accounts   accounts // fading
	evicted    bool
	buckets    []*bucket // by slot, nil where nothing came; nil altogether while nothing is open
	open       int       // number of buckets
	nowcasts   *nowcasts // nil while nothing ever came late
}

// bucket is the accumulating window of one minute.
type bucket struct {
	Window
	shapes  *shapes // nil before the first measurement
	pace    pace
	changed int64 // Aggregator.round of the newest change
}

// dirty reports whether the bucket of a minute has changed since it was last returned.
func (a *Aggregator) dirty(at *bucket, m int64) bool { return at.changed == a.round || m >= a.unseen }

// shapes are the sketches of a window.
type shapes [shapeCount]sketch.Quantile

// pool finds a pool or adds it.
func (a *Aggregator) pool(name string) *pool {
	if p := a.known(name); p != nil {
		return p
	}
	p := &pool{
		name:      name,
		service:   a.cfg.service(name),
		lastEvent: never,
		watermark: never,
		coverage:  make([]coverage, a.slots()),
		byName:    make(map[string]*class),
		fleet:     newFleet(),
		lag:       newLag(a.revise),
		retried:   math.MinInt64 / 2,
	}
	a.byName[name] = p
	i, _ := slices.BinarySearchFunc(a.pools, name, func(p *pool, name string) int { return strings.Compare(p.name, name) })
	a.pools = slices.Insert(a.pools, i, p)
	return p
}

// known finds a pool, or nil.
func (a *Aggregator) known(name string) *pool {
	if p := a.latest; p != nil && p.name == name {
		return p
	}
	p, ok := a.byName[name]
	if ok {
		a.latest = p
	}
	return p
}

// class finds or adds the class of a record of the given minute, and marks the minute as one with traffic. A name
// beyond the cap, or the reserved name of the total, becomes OverflowClass.
func (a *Aggregator) class(p *pool, name string, minute int64) *class {
	c := a.lookup(p, name, minute)
	c.born, c.last = min(c.born, minute), max(c.last, minute)
	return c
}

// lookup is class without the mark.
func (a *Aggregator) lookup(p *pool, name string, minute int64) *class {
	c, ok := p.byName[name]
	if !ok {
		if name == TotalClass || a.named >= a.cfg.MaxClasses {
			a.counters.OverflowRecords++
			name = OverflowClass
		}
		if c, ok = p.byName[name]; !ok {
			c = a.newClass(p, name)
			c.born, c.last = minute, minute
		}
	}
	return c
}

// newClass adds a class to a pool that does not have it.
func (a *Aggregator) newClass(p *pool, name string) *class {
	c := &class{key: Key{Pool: p.name, Class: name}, pool: p}
	p.byName[name] = c
	if name != OverflowClass {
		a.named++
	}
	i, _ := slices.BinarySearchFunc(p.classes, name, func(c *class, name string) int { return strings.Compare(c.key.Class, name) })
	p.classes = slices.Insert(p.classes, i, c)
	return c
}

// bucket returns the bucket of a minute of the open span, for the caller to change.
func (a *Aggregator) bucket(c *class, minute int64) *bucket {
	if c.buckets == nil {
		c.buckets = make([]*bucket, a.slots())
	}
	at := &c.buckets[a.slot(minute)]
	if *at == nil {
		*at = &bucket{}
		c.open++
	}
	(*at).changed = a.round
	return *at
}

// find is the bucket of a minute of the open span, nil without records.
func (a *Aggregator) find(c *class, minute int64) *bucket {
	if c.buckets == nil {
		return nil
	}
	return c.buckets[a.slot(minute)]
}

// release takes the bucket of a minute out of the span.
func (a *Aggregator) release(c *class, slot int) {
	if c.buckets == nil || c.buckets[slot] == nil {
		return
	}
	c.buckets[slot] = nil
	if c.open--; c.open == 0 {
		c.buckets = nil
	}
}

// measure counts a value in a sketch of the window.
func (w *bucket) measure(shape int, v float64) {
	if w.shapes == nil {
		w.shapes = new(shapes)
	}
	w.shapes[shape].Add(v)
}

// slots is the length of a ring that holds the open span: the next power of two, so that a slot is a mask.
func (a *Aggregator) slots() int { return 1 << bits.Len64(uint64(a.revise+a.ahead-1)) }

// slot is the index of a minute of the open span in a ring.
func (a *Aggregator) slot(minute int64) int { return int(minute & a.mask) }
