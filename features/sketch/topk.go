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

// TopK finds the names of largest total weight in a stream with a fixed number of counters: the Space-Saving sketch of
// Metwally, Agrawal and El Abbadi 2005, section 3, doi:10.1007/978-3-540-30570-5_27, with weights.
//
// With m counters and total weight W, every name heavier than W/m has a counter, and no counter's Error exceeds W/m.
// Add costs O(log m); memory is m names.
type TopK struct {
	capacity int
	floor    float64 // no name without a counter weighs more than this
	byName   map[string]*counter
	heap     []*counter // the last by order is at the root
}

type counter struct {
	Count
	pos int // in the heap
}

// NewTopK makes a sketch of the given number of counters, at least one.
func NewTopK(counters int) *TopK {
	counters = max(counters, 1)
	return &TopK{capacity: counters, byName: make(map[string]*counter)}
}

// Len is the number of names that have a counter.
func (t *TopK) Len() int { return len(t.heap) }

// Floor bounds the weight of every name that has no counter.
func (t *TopK) Floor() float64 { return t.floor }

// Add gives a name more weight. Weights that are not positive and finite are left out.
func (t *TopK) Add(name string, weight float64) {
	if !(weight > 0) || math.IsInf(weight, 1) {
		return
	}
	c, ok := t.byName[name]
	switch {
	case ok:
		c.Weight += weight
		t.down(c.pos)
		return
	case len(t.heap) < t.capacity:
		c = &counter{pos: len(t.heap)}
		t.heap = append(t.heap, c)
	default:
		c = t.heap[0]
		delete(t.byName, c.Name)
		t.floor = c.Weight
	}
	c.Count = Count{Name: name, Weight: t.floor + weight, Error: t.floor}
	t.byName[name] = c
	t.up(c.pos)
	t.down(c.pos)
}

// Merge adds everything that o has counted. The error bounds of the two add up: W₁/m₁ + W₂/m₂, which is (W₁+W₂)/m for
// equal sizes (Cafaro, Pulimeno and Tempesta 2016, doi:10.1016/j.ins.2015.09.003).
func (t *TopK) Merge(o *TopK) {
	all := make([]Count, 0, len(t.heap)+len(o.heap))
	for _, c := range t.heap {
		sum := c.Count
		other := Count{Weight: o.floor, Error: o.floor}
		if oc, ok := o.byName[c.Name]; ok {
			other = oc.Count
		}
		sum.Weight += other.Weight
		sum.Error += other.Error
		all = append(all, sum)
	}
	for _, oc := range o.heap {
		if _, ok := t.byName[oc.Name]; !ok {
			all = append(all, Count{Name: oc.Name, Weight: oc.Weight + t.floor, Error: oc.Error + t.floor})
		}
	}
	t.set(all, t.floor+o.floor)
}

// Scale multiplies all weights by a factor in 0..1, which lets old weight fade; the bounds hold for the faded weights.
func (t *TopK) Scale(factor float64) {
	t.floor *= factor
	for _, c := range t.heap {
		c.Weight *= factor
		c.Error *= factor
	}
	for i := len(t.heap)/2 - 1; i >= 0; i-- { // weights that rounding made equal are now ordered by name
		t.down(i)
	}
}

// Top lists the n heaviest names, heaviest first, equal ones by name.
func (t *TopK) Top(n int) []Count { return t.AppendTop(nil, n) }

// AppendTop is Top into dst, which is overwritten from its start.
func (t *TopK) AppendTop(dst []Count, n int) []Count {
	dst = dst[:0]
	for _, c := range t.heap {
		dst = append(dst, c.Count)
	}
	slices.SortFunc(dst, order)
	return dst[:min(max(n, 0), len(dst))]
}

// TopKState is a TopK at rest. Equal sketches have equal states.
type TopKState struct {
	Counters int
	Floor    float64
	Counts   []Count // as Top orders them
}

// State is a copy of the sketch.
func (t *TopK) State() TopKState {
	return TopKState{Counters: t.capacity, Floor: t.floor, Counts: t.Top(len(t.heap))}
}

// RestoreTopK makes a sketch from its state. Counters may have been changed meanwhile: when there are fewer, the
// lightest names go.
func RestoreTopK(s TopKState) (*TopK, error) {
	t := NewTopK(s.Counters)
	seen := make(map[string]bool, len(s.Counts))
	for _, c := range s.Counts {
		if seen[c.Name] || !(c.Weight >= c.Error) || !(c.Error >= 0) || math.IsInf(c.Weight, 1) {
			return nil, fmt.Errorf("top-k sketch: counter %q is repeated or out of range", c.Name)
		}
		seen[c.Name] = true
	}
	if !(s.Floor >= 0) || math.IsInf(s.Floor, 1) {
		return nil, fmt.Errorf("top-k sketch: floor %v is out of range", s.Floor)
	}
	t.set(slices.Clone(s.Counts), s.Floor)
	return t, nil
}

// set replaces the counters by the heaviest of all.
func (t *TopK) set(all []Count, floor float64) {
	slices.SortFunc(all, order)
	if len(all) > t.capacity {
		floor = max(floor, all[t.capacity].Weight)
		all = all[:t.capacity]
	}
	slices.Reverse(all) // a list in heap order is a heap
	t.floor = floor
	clear(t.byName)
	t.heap = t.heap[:0]
	for i, c := range all {
		t.heap = append(t.heap, &counter{Count: c, pos: i})
		t.byName[c.Name] = t.heap[i]
	}
}

func (t *TopK) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if order(t.heap[parent].Count, t.heap[i].Count) > 0 {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t *TopK) down(i int) {
	for {
		last := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t.heap); child++ {
			if order(t.heap[child].Count, t.heap[last].Count) > 0 {
				last = child
			}
		}
		if last == i {
			return
		}
		t.swap(i, last)
		i = last
	}
}

func (t *TopK) swap(i, j int) {
	h := t.heap
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}
