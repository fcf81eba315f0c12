package scrape

import (
	"iter"
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
func (e exposition) ranks(g *engine) (found []rank) {
	for _, name := range g.anchors {
		for _, s := range e[name] {
			if g.keep == nil || g.keep(s) {
				r := rank{exposition: e, labels: g.labels}
				for _, label := range g.labels {
					r.values = append(r.values, s.labels.Get(label))
				}
				found = append(found, r)
			}
		}
	}
	compare := func(a, b rank) int { return slices.Compare(a.values, b.values) }
	slices.SortFunc(found, compare)
	found = slices.CompactFunc(found, func(a, b rank) bool { return compare(a, b) == 0 })
	if len(found) == 1 {
		found[0].alone = true
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

// samples gives those of r under a name. Those without labels of ranks are of all ranks, and are included if shared is
// true.
func (r rank) samples(name string, shared bool) iter.Seq[sample] {
	return func(yield func(sample) bool) {
		for _, s := range r.exposition[name] {
			mine := r.where[0] == "" || s.labels.Get(r.where[0]) == r.where[1]
			for i, label := range r.labels {
				value := s.labels.Get(label)
				mine = mine && (value == r.values[i] || value == "" && shared)
			}
			if mine && !yield(s) {
				return
			}
		}
	}
}

// gauge is the highest value under a name: tensor-parallel ranks repeat a value, and priorities have a part of it each.
// NaN when there is none.
func (r rank) gauge(name string) float64 {
	highest := math.NaN()
	for s := range r.samples(name, true) {
		if !(highest >= s.value) {
			highest = s.value
		}
	}
	return highest
}

// counter adds up the series under a name; NaN when there is none. If there are several ranks, a series without labels of
// ranks is left out: it is the sum of all.
func (r rank) counter(name string) float64 {
	sum := math.NaN()
	for s := range r.samples(name, r.alone) {
		sum = first(sum, 0) + s.value
	}
	return sum
}

// info is a number in a label of an information metric; NaN when it is none.
func (r rank) info(name, label string) float64 {
	for s := range r.samples(name, true) {
		if x, err := strconv.ParseFloat(s.labels.Get(label), 64); err == nil {
			return x
		}
	}
	return math.NaN()
}

// only is the value that all series under the name agree on; NaN when they do not, or there is none.
func (r rank) only(name string) float64 {
	all := r.exposition[name]
	if len(all) == 0 || slices.ContainsFunc(all, func(s sample) bool { return s.value != all[0].value }) {
		return math.NaN()
	}
	return all[0].value
}

// count turns a value into tokens or requests, and total one of a counter; what none can be is unknown.
func count(x float64) int64 { return integer(x, float64(ingest.DefaultLimits().Tokens)) }

func total(x float64) int64 { return integer(x, 1<<53) }

func integer(x, most float64) int64 {
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
