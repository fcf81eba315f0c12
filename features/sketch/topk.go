package sketch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Count is one heavy hitter: its true weight is at most Weight and at least Weight − Error.
type Count struct {
	Name          string
	Weight, Error float64
}

// order puts the heaviest first, equal weights by name: a total order, so that which name is evicted never depends on
// how the counters happen to lie in memory.
func order(a, b Count) int {
	if c := cmp.Compare(b.Weight, a.Weight); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

const (
	maxCounters = 1 << 15
	// minUnit is how far weights fade before they are written anew: 32 half-lives.
	minUnit = 1.0 / (1 << 32)
	// negligible is the weight below which a counter is given up when weights are written anew.
	negligible = 0.5
)

// TopK finds the names of largest total weight in a stream with a fixed number of counters: the Space-Saving sketch of
// Metwally, Agrawal and El Abbadi 2005, section 3, doi:10.1007/978-3-540-30570-5_27, with weights.
//
// With m counters and total weight W, every name heavier than W/m has a counter, and no counter's Error exceeds W/m.
// Floor is the tighter bound that this stream has led to. Add costs O(1) for a name that has a counter and O(log m) for
// one that takes another's; Scale costs O(1) amortised. Memory is some 36 bytes a counter in use, beside the names, and 16
// more once all are (see Rest): what few names need is little. Names are kept as they are given.
type TopK struct {
	capacity int
	unit     float64 // what a stored weight of one is worth
	floor    float64 // no name without a counter weighs more than this
	total    float64
	counters []Count
	index    index
	heap     []leaf // the lightest at the root; nil until all counters are taken
}

// leaf is a counter by position, with a lower bound of its weight: weights only grow, so that the heap needs no care
// until its root is wanted.
type leaf struct {
	key float64
	pos int
}

// NewTopK makes a sketch of the given number of counters, 1 to 32768.
func NewTopK(counters int) *TopK {
	return &TopK{capacity: min(max(counters, 1), maxCounters), unit: 1}
}

// Len is the number of names that have a counter.
func (t *TopK) Len() int { return len(t.counters) }

// Floor bounds the weight of every name that has no counter, and the Error of every one that has.
func (t *TopK) Floor() float64 { return t.floor * t.unit }

// Total is the weight of all that was added, nameless weight included.
func (t *TopK) Total() float64 { return t.total * t.unit }

// Add gives a name more weight; that of "" counts in the total alone. Weights that are not positive and finite are left
// out.
func (t *TopK) Add(name string, weight float64) {
	if !(weight > 0) || math.IsInf(weight, 1) {
		return
	}
	weight /= t.unit
	t.total += weight
	if name == "" {
		return
	}
	if pos := t.index.find(t.counters, name); pos >= 0 {
		c := &t.counters[pos]
		c.Weight += weight
		c.Name = name // which, being the same string in memory the next time, is then told from others without a look at it
		return
	}
	if len(t.counters) < t.capacity {
		t.grow()
		t.counters = append(t.counters, Count{Name: name, Weight: t.floor + weight, Error: t.floor})
		t.index.add(t.counters, len(t.counters)-1)
		return
	}
	pos := t.lightest()
	c := &t.counters[pos]
	t.floor = c.Weight
	t.index.remove(t.counters, pos)
	*c = Count{Name: name, Weight: t.floor + weight, Error: t.floor}
	t.index.add(t.counters, pos)
	t.heap[0].key = c.Weight
	t.down(0)
}

// grow makes room for one more counter: twice as many, but no more than there can be.
func (t *TopK) grow() {
	if n := len(t.counters); n == cap(t.counters) {
		t.counters = append(make([]Count, 0, min(max(2*n, 2), t.capacity)), t.counters...)
	}
}

// Rest gives back the memory that only weight to add needs: 16 of the 52 bytes or so of a counter, beside its name. It is
// for sketches that have gone quiet; the next name without a counter costs O(m·log m) once.
func (t *TopK) Rest() { t.heap = nil }

// Merge adds everything that o has counted. The error bounds of the two add up: W₁/m₁ + W₂/m₂, which is (W₁+W₂)/m for
// equal sizes (Cafaro, Pulimeno and Tempesta 2016, doi:10.1016/j.ins.2015.09.003).
func (t *TopK) Merge(o *TopK) {
	t.rewrite()
	all := make([]Count, 0, len(t.counters)+len(o.counters))
	for _, c := range t.counters {
		other := Count{Weight: o.Floor(), Error: o.Floor()}
		if pos := o.index.find(o.counters, c.Name); pos >= 0 {
			other = o.worth(pos)
		}
		c.Weight += other.Weight
		c.Error += other.Error
		all = append(all, c)
	}
	for pos := range o.counters {
		if c := o.worth(pos); t.index.find(t.counters, c.Name) < 0 {
			c.Weight += t.floor
			c.Error += t.floor
			all = append(all, c)
		}
	}
	t.set(all, t.floor+o.Floor(), t.total+o.Total())
}

// worth is a counter in whole weights.
func (t *TopK) worth(pos int) Count {
	c := t.counters[pos]
	c.Weight *= t.unit
	c.Error *= t.unit
	return c
}

// Scale multiplies all weights by a factor in 0..1, which lets old weight fade; the bounds hold for the faded weights.
func (t *TopK) Scale(factor float64) {
	t.unit *= factor
	if t.unit >= minUnit {
		return
	}
	t.rewrite()
	floor := t.floor
	kept := slices.DeleteFunc(t.counters, func(c Count) bool {
		if c.Weight >= negligible {
			return false
		}
		floor = max(floor, c.Weight)
		return true
	})
	t.set(kept, floor, t.total)
}

// rewrite stores the weights in units of one.
func (t *TopK) rewrite() {
	for pos := range t.counters {
		t.counters[pos] = t.worth(pos)
	}
	t.floor, t.total, t.unit = t.Floor(), t.Total(), 1
	t.heap = nil
}

// Top lists the n heaviest names, heaviest first, equal ones by name.
func (t *TopK) Top(n int) []Count { return t.AppendTop(nil, n) }

// AppendTop is Top into dst, which is overwritten from its start. O(Len·log n), as a rule O(Len).
func (t *TopK) AppendTop(dst []Count, n int) []Count {
	dst = t.appendTop(dst, n)
	for i := range dst {
		dst[i].Weight *= t.unit
		dst[i].Error *= t.unit
	}
	return dst
}

// appendTop is AppendTop with weights as they are stored.
func (t *TopK) appendTop(dst []Count, n int) []Count {
	if most := min(max(n, 0), len(t.counters)); cap(dst) < most {
		dst = make([]Count, 0, most)
	}
	dst = dst[:0]
	for _, c := range t.counters {
		if len(dst) >= n {
			if n <= 0 || order(dst[n-1], c) < 0 {
				continue
			}
			dst = dst[:n-1]
		}
		i, _ := slices.BinarySearchFunc(dst, c, order)
		dst = slices.Insert(dst, i, c)
	}
	return dst
}

// TopKState is a TopK at rest. Equal sketches have equal states.
type TopKState struct {
	Counters     int
	Unit         float64 // what a weight of one below is worth; 0 means 1
	Floor, Total float64
	Counts       []Count // as Top orders them
}

// State is a copy of the sketch.
func (t *TopK) State() TopKState {
	s := t.Copy()
	s.Sort()
	return s
}

// Copy is State with the counts as they lie in memory: Sort brings them in order, whenever there is time.
func (t *TopK) Copy() TopKState {
	return TopKState{Counters: t.capacity, Unit: t.unit, Floor: t.floor, Total: t.total, Counts: slices.Clone(t.counters)}
}

// Sort brings the counts of a copy in the order of a State.
func (s *TopKState) Sort() { slices.SortFunc(s.Counts, order) }

// RestoreTopK makes a sketch from its state. Counters may have been changed meanwhile: when there are fewer, the
// lightest names go.
func RestoreTopK(s TopKState) (*TopK, error) {
	t := NewTopK(s.Counters)
	seen := make(map[string]bool, len(s.Counts))
	for _, c := range s.Counts {
		if seen[c.Name] || c.Name == "" || !(c.Weight >= c.Error) || !(c.Error >= 0) || math.IsInf(c.Weight, 1) {
			return nil, fmt.Errorf("top-k sketch: counter %q is nameless, repeated or out of range", c.Name)
		}
		seen[c.Name] = true
	}
	for _, v := range [...]float64{s.Floor, s.Total, s.Unit} {
		if !(v >= 0) || math.IsInf(v, 1) {
			return nil, fmt.Errorf("top-k sketch: floor, total or unit %v is out of range", v)
		}
	}
	if s.Unit > 0 {
		t.unit = s.Unit
	}
	t.set(slices.Clone(s.Counts), s.Floor, s.Total)
	return t, nil
}

// set replaces the counters by the heaviest of all.
func (t *TopK) set(all []Count, floor, total float64) {
	if len(all) > t.capacity {
		slices.SortFunc(all, order)
		floor = max(floor, all[t.capacity].Weight)
		all = all[:t.capacity]
	}
	t.floor, t.total, t.counters = floor, total, slices.Clip(slices.Clone(all))
	t.index, t.heap = nil, nil
	t.index.add(t.counters, len(t.counters)-1)
}
