package backtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// orderBuffer sorts rows by time.
type orderBuffer struct {
	rows  heap[*row]
	bound int
	seq   int64

	widths map[string]int64 // ns by class, of a binned trace
	width  int64            // of the other classes
}

func (o *orderBuffer) push(w *row) {
	if w.seq == 0 {
		o.seq++
		w.seq = o.seq
	}
	o.rows.push(w)
}

// widthOf returns the bin width of a class's rows, ns.
func (o *orderBuffer) widthOf(class string) int64 {
	if w, ok := o.widths[class]; ok {
		return w
	}
	return o.width
}

// widest returns the widest bin of any class, ns; 0 if the trace is not binned.
func (o *orderBuffer) widest() int64 {
	widest := o.width
	for _, w := range o.widths {
		widest = max(widest, w)
	}
	return widest
}

// inferWidths sets the width of current and later rows, and describes the result. A given width applies to all.
// Otherwise, if most steps of t_s in a class equal its smallest positive step, that is its width. All other classes get
// the smallest step in the file. O(n log n).
func (o *orderBuffer) inferWidths(given time.Duration) (notes []string) {
	o.width, o.widths = int64(given), map[string]int64{}
	if given == 0 {
		notes = o.smallestSteps()
	}
	for i := range o.rows {
		o.rows[i].width = o.widthOf(o.rows[i].class)
	}
	return notes
}

func (o *orderBuffer) smallestSteps() (notes []string) {
	type point struct {
		class string
		at    int64
	}
	points := make([]point, len(o.rows))
	for i := range o.rows {
		points[i] = point{o.rows[i].class, o.rows[i].at}
	}
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.at, b.at))
	})
	for from := 0; from < len(points); {
		to := from
		var smallest int64
		var steps, smallestCount int
		for ; to < len(points) && points[to].class == points[from].class; to++ {
			if to == from || points[to].at == points[to-1].at {
				continue
			}
			step := points[to].at - points[to-1].at
			steps++
			switch {
			case smallest == 0 || step < smallest:
				smallest, smallestCount = step, 1
			case step == smallest:
				smallestCount++
			}
		}
		if steps >= 2 && 2*smallestCount > steps && smallest <= int64(maxBinWidth) {
			o.widths[points[from].class] = smallest
		}
		if smallest > 0 && (o.width == 0 || smallest < o.width) {
			o.width = smallest
		}
		from = to
	}
	if o.width == 0 {
		o.width = int64(time.Minute)
		return []string{"bin width taken as 1m0s: no class has two rows; give it with -bin"}
	}
	notes = append(notes, fmt.Sprintf("bin width %s inferred from the smallest step of t_s; give it with -bin if it is another", time.Duration(o.width)))
	classes := map[int64]int{}
	for _, w := range o.widths {
		classes[w]++
	}
	delete(classes, o.width)
	for _, w := range slices.Sorted(maps.Keys(classes)) {
		notes = append(notes, fmt.Sprintf("the rows of %d of the classes stand %s apart", classes[w], time.Duration(w)))
	}
	return notes
}
