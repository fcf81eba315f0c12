package forecaster

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// Scorer scores the forecasts of one series, and those of the last value, against outcomes, for backtests and reports.
// Outcomes come in order of time by Observe, forecasts by Issue. The last value uses only outcomes before the origin.
// Memory: the minutes of two hours, and the forecasts of the last hour; O(horizons) per minute.
type Scorer struct {
	// Minutes are the scored minutes ahead; nil means all with quantiles. The window maximum is always scored.
	Minutes []int
	// From is the first minute (since 1970) whose outcome counts; for a window, its last minute.
	From int64

	known   bool
	newest  int64
	past    [pastMinutes]float64 // outcomes by minute
	targets []*scored
	pending []issued // by origin
}

// pastMinutes are kept. The last value of an outcome may be an hour older, and the largest of several minutes.
const pastMinutes = 2 * Horizon

// maxPending bounds the origins without all outcomes: a day of them, more than any settling time.
const maxPending = 1440

// scored is a target: a minute ahead, or the window maximum.
type scored struct {
	target
	errors errorQuantiles // of the last value
	Accumulator
}

// issued has the forecasts of one origin, by target, until the last outcome is known.
type issued struct {
	origin int64
	of     []issue
}

type issue struct {
	target   *scored
	own      Quantiles
	last     float64   // the last value; of a maximum the largest of as many minutes
	baseline Quantiles // of the last value
}

// Observe takes the outcome of a minute since 1970, NaN if unknown. Skipped minutes are unknown; a minute that is not
// newer than the newest is ignored.
func (s *Scorer) Observe(minute int64, y float64) {
	if math.IsInf(y, 0) {
		y = math.NaN()
	}
	switch {
	case !s.known:
		for i := range s.past {
			s.past[i] = math.NaN()
		}
		s.known = true
		for _, h := range s.Minutes {
			s.target(target{h, h})
		}
		s.target(target{WindowFrom, WindowTo})
	case minute <= s.newest:
		return
	default:
		// After so many unknown minutes nothing is known, and nothing pending.
		for gap, end := s.newest+1, min(minute, s.newest+pastMinutes+1); gap < end; gap++ {
			s.step(gap, math.NaN())
		}
	}
	s.step(minute, y)
}

func (s *Scorer) step(minute int64, y float64) {
	s.newest, s.past[minute%pastMinutes] = minute, y
	for _, t := range s.targets {
		origin := minute - int64(t.to) + 1
		outcome := s.largest(minute-int64(t.to-t.from), minute)
		s.settle(t, origin, outcome)
		t.errors.add(outcome - s.largest(origin-1, origin-1))
	}
	for i := range s.pending {
		if p := &s.pending[i]; p.origin == minute+1 {
			s.setBaselines(p)
		}
	}
	done := 0
	for done < len(s.pending) && s.pending[done].origin+Horizon <= minute+1 {
		done++
	}
	s.pending = slices.Delete(s.pending, 0, done)
}

// largest of the minutes in [from, to]; NaN if one is unknown.
func (s *Scorer) largest(from, to int64) float64 {
	if !s.known || from < 0 || to > s.newest || from <= s.newest-pastMinutes {
		return math.NaN()
	}
	most := math.Inf(-1)
	for m := from; m <= to; m++ {
		most = max(most, s.past[m%pastMinutes]) // NaN stays
	}
	return most
}

// settle scores the forecast of one target from an origin.
func (s *Scorer) settle(t *scored, origin int64, outcome float64) {
	i, ok := slices.BinarySearchFunc(s.pending, origin, func(p issued, o int64) int { return cmp.Compare(p.origin, o) })
	if !ok || origin+t.span-1 < s.From {
		return
	}
	for j := range s.pending[i].of {
		x := &s.pending[i].of[j]
		switch {
		case x.target != t:
		case math.IsNaN(outcome):
			t.Missing++
		default:
			t.add(origin, outcome, x)
		}
	}
}

// setBaselines computes the forecasts of the last value at an origin, the minute after the newest.
func (s *Scorer) setBaselines(p *issued) {
	for i := range p.of {
		x := &p.of[i]
		x.baseline = x.target.errors.around(s.largest(p.origin-1, p.origin-1))
		x.last = s.largest(p.origin-1-int64(x.target.to-x.target.from), p.origin-1)
	}
}

// Issue records a forecast. It is ignored if it is not newer than the last one, or its first minute has been observed.
func (s *Scorer) Issue(f *Forecast) {
	p := issued{origin: f.Origin.Unix() / 60}
	if n := len(s.pending); n > 0 && s.pending[n-1].origin >= p.origin || s.known && p.origin <= s.newest {
		return
	}
	add := func(x target, q *Quantiles) {
		if !slices.ContainsFunc(q[:], math.IsNaN) {
			p.of = append(p.of, issue{target: s.target(x), own: *q})
		}
	}
	if s.Minutes == nil {
		for h := 1; h <= Horizon; h++ {
			add(target{h, h}, &f.Minute[h-1])
		}
	}
	for _, h := range s.Minutes {
		add(target{h, h}, &f.Minute[h-1])
	}
	add(target{WindowFrom, WindowTo}, &f.WindowMax)
	s.setBaselines(&p) // from known minutes; newer ones may come before the origin
	if len(s.pending) == maxPending {
		s.pending = slices.Delete(s.pending, 0, 1)
	}
	s.pending = append(s.pending, p)
}

// target finds or adds a target: minutes ascending, the window maximum last.
func (s *Scorer) target(x target) *scored {
	i, ok := slices.BinarySearchFunc(s.targets, x, func(t *scored, x target) int {
		return cmp.Or(cmp.Compare(t.to-t.from, x.to-x.from), cmp.Compare(t.to, x.to))
	})
	if ok {
		return s.targets[i]
	}
	t := &scored{target: x, Accumulator: Accumulator{Horizon: strconv.Itoa(x.to), span: int64(x.to)}}
	if x.from < x.to {
		t.Horizon = HorizonWindowMax
	}
	s.targets = slices.Insert(s.targets, i, t)
	return t
}

// Scores of the horizons: minutes ascending, the window maximum last.
func (s *Scorer) Scores() []*Accumulator {
	out := make([]*Accumulator, len(s.targets))
	for i, t := range s.targets {
		out[i] = &t.Accumulator
	}
	return out
}

// errorQuantiles tracks the quantiles of the last value's errors. The first errors are kept for initial quantiles. Then
// each error moves every level as in tracker. O(1) per error.
type errorQuantiles struct {
	n     int
	first []float64
	at    Quantiles
	width float64 // mean absolute deviation from the median
}

const (
	firstErrors  = 20   // no quantiles before
	errorsMemory = 1440 // errors
)

func (r *errorQuantiles) add(e float64) {
	if math.IsNaN(e) {
		return
	}
	r.n++
	if r.n <= firstErrors {
		if r.first = append(r.first, e); r.n == firstErrors {
			r.initQuantiles()
		}
		return
	}
	gain := max(1.0/errorsMemory, 1/float64(r.n))
	unit := r.width * math.Sqrt(math.Pi/2) // a normal distribution's standard deviation
	r.width += gain * (math.Abs(e-r.at[L50]) - r.width)
	was := r.at
	for i, tau := range Levels {
		lo, hi := neighbours(i)
		step := gain * sparsity(i, was[hi]-was[lo], unit)
		if e < was[i] {
			r.at[i] -= step * (1 - tau)
		} else {
			r.at[i] += step * tau
		}
	}
	slices.Sort(r.at[:])
}

// initQuantiles takes the quantiles of the first errors.
func (r *errorQuantiles) initQuantiles() {
	slices.Sort(r.first)
	for i, tau := range Levels {
		k := tau * (firstErrors - 1)
		lo := int(k)
		r.at[i] = r.first[lo] + (k-float64(lo))*(r.first[min(lo+1, firstErrors-1)]-r.first[lo])
	}
	for _, e := range r.first {
		r.width += math.Abs(e-r.at[L50]) / firstErrors
	}
	r.first = nil
}

// around is the distribution of a last value, not below zero; all NaN if it is unknown, or without enough errors.
func (r *errorQuantiles) around(last float64) (q Quantiles) {
	if r.n < firstErrors {
		last = math.NaN()
	}
	for i := range q {
		q[i] = math.Max(0, last+r.at[i]) // NaN stays
	}
	return q
}
