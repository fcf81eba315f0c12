package features

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// The exported fields of the types here are the saved state. See Parts.

type pool struct {
	Name      string             `cbor:"1,keyasint"`
	LastEvent unixTime           `cbor:"3,keyasint"`
	Watermark unixTime           `cbor:"4,keyasint"`
	Coverage  byMinute[coverage] `cbor:"5,keyasint"`
	Settled   coverage           `cbor:"6,keyasint"` // of the minute that settled last
	Expected  expected           `cbor:"7,keyasint"`
	Sharing   sharing            `cbor:"8,keyasint"`
	Lag       lag                `cbor:"9,keyasint"`
	Retried   int64              `cbor:"10,keyasint"` // the newest minute with an attempt at a call that was counted before
	Fleet     fleet              `cbor:"11,keyasint"`
	Classes   int                `cbor:"12,keyasint"` // number of classes; only in a saved state

	service Service
	byName  map[string]*class
	classes []*class // ordered by name
}

// coverage is what a pool has of one minute: the evidence of telemetry and of a queue, and the service of all classes.
type coverage struct {
	Evidence bool          `cbor:"1,keyasint,omitempty"` // a record has this minute
	Queue    queuePressure `cbor:"2,keyasint,omitempty"`
	Use      engineUse     `cbor:"3,keyasint,omitempty"`
	Served   Served        `cbor:"7,keyasint,omitzero"`
	// Covered and Censored of the windows that were returned last.
	Returned bool `cbor:"4,keyasint,omitempty"`
	Censored bool `cbor:"5,keyasint,omitempty"`
	Ready    int  `cbor:"6,keyasint,omitempty"` // replicas at its end, 0 if unknown
}

// class is the state of one class of a pool. Without an open window it is a few hundred bytes and the names of recent
// tenants.
type class struct {
	// What each record needs comes first: with many classes its cost is the lines of memory that it touches.
	pool     *pool
	Born     int64            `cbor:"2,keyasint"` // first minute with a record
	Last     int64            `cbor:"3,keyasint"` // newest minute with a record
	Reports  Reports          `cbor:"4,keyasint"`
	Buckets  byMinute[bucket] `cbor:"10,keyasint,omitempty"` // without minutes in which nothing came
	Expected expected         `cbor:"6,keyasint"`
	Accounts accounts         `cbor:"8,keyasint"`

	Name     string    `cbor:"1,keyasint"`
	Nowcasts *nowcasts `cbor:"9,keyasint,omitempty"` // nil while no record ever came late
	rankings [accountKinds]*Ranking
}

// reports marks values that a record of a bucket reports.
func (c *class) reports(w *bucket, what Reports) {
	c.Reports |= what
	w.Known |= what
}

// bucket is the accumulating window of one minute.
type bucket struct {
	Dirty  bool `cbor:"3,keyasint,omitempty"` // changed since it was last returned
	Pace   pace `cbor:"2,keyasint"`
	Window `cbor:"1,keyasint"`
}

func (a *Aggregator) pool(name string) *pool {
	i, ok := slices.BinarySearchFunc(a.pools, name, func(p *pool, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		a.insertPool(i, &pool{
			Name: name, LastEvent: never, Watermark: never, Lag: newLag(a.Revise), Retried: math.MinInt64 / 2,
		})
	}
	return a.pools[i]
}

// Forget drops a pool that has no classes left. It reports whether the pool is gone.
func (a *Aggregator) Forget(name string) bool {
	a.pools = slices.DeleteFunc(a.pools, func(p *pool) bool { return p.Name == name && len(p.classes) == 0 })
	return !slices.ContainsFunc(a.pools, func(p *pool) bool { return p.Name == name })
}

func (a *Aggregator) insertPool(i int, p *pool) {
	p.service = a.cfg.service(p.Name)
	p.byName = make(map[string]*class)
	a.pools = slices.Insert(a.pools, i, p)
}

// class finds or adds the class of a record of the given minute, and marks the minute as one with traffic. A name
// beyond the cap, or the reserved name of the total, becomes OverflowClass.
func (a *Aggregator) class(p *pool, name string, minute int64) *class {
	c, ok := p.byName[name]
	if !ok {
		if name == TotalClass || a.named >= a.cfg.MaxClasses {
			a.Count.OverflowRecords++
			name = OverflowClass
		}
		if c, ok = p.byName[name]; !ok {
			c = &class{Name: name, Born: minute, Last: minute}
			a.addClass(p, c)
		}
	}
	c.Born, c.Last = min(c.Born, minute), max(c.Last, minute)
	return c
}

// addClass adds a class to a pool that does not have it.
func (a *Aggregator) addClass(p *pool, c *class) {
	c.pool = p
	p.byName[c.Name] = c
	if c.Name != OverflowClass {
		a.named++
	}
	i, _ := slices.BinarySearchFunc(p.classes, c.Name, func(c *class, name string) int { return strings.Compare(c.Name, name) })
	p.classes = slices.Insert(p.classes, i, c)
}

// bucket returns the bucket of a minute of the open span, for the caller to change.
func (c *class) bucket(minute int64) *bucket {
	b := c.Buckets.at(minute)
	b.Dirty = true
	return b
}

// byMinute has values of minutes of the open span, oldest first. They are few, and mostly the newest is asked for.
type byMinute[T any] []dated[T]

type dated[T any] struct {
	_      struct{} `cbor:",toarray"`
	Minute int64
	Of     *T
}

// find is the value of a minute; nil without one.
func (l byMinute[T]) find(minute int64) *T {
	for i := len(l) - 1; i >= 0 && l[i].Minute >= minute; i-- {
		if l[i].Minute == minute {
			return l[i].Of
		}
	}
	return nil
}

// at is the value of a minute, a new one if necessary.
func (l *byMinute[T]) at(minute int64) *T {
	x := l.find(minute)
	if x == nil {
		x = new(T)
		i, _ := slices.BinarySearchFunc(*l, minute, func(d dated[T], minute int64) int { return cmp.Compare(d.Minute, minute) })
		*l = slices.Insert(*l, i, dated[T]{Minute: minute, Of: x})
	}
	return x
}

// keep drops the minutes before from, and those from to on.
func (l *byMinute[T]) keep(from, to int64) {
	*l = slices.DeleteFunc(*l, func(d dated[T]) bool { return d.Minute < from || d.Minute >= to })
}

// state is the first part of a saved Aggregator. Then come the pools, each followed by its classes. Equal Aggregators
// encode to equal bytes. Minutes count from the Unix epoch.
type state struct {
	Started bool     `cbor:"1,keyasint"` // a record has opened the span
	Closed  bool     `cbor:"2,keyasint"` // Close has been called
	Open    int64    `cbor:"3,keyasint"` // first minute that has not been closed
	Pools   int      `cbor:"5,keyasint"` // number of pools; only in a saved state
	Count   Counters `cbor:"6,keyasint"`
	Revise  int64    `cbor:"7,keyasint"` // Config.Revise in minutes; delays have its span
}

// Parts calls put with each part of the state, in the order that Restore expects. A part is valid until put returns.
func (a *Aggregator) Parts(put func(part any) error) error {
	a.Pools = len(a.pools)
	if err := put(&a.state); err != nil {
		return err
	}
	for _, p := range a.pools {
		p.Classes = len(p.classes)
		if err := put(p); err != nil {
			return err
		}
		for _, c := range p.classes {
			if err := put(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// Restore makes an Aggregator that continues exactly where the saved one stopped; next decodes the next part into its
// argument. If cfg has changed, minutes outside the open span are dropped. Classes and replicas beyond a smaller cap
// stay until they are silent.
func Restore(cfg Config, next func(part any) error) (*Aggregator, error) {
	a := New(cfg)
	revise := a.Revise
	if err := next(&a.state); err != nil {
		return nil, fmt.Errorf("restore aggregator: %w", err)
	}
	same := a.Revise == revise
	a.Revise = revise
	for range a.Pools {
		p := &pool{}
		if err := next(p); err != nil {
			return nil, fmt.Errorf("restore aggregator: %w", err)
		}
		p.Coverage.keep(a.oldest(), a.end())
		if !same {
			p.Lag = newLag(a.Revise)
		}
		a.insertPool(len(a.pools), p)
		for range p.Classes {
			c := &class{}
			if err := next(c); err != nil {
				return nil, fmt.Errorf("restore aggregator: pool %q: %w", p.Name, err)
			}
			c.Buckets.keep(a.oldest(), a.end())
			if !same {
				c.Nowcasts = nil
			}
			a.addClass(p, c)
		}
	}
	return a, nil
}

// age fades accounts, and evicts silent replicas and classes.
func (a *Aggregator) age() {
	forgotten := max(minutes(a.cfg.ClassTTL), a.Revise+a.ahead)
	silent := startOf(a.Open).Add(-a.cfg.ReplicaTTL)
	for _, p := range a.pools {
		maps.DeleteFunc(p.Fleet.Replicas, func(_ string, r *replica) bool { return r.Last.At.Before(silent) })
		p.classes = slices.DeleteFunc(p.classes, func(c *class) bool {
			if c.Last+forgotten >= a.Open {
				for kind := range c.Accounts {
					c.Accounts[kind].Scale(fade)
				}
				return false
			}
			delete(p.byName, c.Name)
			if c.Name != OverflowClass {
				a.named--
			}
			return true
		})
	}
}
