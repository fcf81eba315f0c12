package server

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/forecaster"
)

// reviseMinutes is how far back a window can still be amended: the largest features.revise, and a minute.
const reviseMinutes = 61

const (
	// mixClasses is how many classes of a minute are told apart in the mix.
	mixClasses = 8
	// expectedAhead is how many minutes before each minute its forecast was made that is kept beside what came.
	expectedAhead = 15
)

// tails are the distributions whose 95th percentiles are kept, over all classes of a minute that has settled.
var tails = [...]struct {
	name, title, unit string
	of                func(w *features.Window) *sketch.Quantile
}{
	{"prompt", "Length of prompts", "tokens", func(w *features.Window) *sketch.Quantile { return w.Prompt }},
	{"output", "Length of outputs", "tokens", func(w *features.Window) *sketch.Quantile { return w.Output }},
	{"ttft", "Time to the first token", "s", func(w *features.Window) *sketch.Quantile { return w.TTFT }},
	{"itl", "Time per output token", "s", func(w *features.Window) *sketch.Quantile { return w.ITL }},
}

// history is the recent past of one pool: the sum over its classes, per dimension and minute, of what each minute
// will come to when all of its records are in, as in the forecast and the table. Windows come class
// by class and come again when amended, so the parts of a sum are kept until it settles.
type history struct {
	dimensions []features.Dimension
	rows       []int     // of features.Dimensions that these are
	points     [][]Point // by dimension; oldest first
	expected   [][]Point // likewise: medians forecast expectedAhead minutes before
	tails      [len(tails)][]Point
	mix        map[time.Time]map[string]float64 // tokens/s of the heaviest classes, and of the others as features.OverflowClass
	settling   map[time.Time]*[len(tails)]sketch.Quantile
	parts      map[time.Time]map[string][]float64
	touched    map[time.Time]bool // minutes whose parts changed since the sums were made, true those that have settled
}

func newHistory() *history {
	h := &history{parts: map[time.Time]map[string][]float64{}, touched: map[time.Time]bool{},
		mix: map[time.Time]map[string]float64{}, settling: map[time.Time]*[len(tails)]sketch.Quantile{}}
	for row, d := range features.Dimensions {
		if d.Forecast || d.Name == features.DimCached || d.Name == features.DimRetry { // cached tokens are for launch sheets too
			h.dimensions, h.rows = append(h.dimensions, d), append(h.rows, row)
		}
	}
	h.points, h.expected = make([][]Point, len(h.dimensions)), make([][]Point, len(h.dimensions))
	return h
}

// add counts a window in, in place of an earlier count of the same class and minute.
func (h *history) add(w *features.Window) {
	parts := h.parts[w.Start]
	if parts == nil {
		parts = map[string][]float64{}
		h.parts[w.Start] = parts
	}
	part := parts[w.Class]
	if part == nil {
		part = make([]float64, len(h.dimensions))
		parts[w.Class] = part
	}
	expected := w.Expected()
	for d, row := range h.rows {
		part[d] = expected[row]
	}
	h.touched[w.Start] = h.touched[w.Start] || w.Settled
	if w.Settled {
		if h.settling[w.Start] == nil {
			h.settling[w.Start] = &[len(tails)]sketch.Quantile{}
		}
		for i := range tails {
			if part := tails[i].of(w); part != nil {
				h.settling[w.Start][i].Merge(part)
			}
		}
	}
}

// expect keeps what was forecast of a minute ahead.
func (h *history) expect(f *forecaster.Forecast) {
	for d := range h.dimensions {
		if h.dimensions[d].Name == f.Dimension {
			at := f.Origin.Add((expectedAhead - 1) * features.Minute)
			h.expected[d] = insert(h.expected[d], Point{at, f.Minute[expectedAhead-1][forecaster.L50]})
		}
	}
}

// mixOf is how many tokens a second the heaviest classes of a minute asked for, and the others together.
func (h *history) mixOf(start time.Time) map[string]float64 {
	type share struct {
		class  string
		tokens float64
	}
	var all []share
	for class, values := range h.parts[start] {
		tokens := 0.0
		for d := range h.dimensions {
			switch h.dimensions[d].Name {
			case features.DimPrefill, features.DimCached, features.DimDecode:
				tokens += zeroNaN(values[d])
			}
		}
		all = append(all, share{class, tokens})
	}
	slices.SortFunc(all, func(a, b share) int { return cmp.Or(cmp.Compare(b.tokens, a.tokens), cmp.Compare(a.class, b.class)) })
	mix := map[string]float64{}
	for i, x := range all {
		if i >= mixClasses {
			x.class = features.OverflowClass
		}
		mix[x.class] += x.tokens
	}
	return mix
}

// update makes the sums of the minutes that changed, and forgets the parts that cannot change any more: those of a minute
// settle together.
func (h *history) update() {
	var newest time.Time
	for start, settled := range h.touched {
		if start.After(newest) {
			newest = start
		}
		for d, total := range h.sums(start) {
			h.points[d] = insert(h.points[d], Point{start, total})
		}
		h.mix[start] = h.mixOf(start)
		if settled {
			delete(h.parts, start)
		}
	}
	clear(h.touched)
	for start, all := range h.settling { // the classes of a minute settle at one tick
		for i := range all {
			value := math.NaN()
			if all[i].Count() > 0 {
				value = all[i].Quantile(.95)
			}
			h.tails[i] = insert(h.tails[i], Point{start, value})
		}
	}
	clear(h.settling)
	maps.DeleteFunc(h.mix, func(start time.Time, _ map[string]float64) bool {
		return newest.Sub(start) > HistoryMinutes*time.Minute
	})
	maps.DeleteFunc(h.parts, func(start time.Time, _ map[string][]float64) bool {
		return newest.Sub(start) > reviseMinutes*time.Minute
	})
}

// sums are what the classes add up to that know their value, by dimension; NaN where none does.
func (h *history) sums(start time.Time) []float64 {
	totals := make([]float64, len(h.dimensions))
	for d := range totals {
		totals[d] = math.NaN()
	}
	classes := h.parts[start]
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		for d, x := range classes[class] {
			switch {
			case math.IsNaN(x):
			case math.IsNaN(totals[d]):
				totals[d] = x
			default:
				totals[d] += x
			}
		}
	}
	return totals
}

// show copies the past into a view.
func (h *history) show(v *PoolView) {
	v.Actuals, v.Expected, v.Tails = make([]Actual, len(h.dimensions)), make([]Actual, len(h.dimensions)), make([]Actual, len(tails))
	for d := range h.dimensions {
		v.Actuals[d] = Actual{h.dimensions[d].Name, slices.Clone(h.points[d])}
		v.Expected[d] = Actual{h.dimensions[d].Name, slices.Clone(h.expected[d])}
	}
	for i := range tails {
		v.Tails[i] = Actual{tails[i].name, slices.Clone(h.tails[i])}
	}
	v.Mix = maps.Clone(h.mix) // the mix of a minute is never changed
}

// insert puts p where its minute belongs, in place of an earlier value, and drops what is older than the history.
func insert(points []Point, p Point) []Point {
	i, found := slices.BinarySearchFunc(points, p, func(a, b Point) int { return a.Start.Compare(b.Start) })
	if found {
		points[i] = p
		return points
	}
	points = slices.Insert(points, i, p)
	oldest := points[len(points)-1].Start.Add(-(HistoryMinutes - 1) * time.Minute)
	keep, _ := slices.BinarySearchFunc(points, oldest, func(a Point, t time.Time) int { return a.Start.Compare(t) })
	return slices.Delete(points, 0, keep)
}
