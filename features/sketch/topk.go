package sketch

import (
	"bytes"
	"cmp"
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

// negligible is the weight below which a counter is dropped when it fades.
const negligible = 0.5

// Counters is the number of counters of a [TopK].
const Counters = 80

// TopK finds the names of largest total weight in a stream with a fixed number of counters: the Space-Saving sketch of
// Metwally, Agrawal and El Abbadi 2005, section 3, doi:10.1007/978-3-540-30570-5_27, with weights. The zero value is
// empty and ready for use.
//
// With the total weight W, every name heavier than W/Counters has a counter, and no counter's Error exceeds W/Counters.
// Floor is a tighter bound. Add costs O(Counters).
type TopK struct {
	Floor  float64 `cbor:"2,keyasint"` // upper bound of the weight of names without a counter, and of every Error
	Total  float64 `cbor:"3,keyasint"` // total weight, also without a name
	Counts []Count `cbor:"4,keyasint"` // at most Counters, in no order

	tagged int            // number of names in Counts that have a tag
	tags   [Counters]byte // of their names, in the same order
}

// tag is one byte of a name's hash. Most comparisons of tags save a comparison of names, and their memory.
func tag(name string) byte { return byte(xxhash.Sum64String(name)) }

// find returns the position of a name with a tag in Counts; -1 if it is not there. All names have tags.
func (t *TopK) find(name string, tag byte) int {
	for from := 0; ; from++ {
		next := bytes.IndexByte(t.tags[from:t.tagged], tag)
		if next < 0 {
			return -1
		}
		if from += next; t.Counts[from].Name == name {
			return from
		}
	}
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
	for ; t.tagged < len(t.Counts); t.tagged++ {
		t.tags[t.tagged] = tag(t.Counts[t.tagged].Name)
	}
	tag := tag(name)
	if i := t.find(name, tag); i >= 0 {
		t.Counts[i].Weight += weight
		return
	}
	if len(t.Counts) < Counters {
		t.Counts = append(t.Counts, Count{name, t.Floor + weight, t.Floor})
		return
	}
	last := 0 // by order
	for i := range t.Counts {
		if order(t.Counts[i], t.Counts[last]) > 0 {
			last = i
		}
	}
	t.Floor = t.Counts[last].Weight
	t.Counts[last], t.tags[last] = Count{name, t.Floor + weight, t.Floor}, tag
}

// Scale multiplies all weights by a factor in 0..1, to fade old ones. The bounds hold for the scaled weights. Names
// with a negligible weight are dropped. O(Counters).
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
	t.Counts, t.tagged = kept, 0
}

// Top lists the n heaviest names, heaviest first, equal ones by name.
func (t *TopK) Top(n int) []Count {
	all := slices.SortedFunc(slices.Values(t.Counts), order)
	return slices.Clone(all[:min(max(n, 0), len(all))]) // it is kept, and all is larger
}
