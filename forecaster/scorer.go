package forecaster

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/forewarm/forewarm/forecaster/network"
)

// Scorer scores the forecasts of one series, and those of the last value, against outcomes, for backtests and reports.
// Outcomes come in order of time by Observe, forecasts by Issue. The last value uses only outcomes before the origin.
// Memory: the minutes of two hours, and the forecasts of the last hour; O(horizons) per minute.
type Scorer struct {
	// Scores of the minutes, in the order of NewScorer, and of the window maximum.
	Scores []*Accumulator

	from    int64 // the first minute whose outcome counts
	newest  int64
	past    [pastMinutes]float64 // outcomes by minute
	pending []issued             // by origin
}

// pastMinutes are kept. The last value of an outcome may be an hour older, and the largest of several minutes.
const pastMinutes = 2 * Horizon

// maxPending bounds the origins without all outcomes: a day of them, more than any settling time.
const maxPending = 1440

// issued has the forecasts of one origin, one for each of Scores, until the last outcome is known.
type issued struct {
	origin int64
	of     []Quantiles // the first one NaN: there is no forecast
}

// NewScorer returns a Scorer of forecasts so many minutes ahead, and of the window maximum. from is the first minute
// (since 1970) whose outcome counts; for a window, its last minute.
func NewScorer(from int64, minutes ...int) *Scorer {
	s := &Scorer{from: from, newest: -1}
	for i := range s.past {
		s.past[i] = math.NaN()
	}
	for _, h := range minutes {
		s.Scores = append(s.Scores, &Accumulator{Horizon: strconv.Itoa(h), target: network.Span{From: h, To: h}})
	}
	s.Scores = append(s.Scores, &Accumulator{Horizon: HorizonWindowMax, target: network.Span{From: WindowFrom, To: WindowTo}})
	return s
}

// Observe takes the outcome of a minute since 1970, NaN if unknown. Skipped minutes are unknown; a minute that is not
// newer than the newest is ignored.
func (s *Scorer) Observe(minute int64, y float64) {
	if minute <= s.newest {
		return
	}
	// After so many unknown minutes nothing is known, and nothing pending.
	for gap, end := s.newest+1, min(minute, s.newest+pastMinutes+1); gap < end; gap++ {
		s.step(gap, math.NaN())
	}
	if math.IsInf(y, 0) {
		y = math.NaN()
	}
	s.step(minute, y)
}

func (s *Scorer) step(minute int64, y float64) {
	s.newest, s.past[minute%pastMinutes] = minute, y
	for k, a := range s.Scores {
		s.settle(k, minute-int64(a.target.To)+1)
	}
	s.pending = slices.DeleteFunc(s.pending, func(p issued) bool { return p.origin+Horizon <= minute+1 })
}

// largest of the minutes in [from, to]; NaN if one is unknown.
func (s *Scorer) largest(from, to int64) float64 {
	if from < 0 || to > s.newest || from <= s.newest-pastMinutes {
		return math.NaN()
	}
	most := math.Inf(-1)
	for m := from; m <= to; m++ {
		most = max(most, s.past[m%pastMinutes]) // NaN stays
	}
	return most
}

// settle scores the forecast of one target from an origin. The last value of a maximum is the largest of as many minutes.
func (s *Scorer) settle(k int, origin int64) {
	i, ok := slices.BinarySearchFunc(s.pending, origin, func(p issued, o int64) int { return cmp.Compare(p.origin, o) })
	if !ok || s.newest < s.from {
		return
	}
	a := s.Scores[k]
	before := int64(a.target.To - a.target.From)
	outcome, last := s.largest(s.newest-before, s.newest), s.largest(origin-1-before, origin-1)
	switch own := &s.pending[i].of[k]; {
	case math.IsNaN(own[0]):
	case math.IsNaN(outcome):
		a.Missing++
	default:
		a.add(origin, outcome, last, own)
	}
}

// Issue records a forecast. It is ignored if it is not newer than the last one, or its first minute has been observed.
func (s *Scorer) Issue(f *Forecast) {
	p := issued{origin: f.Origin.Unix() / 60, of: make([]Quantiles, len(s.Scores))}
	if n := len(s.pending); n > 0 && s.pending[n-1].origin >= p.origin || p.origin <= s.newest {
		return
	}
	for k, a := range s.Scores {
		own := &p.of[k]
		if *own = f.WindowMax; a.target.From == a.target.To {
			*own = f.Minute[a.target.To-1]
		}
		if slices.ContainsFunc(own[:], math.IsNaN) {
			own[0] = math.NaN()
		}
	}
	if len(s.pending) == maxPending {
		s.pending = slices.Delete(s.pending, 0, 1)
	}
	s.pending = append(s.pending, p)
}
