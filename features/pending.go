package features

import "github.com/forewarm/forewarm/features/sketch"

// measure adds a value to a shape of a window, where it waits for others (see settleShapes).
func (a *Aggregator) measure(w *cell, shape int, v float64) {
	if w.pending == nil {
		w.pending = a.sparePending.take(newPending)
		w.pending.Begin(w.sketches())
	}
	if !w.pending.Add(shape, v) && !a.extend(w) {
		a.settleShapes(w)
	}
}

// extend makes room for more measurements to wait together, and says whether it did: where their counts are spread out in
// memory. Those that are listed lie together anyway.
func (a *Aggregator) extend(w *cell) bool {
	return a.extensible(w) && w.pending.Extend(a.pendingRoom)
}

func (a *Aggregator) extensible(w *cell) bool {
	return w.shapes != nil && w.shapes[shapePrompt].Counting() && w.pending.Extensible()
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

// givePending takes back what waits no more.
func (a *Aggregator) givePending(p *sketch.Pending) {
	if room := p.Clear(); room != nil {
		a.spareRooms.give(room)
	}
	a.sparePending.give(p)
}

// pendingRoom is for a window that has measured much.
func (a *Aggregator) pendingRoom() *sketch.PendingRoom { return a.spareRooms.take(newPendingRoom) }

// sketches are the shapes as a slice, nil when there are none.
func (w *cell) sketches() []sketch.Quantile {
	if w.shapes == nil {
		return nil
	}
	return w.shapes[:]
}

func newPending() *sketch.Pending { return new(sketch.Pending) }

func newPendingRoom() *sketch.PendingRoom { return new(sketch.PendingRoom) }

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
