package sketch

import (
	"cmp"
	"math"
	"slices"
	"strings"
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

// negligible is the weight below which a counter is dropped when it fades.
const negligible = 0.5

// TopK finds the names of largest total weight in a stream with a fixed number of counters: the Space-Saving sketch of
// Metwally, Agrawal and El Abbadi 2005, section 3, doi:10.1007/978-3-540-30570-5_27, with weights.
//
// With m counters and total weight W, every name heavier than W/m has a counter, and no counter's Error exceeds W/m.
// Floor is a tighter bound. Add costs O(m).
type TopK struct {
	Capacity int     `cbor:"1,keyasint"` // number of counters, at least 1
	Floor    float64 `cbor:"2,keyasint"` // upper bound of the weight of names without a counter, and of every Error
	Total    float64 `cbor:"3,keyasint"` // total weight, also without a name
	Counts   []Count `cbor:"4,keyasint"` // at most Capacity, in no order
}

// Add adds weight to a name; the weight of "" counts only in the total. It ignores weights that are not positive and
// finite. The sketch keeps the string of a new name.
func (t *TopK) Add(name string, weight float64) {
	if !(weight > 0) || math.IsInf(weight, 1) {
		return
	}
	t.Total += weight
	if name == "" {
		return
	}
	for i := range t.Counts {
		if c := &t.Counts[i]; c.Name == name {
			c.Weight += weight
			return
		}
	}
	if len(t.Counts) < t.Capacity {
		t.Counts = append(t.Counts, Count{name, t.Floor + weight, t.Floor})
		return
	}
	last := t.lightest()
	t.Floor = t.Counts[last].Weight
	t.Counts[last] = Count{name, t.Floor + weight, t.Floor}
}

// lightest is the position of the counter that is last by order.
func (t *TopK) lightest() (pos int) {
	for i := range t.Counts {
		if order(t.Counts[i], t.Counts[pos]) > 0 {
			pos = i
		}
	}
	return pos
}

// Scale multiplies all weights by a factor in 0..1, to fade old ones. The bounds hold for the scaled weights. Names
// with a negligible weight are dropped. O(m).
func (t *TopK) Scale(factor float64) {
	t.Floor *= factor
	t.Total *= factor
	kept := t.Counts[:0]
	for _, c := range t.Counts {
		c.Weight *= factor
		c.Error *= factor
		if c.Weight < negligible {
			t.Floor = max(t.Floor, c.Weight)
			continue
		}
		kept = append(kept, c)
	}
	clear(t.Counts[len(kept):])
	t.Counts = kept
}

// Top lists the n heaviest names, heaviest first, equal ones by name.
func (t *TopK) Top(n int) []Count {
	all := slices.SortedFunc(slices.Values(t.Counts), order)
	return slices.Clone(all[:min(max(n, 0), len(all))]) // it is kept, and all is larger
}
