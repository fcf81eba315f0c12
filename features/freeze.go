package features

import (
	"slices"

	"github.com/forewarm/forewarm/features/sketch"
)

// Frozen is an Aggregator as it was at one moment, to be written while that one goes on. Of the windows, by far the largest
// part, it holds the Aggregator's own: until Thaw the Aggregator changes none of them, but copies those that it has to
// change. All else is copied at once, as it lies in memory. One other goroutine may use it.
type Frozen struct {
	state         State
	round, unseen int64
	classes       []frozenClass // of all pools, as the state lists them
	cells         []frozenCell  // of all classes, in their order
	arrivals      []arrival
}

type frozenClass struct {
	of            *class // which one it is; that one goes on changing
	ClassSnapshot        // without windows
	accounts      [accountKinds]sketch.TopKState
	cells         int
}

type frozenCell struct {
	minute int64
	*cell
}

// Freeze fixes the state as it is. Only one Frozen may be in use: call Thaw before the next. O(classes × Revise in
// minutes), some microseconds a class.
func (a *Aggregator) Freeze() *Frozen {
	a.catchUp()
	f := &Frozen{
		state: State{Started: a.started, Closed: a.closed, Open: a.open, Counters: a.counters},
		round: a.round, unseen: a.unseen,
		arrivals: slices.Clone(a.arrivals.queue[a.arrivals.head:]),
	}
	classes, cells := 0, 0
	for _, p := range a.pools {
		f.state.Pools = append(f.state.Pools, a.poolSnapshot(p))
		classes += len(p.classes)
		for _, c := range p.classes {
			cells += c.open
		}
	}
	f.classes, f.cells = make([]frozenClass, 0, classes), make([]frozenCell, 0, cells)
	for _, p := range a.pools {
		for _, c := range p.classes {
			f.freeze(a, c)
		}
	}
	a.era++
	a.frozen = a.era
	return f
}

func (f *Frozen) freeze(a *Aggregator, c *class) {
	f.classes = append(f.classes, frozenClass{of: c, ClassSnapshot: ClassSnapshot{
		Name: c.key.Class, Born: c.born, Last: c.last, Reports: c.reports, Moments: c.moments,
		Expected: c.expected, Late: c.late, Nowcasts: c.nowcasts.clone(),
	}, cells: c.open})
	x := &f.classes[len(f.classes)-1]
	for kind, account := range c.accounts {
		if account != nil {
			x.accounts[kind] = account.names.Copy()
		}
	}
	for m, n := a.oldest(), 0; n < c.open; m++ {
		if at := a.find(c, m); at != nil {
			f.cells = append(f.cells, frozenCell{m, at})
			n++
		}
	}
}

// Thaw ends the care for what Freeze gave: that must not be used any more.
func (a *Aggregator) Thaw() { a.frozen = 0 }

// copied is a copy of a cell that is frozen, to be changed in its place.
func (a *Aggregator) copied(at *cell) *cell {
	c := *at
	c.era = a.era
	if at.shapes != nil {
		c.shapes = new(shapes)
		for i := range c.shapes {
			c.shapes[i].Copy(&at.shapes[i])
		}
	}
	return &c
}

// Parts hands out the state in the parts that Restore takes up, in their order. A part is valid until put returns. What was
// handed out is let go of.
func (f *Frozen) Parts(put func(part any) error) error {
	if err := put(&f.state); err != nil {
		return err
	}
	number := make(map[*class]uint32, len(f.classes))
	var windows []WindowSnapshot
	for i := range f.classes {
		c := &f.classes[i]
		number[c.of] = uint32(i)
		windows = windows[:0]
		for j := range f.cells[:c.cells] {
			windows = append(windows, f.window(&f.cells[j]))
			f.cells[j].cell = nil
		}
		f.cells = f.cells[c.cells:]
		c.Windows = windows
		for kind := range c.accounts {
			c.Accounts[kind] = sorted(&c.accounts[kind])
		}
		if err := put(&c.ClassSnapshot); err != nil {
			return err
		}
		*c = frozenClass{}
	}
	return put(arrivalSnapshot(f.arrivals, number))
}

// sorted is an account as it is kept; nil when there is none.
func sorted(s *sketch.TopKState) *sketch.TopKState {
	if s.Counters == 0 {
		return nil
	}
	s.Sort()
	return s
}

func (f *Frozen) window(at *frozenCell) WindowSnapshot {
	w := WindowSnapshot{Minute: at.minute, Dirty: at.changed == f.round || at.minute >= f.unseen, Window: at.Window, Pace: at.pace}
	w.Window.show(at.shapes)
	return w
}
