package model

import (
	"math"
	"slices"
)

// LastErrors is the last value with the empirical quantiles of its own errors over the last day, for each target: what
// a forecaster without a model would say, and the one that every other is measured by. Errors are differences, not ratios.
// The quantiles of one target after another are looked up anew, all within an hour. O(errorMinutes·log errorMinutes) an
// hour and target, spread evenly.
type LastErrors struct {
	spans    [][2]int             // of the targets, first and last lead
	quantile [][NumLevels]float64 // per target
	known    []bool
}

const (
	errorMinutes = day // of origins whose errors count
	errorStep    = 2   // minutes between them
	errorLeast   = 90  // errors that it takes to say anything
	errorEvery   = 60  // minutes after which the quantiles of a target are looked up again
)

// NewLastErrors makes one for targets given by their first and last lead: one minute, or the largest of a span.
func NewLastErrors(spans [][2]int) *LastErrors {
	return &LastErrors{spans: spans, quantile: make([][NumLevels]float64, len(spans)), known: make([]bool, len(spans))}
}

// Update looks up the quantiles of the target whose turn it is; of those that are not known yet, every ten minutes.
func (l *LastErrors) Update(h *History) {
	if h.Known == 0 {
		return
	}
	for k := range l.spans {
		turn := int64(k * errorEvery / len(l.spans))
		if h.Newest%errorEvery == turn || !l.known[k] && h.Newest%10 == turn%10 {
			l.look(h, k)
		}
	}
}

// look computes the quantiles of the errors of target k.
func (l *LastErrors) look(h *History, k int) {
	from, to := l.spans[k][0], l.spans[k][1]
	var errors [errorMinutes / errorStep]float64
	n := 0
	for i := range errors {
		origin := h.Newest - int64(to) - int64(i*errorStep)
		last, outcome := h.At(origin), h.Max(origin+int64(from), origin+int64(to))
		if e := outcome - last; !math.IsNaN(e) {
			errors[n] = e
			n++
		}
	}
	if l.known[k] = n >= errorLeast; !l.known[k] {
		return
	}
	sorted := errors[:n]
	slices.Sort(sorted)
	for i, tau := range Levels {
		at := tau * float64(n-1)
		below := int(at)
		above := min(below+1, n-1)
		l.quantile[k][i] = sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
	}
}

// Forecast is the last value at every lead.
func (*LastErrors) Forecast(h *History, _ int) float64 { return h.Last(5) }

// Distribution is the last value and the quantiles of its errors at the target with this span.
func (l *LastErrors) Distribution(h *History, from, to int, q *[NumLevels]float64) bool {
	k := slices.Index(l.spans, [2]int{from, to})
	last := h.Last(5)
	if k < 0 || !l.known[k] || math.IsNaN(last) {
		return false
	}
	for i, e := range l.quantile[k] {
		q[i] = math.Max(0, last+e)
	}
	return true
}

// State is, target by target, whether its quantiles are known, and these.
func (l *LastErrors) State() []float64 {
	var s []float64
	for k, known := range l.known {
		if known {
			s = append(s, 1)
		} else {
			s = append(s, 0)
		}
		s = append(s, l.quantile[k][:]...)
	}
	return s
}

// Restore takes over a State of the same targets.
func (l *LastErrors) Restore(s []float64) bool {
	const row = 1 + NumLevels
	if len(s) != row*len(l.known) {
		return false
	}
	for k := range l.known {
		l.known[k] = s[k*row] == 1
		copy(l.quantile[k][:], s[k*row+1:])
	}
	return true
}
