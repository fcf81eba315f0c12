package server

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

// reviseMinutes is how far back a window can still be amended: the largest features.revise, and a minute.
const reviseMinutes = 61

// history is the recent past of one pool: the sum over its classes, per dimension and minute, of what each minute
// will come to when all of its records are in, as in the forecast and the table. Windows come class
// by class and come again when amended, so the parts of a sum are kept until it settles.
type history struct {
	dimensions []features.Dimension
	rows       []int     // of features.Dimensions that these are
	points     [][]Point // by dimension; oldest first
	parts      map[time.Time]map[string][]float64
	touched    map[time.Time]bool // minutes whose parts changed since the sums were made, true those that have settled
}

func newHistory() *history {
	h := &history{parts: map[time.Time]map[string][]float64{}, touched: map[time.Time]bool{}}
	for row, d := range features.Dimensions {
		if d.Forecast || d.Name == features.DimCached || d.Name == features.DimRetry { // cached tokens are for launch sheets too
			h.dimensions, h.rows = append(h.dimensions, d), append(h.rows, row)
		}
	}
	h.points = make([][]Point, len(h.dimensions))
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
		if settled {
			delete(h.parts, start)
		}
	}
	clear(h.touched)
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
	v.Actuals = make([]Actual, len(h.dimensions))
	for d := range h.dimensions {
		v.Actuals[d] = Actual{h.dimensions[d].Name, slices.Clone(h.points[d])}
	}
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
