package features

import (
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features/sketch"
)

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
	key               Key
	born, last        int64 // first and newest minute with a record
	reports           Reports
	moments           sketch.Moments // fading
	tenants, features *account       // fading; nil before the first name
	cells             []*cell        // by slot; nil where nothing came
}

// cell is the accumulating window of one minute.
type cell struct {
	Window
	shapes [shapeCount]sketch.Quantile
	dirty  bool // changed since it was returned last
}

// pool finds a pool or adds it. Names are copied: they outlive the batch they came in.
func (a *Aggregator) pool(name string) *pool {
	if p, ok := a.byName[name]; ok {
		return p
	}
	name = strings.Clone(name)
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

// newClass adds a class to a pool that does not have it.
func (a *Aggregator) newClass(p *pool, name string) *class {
	name = strings.Clone(name)
	c := &class{
		key:   Key{Pool: p.name, Class: name},
		cells: make([]*cell, a.span()),
	}
	p.byName[name] = c
	i, _ := slices.BinarySearchFunc(p.classes, name, func(c *class, name string) int { return strings.Compare(c.key.Class, name) })
	p.classes = slices.Insert(p.classes, i, c)
	return c
}

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
