package features

import "github.com/forewarm/forewarm/prefetch"

// lane is a class with its attempts, linked in the order of the log from first; those from rest on are not yet.
type lane struct {
	class       *class
	first, rest int32
	cells       [2]*cell // in which the first attempt arrived and ended; nil where there is none
}

// fetchSteps is how many steps along the pointers lead to all that a class needs. Each class takes one step while another is
// folded: by then what the step before it asked for is there.
const fetchSteps = 4

// fetch asks for the memory of a step. It changes nothing that shows.
func (a *Aggregator) fetch(l *lane, step int) {
	if l.first == none {
		return
	}
	c := l.class
	switch step {
	case 0:
		for _, m := range a.fetched(l) {
			if c.cells != nil {
				prefetch.Of(&c.cells[a.slot(m)])
			}
		}
		prefetch.Of(c.tenants)
		prefetch.Of(c.features)
	case 1:
		for i, m := range a.fetched(l) {
			l.cells[i] = a.find(c, m)
			prefetch.Of(l.cells[i])
		}
		c.tenants.fetch()
		c.features.fetch()
	case 2:
		for _, at := range l.cells {
			if at != nil {
				prefetch.Of(at.shapes)
			}
		}
		c.tenants.fetchNames()
		c.features.fetchNames()
	case 3:
		for _, at := range l.cells {
			if at != nil && at.shapes != nil {
				for i := range at.shapes {
					at.shapes[i].Fetch()
				}
			}
		}
	}
}

// fetched are the minutes whose cells are fetched for a lane.
func (a *Aggregator) fetched(l *lane) [2]int64 {
	e := &a.backlog.waiting[l.first]
	arrived := max(int64(e.minute), a.oldest())
	if e.finished == never {
		return [...]int64{arrived, arrived}
	}
	return [...]int64{arrived, max(e.finished.minute(), a.oldest())}
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
