package scrape

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/forewarm/forewarm/ingest"
)

// rank is one engine among those of a target: a data-parallel rank, a model, a worker. It reads the series that carry
// its labels, and those without labels of ranks.
type rank struct {
	exposition exposition
	labels     []string // that distinguish ranks
	values     []string // its own
	alone      bool     // there is no other
	where      [2]string
}

// ranks finds the ranks of an engine, ordered by their labels.
func (e exposition) ranks(g *engine) []rank {
	var found []rank
	for _, name := range g.anchors {
		for _, s := range e[name] {
			if g.keep != nil && !g.keep(s) {
				continue
			}
			r := rank{exposition: e, labels: g.labels}
			for _, label := range g.labels {
				r.values = append(r.values, s.labels.Get(label))
			}
			at, known := slices.BinarySearchFunc(found, r, func(a, b rank) int { return slices.Compare(a.values, b.values) })
			if !known {
				found = slices.Insert(found, at, r)
			}
		}
	}
	for i := range found {
		found[i].alone = len(found) == 1
	}
	return found
}

// name joins the values of its labels; "" where it has none.
func (r rank) name() string {
	return strings.Join(slices.DeleteFunc(slices.Clone(r.values), func(v string) bool { return v == "" }), "-")
}

// with is r, of the series with this label only.
func (r rank) with(label, value string) rank {
	r.where = [2]string{label, value}
	return r
}

// each calls f for the samples of r under a name. Those without labels of ranks are of all ranks, and are
// included if shared is true.
func (r rank) each(name string, shared bool, f func(s sample)) {
	for _, s := range r.exposition[name] {
		mine := r.where[0] == "" || s.labels.Get(r.where[0]) == r.where[1]
		for i, label := range r.labels {
			value := s.labels.Get(label)
			mine = mine && (value == r.values[i] || value == "" && shared)
		}
		if mine {
			f(s)
		}
	}
}

// gauge is the highest value under the first of the names that has one: tensor-parallel ranks repeat a value, and
// priorities have a part of it each. NaN when there is none.
func (r rank) gauge(names ...string) float64 {
	highest := math.NaN()
	for _, name := range names {
		r.each(name, true, func(s sample) {
			if !(highest >= s.value) {
				highest = s.value
			}
		})
		if !math.IsNaN(highest) {
			break
		}
	}
	return highest
}

// counter adds up the series under the first of the names that has any. Where there are several ranks, one that speaks
// of all of them is nobody's. NaN when there is none.
func (r rank) counter(names ...string) float64 {
	for _, name := range names {
		sum, n := 0.0, 0
		r.each(name, r.alone, func(s sample) { sum, n = sum+s.value, n+1 })
		if n > 0 {
			return sum
		}
	}
	return math.NaN()
}

// info is a number in a label of an information metric; NaN when it is none.
func (r rank) info(name, label string) float64 {
	found := math.NaN()
	r.each(name, true, func(s sample) {
		if x, err := strconv.ParseFloat(s.labels.Get(label), 64); err == nil {
			found = x
		}
	})
	return found
}

// only is the value that all series under the name agree on; NaN when they do not, or there is none.
func (r rank) only(name string) float64 {
	value := math.NaN()
	for i, s := range r.exposition[name] {
		if i > 0 && s.value != value {
			return math.NaN()
		}
		value = s.value
	}
	return value
}

// tokens, requests and total turn a value into a count; what none can be is unknown.
func tokens(x float64) int64 { return count(x, float64(ingest.DefaultLimits().Tokens)) }

func requests(x float64) int64 { return tokens(x) }

func total(x float64) int64 { return count(x, 1<<53) }

func count(x, most float64) int64 {
	if !(x >= 0 && x <= most) {
		return ingest.Unknown
	}
	return int64(x + 0.5)
}

// ratio is x where it is a share, NaN otherwise.
func ratio(x float64) float64 {
	if !(x >= 0 && x <= 1) {
		return math.NaN()
	}
	return x
}

// positive is x where it is above 0, NaN otherwise.
func positive(x float64) float64 {
	if !(x > 0) {
		return math.NaN()
	}
	return x
}

// first is the first of v that is known, NaN when none is.
func first(v ...float64) float64 {
	for _, x := range v {
		if !math.IsNaN(x) {
			return x
		}
	}
	return math.NaN()
}
