package features

import "github.com/forewarm/forewarm/prefetch"

// lane is a class with the positions of its attempts in the backlog, in the order of the log.
type lane struct {
	class    *class
	attempts []int32
	cell     *cell // in which the first attempt arrived; nil when there is none
	settles  bool  // what waits to be counted in it is going to be
}

// fetchSteps is how many steps along the pointers lead to all that a class needs. Each class takes one step while another is
// folded: by then what the step before it asked for is there.
const fetchSteps = 5

// fetch asks for the memory of a step. It changes nothing that shows.
func (a *Aggregator) fetch(l *lane, step int) {
	if len(l.attempts) == 0 {
		return
	}
	c := l.class
	switch step {
	case 0:
		if m, ends := a.fetched(l); c.cells != nil {
			prefetch.Of(&c.cells[a.slot(m)])
			prefetch.Of(&c.cells[a.slot(ends)])
		}
		for _, x := range c.accounts {
			prefetch.Of(x)
		}
	case 1:
		m, ends := a.fetched(l)
		l.cell = a.find(c, m)
		prefetch.Of(l.cell)
		if ends != m {
			prefetch.Of(a.find(c, ends))
		}
		for _, x := range c.accounts {
			x.fetch()
		}
	case 2:
		if at := l.cell; at != nil && at.pending != nil {
			at.pending.Fetch()
		}
		for _, x := range c.accounts {
			x.fetchNames()
		}
	case 3:
		if at := l.cell; at != nil && at.pending != nil && !at.pending.FetchNext(len(l.attempts)*shapeCount) {
			l.settles = true
			prefetch.Of(at.shapes)
		}
	case 4:
		if at := l.cell; l.settles && !a.extensible(at) {
			for i := range at.sketches() {
				at.shapes[i].Fetch()
			}
		}
	}
}

// fetched are the minutes whose cells are fetched for a lane: those in which its first attempt arrives and ends.
func (a *Aggregator) fetched(l *lane) (arrives, ends int64) {
	e := &a.backlog.waiting[l.attempts[0]]
	arrives = max(int64(e.minute), a.oldest())
	if e.finished == never {
		return arrives, arrives
	}
	return arrives, max(e.finished.minute(), a.oldest())
}

// fetch and fetchNames ask for what the next booking needs, one after the other.
func (a *account) fetch() {
	if a != nil {
		prefetch.Of(a.names)
	}
}

func (a *account) fetchNames() {
	if a != nil {
		a.names.Fetch()
	}
}
