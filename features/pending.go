package features

import "github.com/forewarm/forewarm/features/sketch"

// measure adds a value to a shape of a window, where it waits for others (see settleShapes).
func (a *Aggregator) measure(w *cell, shape int, v float64) {
	if w.pending == nil {
		w.pending = a.sparePending.take(newPending)
		w.pending.Begin(w.sketches())
	}
	if !w.pending.Add(shape, v) {
		a.settleShapes(w)
	}
}

// settleShapes counts in the shapes of a window what waits for that.
func (a *Aggregator) settleShapes(w *cell) {
	p := w.pending
	if p == nil {
		return
	}
	p.Count(a.shapesOf(w)[:])
	a.givePending(p)
	w.pending = nil
}

// givePending takes back an empty buffer.
func (a *Aggregator) givePending(p *sketch.Pending) {
	p.Clear()
	a.sparePending.give(p)
}

// sketches are the shapes as a slice, nil when there are none.
func (w *cell) sketches() []sketch.Quantile {
	if w.shapes == nil {
		return nil
	}
	return w.shapes[:]
}

func newPending() *sketch.Pending { return new(sketch.Pending) }

// whole is the cell of a minute of the open span with all in its shapes, nil when nothing came.
func (a *Aggregator) whole(c *class, minute int64) *cell {
	at := a.find(c, minute)
	if at != nil && at.pending != nil {
		at = a.own(c, minute)
		a.settleShapes(at)
	}
	return at
}

// complete are the shapes with what waits for them, in memory of their own where something does: w stays as it is.
func (w *cell) complete() *shapes {
	if w.pending == nil {
		return w.shapes
	}
	all := new(shapes)
	for i := range w.sketches() {
		all[i].Copy(&w.shapes[i])
	}
	w.pending.Count(all[:])
	return all
}
