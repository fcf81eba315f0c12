package forecaster

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/forewarm/forewarm/forecaster/network"
	"github.com/forewarm/forewarm/internal/value"
)

// Pinball is the quantile loss of forecast q at level tau for outcome y, in y's unit: tau·(y−q) when y ≥ q, else
// (1−tau)·(q−y). Its expectation is least at the true quantile (Koenker and Bassett 1978, doi:10.2307/1913643).
func Pinball(tau, y, q float64) float64 {
	if y >= q {
		return tau * (y - q)
	}
	return (1 - tau) * (q - y)
}

// ScoredLevels are the levels of MeanPinball, those that sizing uses.
var ScoredLevels = [5]int{L50, L80, L90, L95, L99}

// HorizonWindowMax names the largest minute of WindowFrom..WindowTo where a horizon in minutes is expected.
const HorizonWindowMax = "max15_30"

// Accumulator has the scores of the forecasts of one series at one horizon. A Scorer fills it.
type Accumulator struct {
	Horizon string // minutes, or HorizonWindowMax
	N       int    // outcomes
	Missing int    // forecasts with an unknown outcome

	target           network.Span
	first, last      int64   // origins of outcomes
	sum, err, absErr float64 // Σ|y|; Σ(median − y) and Σ|median − y|
	lastErr, lastOwn float64 // Σ|y − last value|; Σ|median − y| over the same outcomes
	loss             Quantiles
	covered          Quantiles // outcomes at or below each quantile
}

// add counts outcome y of a forecast made at an origin (in minutes), and the last value then.
func (a *Accumulator) add(origin int64, y, last float64, own *Quantiles) {
	if a.N == 0 {
		a.first = origin
	}
	a.last = origin
	a.N++
	a.sum += math.Abs(y)
	e := own[L50] - y
	a.err += e
	a.absErr += math.Abs(e)
	if !math.IsNaN(last) {
		a.lastErr += math.Abs(y - last)
		a.lastOwn += math.Abs(e)
	}
	for i, tau := range Levels {
		a.loss[i] += Pinball(tau, y, own[i])
		if y-own[i] <= 1e-6*math.Abs(y) { // forecasts have rounding errors
			a.covered[i]++
		}
	}
}

// Mean is the mean outcome.
func (a *Accumulator) Mean() float64 { return value.Share(a.sum, float64(a.N)) }

// WAPE is Σ|median − y| / Σ|y|; NaN if Σ|y| is 0.
func (a *Accumulator) WAPE() float64 { return value.Share(a.absErr, a.sum) }

// Bias is Σ(median − y) / Σ|y|: positive when the median is too high.
func (a *Accumulator) Bias() float64 { return value.Share(a.err, a.sum) }

// RelativeMAE is the median's absolute error over that of the last value, at the same horizon and outcomes (Hyndman and
// Koehler 2006, doi:10.1016/j.ijforecast.2006.03.001, §2.4). For the window maximum the last value is the largest of as
// many minutes before the origin.
func (a *Accumulator) RelativeMAE() float64 {
	if a.lastErr <= 1e-9*a.sum { // rounding errors
		return math.NaN()
	}
	return a.lastOwn / a.lastErr
}

// MeanPinball is the loss averaged over outcomes and ScoredLevels, in the series' unit.
func (a *Accumulator) MeanPinball() float64 {
	s := 0.0
	for _, i := range ScoredLevels {
		s += a.loss[i]
	}
	return value.Share(s, float64(a.N*len(ScoredLevels)))
}

// Coverage is the share of outcomes at or below a quantile, with its 95 % Wilson interval for the effective number of
// outcomes. Outcomes of overlapping horizons depend on each other and count less.
type Coverage struct {
	Share     value.Number `json:"share"`
	Low       value.Number `json:"low"`
	High      value.Number `json:"high"`
	Effective value.Number `json:"effective_n"`
}

// Coverage of the quantile at that level index. The interval is Wilson's (1927, doi:10.1080/01621459.1927.10502953) for
// the number of outcomes that do not overlap. Without outcomes all shares are NaN.
func (a *Accumulator) Coverage(level int) Coverage {
	const z = 1.959964
	n := float64(a.N)
	overlap := 1.0 // outcomes that share a minute
	if a.last > a.first {
		overlap = math.Max(1, math.Ceil(float64(a.target.To)*(n-1)/float64(a.last-a.first)))
	}
	p, effective := a.covered[level]/n, n/overlap
	mid := (p + z*z/(2*effective)) / (1 + z*z/effective)
	half := z / (1 + z*z/effective) * math.Sqrt(p*(1-p)/effective+z*z/(4*effective*effective))
	low, high := value.Number(max(mid-half, 0)), value.Number(min(mid+half, 1))
	return Coverage{Share: value.Number(p), Low: low, High: high, Effective: value.Number(effective)}
}

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
	copy(s.past[:], slices.Repeat([]float64{math.NaN()}, pastMinutes))
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
		*own = f.WindowMax
		if a.target.From == a.target.To {
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
