package sketch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Count is one heavy hitter: its true weight is at most Weight and at least Weight − Error.
type Count struct {
	Name          string
	Weight, Error float64
}

// order sorts by falling weight, then by name. It is a total order, so that evictions do not depend on the order of
// counters in memory.
func order(a, b Count) int {
	if c := cmp.Compare(b.Weight, a.Weight); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

const (
	maxCounters = 1 << 15
	// minUnit is the smallest unit, after 32 half-lives. Then the weights are rewritten.
	minUnit = 1.0 / (1 << 32)
	// negligible is the weight below which a rewrite drops a counter.
	negligible = 0.5
)

// TopK finds the names of largest total weight in a stream with a fixed number of counters: the Space-Saving sketch of
// Metwally, Agrawal and El Abbadi 2005, section 3, doi:10.1007/978-3-540-30570-5_27, with weights.
//
// With m counters and total weight W, every name heavier than W/m has a counter, and no counter's Error exceeds W/m.
// Floor is a tighter bound. Add costs O(m): a linear search over four-byte hashes is faster than a map. Scale costs
// O(1) amortised.
type TopK struct {
	capacity int
	unit     float64 // the weight of a stored one
	floor    float64 // upper bound of the weight of names without a counter
	total    float64
	counters []Count
	hashes   []uint32 // of the names of counters
}

// NewTopK makes a sketch of the given number of counters, 1 to 32768.
func NewTopK(counters int) *TopK {
	return &TopK{capacity: min(max(counters, 1), maxCounters), unit: 1}
}

// Len is the number of names that have a counter.
func (t *TopK) Len() int { return len(t.counters) }

// Floor is an upper bound of the weight of names without a counter, and of the Error of all others.
func (t *TopK) Floor() float64 { return t.floor * t.unit }

// Total is the total weight added, also without a name.
func (t *TopK) Total() float64 { return t.total * t.unit }

// Add adds weight to a name; the weight of "" counts only in the total. It ignores weights that are not positive and
// finite. The sketch keeps the string of a new name.
func (t *TopK) Add(name string, weight float64) {
	if !(weight > 0) || math.IsInf(weight, 1) {
		return
	}
	weight /= t.unit
	t.total += weight
	if name == "" {
		return
	}
	pos := t.find(name)
	if pos >= 0 {
		t.counters[pos].Weight += weight
		return
	}
	if pos = len(t.counters); pos < t.capacity {
		t.counters, t.hashes = append(t.counters, Count{}), append(t.hashes, 0)
	} else {
		pos = t.lightest()
		t.floor = t.counters[pos].Weight
	}
	t.counters[pos] = Count{Name: name, Weight: t.floor + weight, Error: t.floor}
	t.hashes[pos] = hash(name)
}

func hash(name string) uint32 { return uint32(xxhash.Sum64String(name)) }

// find is the position of the counter of name, -1 when it has none.
func (t *TopK) find(name string) int {
	h := hash(name)
	for pos, other := range t.hashes {
		if other == h && t.counters[pos].Name == name {
			return pos
		}
	}
	return -1
}

// lightest is the position of the counter that is last by order.
func (t *TopK) lightest() (pos int) {
	for i := range t.counters {
		if order(t.counters[i], t.counters[pos]) > 0 {
			pos = i
		}
	}
	return pos
}

// Merge adds the weights of o. The error bounds add: W₁/m₁ + W₂/m₂, which is (W₁+W₂)/m for equal sizes (Cafaro,
// Pulimeno and Tempesta 2016, doi:10.1016/j.ins.2015.09.003).
func (t *TopK) Merge(o *TopK) {
	t.rewrite()
	all := make([]Count, 0, len(t.counters)+len(o.counters))
	for _, c := range t.counters {
		other := Count{Weight: o.Floor(), Error: o.Floor()}
		if pos := o.find(c.Name); pos >= 0 {
			other = o.unscaled(pos)
		}
		c.Weight += other.Weight
		c.Error += other.Error
		all = append(all, c)
	}
	for pos := range o.counters {
		c := o.unscaled(pos)
		if t.find(c.Name) < 0 {
			c.Weight += t.floor
			c.Error += t.floor
			all = append(all, c)
		}
	}
	t.set(all, t.floor+o.Floor(), t.total+o.Total())
}

// unscaled is a counter with its weights in units of one.
func (t *TopK) unscaled(pos int) Count {
	c := t.counters[pos]
	c.Weight *= t.unit
	c.Error *= t.unit
	return c
}

// Scale multiplies all weights by a factor in 0..1, to fade old ones. The bounds hold for the scaled weights.
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
		t.counters[pos] = t.unscaled(pos)
	}
	t.floor, t.total, t.unit = t.Floor(), t.Total(), 1
}

// Top lists the n heaviest names, heaviest first, equal ones by name. O(Len·log Len).
func (t *TopK) Top(n int) []Count {
	all := slices.Clone(t.counters)
	slices.SortFunc(all, order)
	all = slices.Clip(all[:min(max(n, 0), len(all))])
	for i := range all {
		all[i].Weight *= t.unit
		all[i].Error *= t.unit
	}
	return all
}

// TopKState is the saved state of a TopK. Equal sketches have equal states.
type TopKState struct {
	Counters     int
	Unit         float64 // the weight of a one below; 0 means 1
	Floor, Total float64
	Counts       []Count // in the order of Top
}

// State is a copy of the sketch.
func (t *TopK) State() TopKState {
	s := TopKState{Counters: t.capacity, Unit: t.unit, Floor: t.floor, Total: t.total, Counts: slices.Clone(t.counters)}
	slices.SortFunc(s.Counts, order)
	return s
}

// RestoreTopK makes a sketch from its state. With fewer Counters than names it drops the lightest names.
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
	t.hashes = make([]uint32, len(t.counters))
	for pos := range t.counters {
		t.hashes[pos] = hash(t.counters[pos].Name)
	}
}
