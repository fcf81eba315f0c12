package forecaster

import (
	"math"
	"slices"
)

// Baseline is a trivial forecaster that every other has to beat.
type Baseline int

// The baselines. Each adds the quantiles of its own past errors.
const (
	LastValue    Baseline = iota // the newest minute
	SeasonalDay                  // the same time yesterday, mean of ±7 minutes
	SeasonalWeek                 // the same time a week ago, mean of ±7 minutes
	Recent15m                    // the mean of the last 15 minutes
	NumBaselines
)

// String is the reported name.
func (b Baseline) String() string {
	return [NumBaselines]string{"last", "seasonal_day", "seasonal_week", "recent_15m"}[b]
}

const (
	minutesPerDay  = 1440
	minutesPerWeek = 7 * minutesPerDay
	seasonalBlur   = 7                 // minutes on either side
	residualSpan   = 2 * minutesPerDay // past errors that a new target starts with
	// trackMinutes is the memory of a scorer: a week and what new targets start with.
	trackMinutes = minutesPerWeek + residualSpan + Horizon + seasonalBlur + 1
)

// track has the outcomes of a series by minute.
type track struct {
	newest int64
	known  bool
	at     [trackMinutes]float64
}

// push appends the next minute; the first may be any.
func (t *track) push(minute int64, y float64) {
	if !t.known {
		for i := range t.at {
			t.at[i] = math.NaN()
		}
		t.known = true
	}
	t.newest = minute
	t.at[slot(minute)] = y
}

func slot(minute int64) int { return int((minute%trackMinutes + trackMinutes) % trackMinutes) }

// value is NaN if unknown.
func (t *track) value(minute int64) float64 {
	if !t.known || minute > t.newest || minute <= t.newest-trackMinutes {
		return math.NaN()
	}
	return t.at[slot(minute)]
}

// mean of the known minutes in [from, to].
func (t *track) mean(from, to int64) float64 {
	sum, n := 0.0, 0
	for m := from; m <= to; m++ {
		if y := t.value(m); !math.IsNaN(y) {
			sum += y
			n++
		}
	}
	return ratio(sum, float64(n))
}

// largest of the minutes in [from, to]; NaN if one is unknown.
func (t *track) largest(from, to int64) float64 {
	most := math.Inf(-1)
	for m := from; m <= to; m++ {
		most = max(most, t.value(m)) // NaN stays
	}
	return most
}

// outcome of a target from an origin, the minute after the newest known one.
func (t *track) outcome(x target, origin int64) float64 {
	return t.largest(origin+int64(x.from)-1, origin+int64(x.to)-1)
}

// point is the point forecast of baseline b from what was known before the origin; NaN if there is none. For the window
// maximum, seasonal baselines use the same span; the residuals of the others absorb the difference.
func (t *track) point(b Baseline, x target, origin int64) float64 {
	switch b {
	case LastValue:
		return t.value(origin - 1)
	case Recent15m:
		return t.mean(origin-15, origin-1)
	}
	season := int64(minutesPerDay)
	if b == SeasonalWeek {
		season = minutesPerWeek
	}
	if x.from < x.to {
		return t.outcome(x, origin-season)
	}
	at := origin + int64(x.to) - 1 - season
	return t.mean(at-seasonalBlur, at+seasonalBlur)
}

// residuals tracks the quantiles of a baseline's errors. The first errors are kept for initial quantiles. Then each
// error moves every level by a step of stochastic approximation: the inverse density there, from the neighbouring
// quantiles, over the number of remembered errors (Tierney 1983, doi:10.1137/0904048). O(1) per error.
type residuals struct {
	n     int
	first []float64
	at    Quantiles
	width float64 // mean absolute deviation from the median
}

const (
	firstResiduals    = 20               // no quantiles before
	residualsRemember = residualSpan / 2 // errors
)

func (r *residuals) add(e float64) {
	if math.IsNaN(e) {
		return
	}
	r.n++
	if r.n <= firstResiduals {
		if r.first = append(r.first, e); r.n == firstResiduals {
			r.initQuantiles()
		}
		return
	}
	gain := max(1.0/residualsRemember, 1/float64(r.n))
	unit := r.width * math.Sqrt(math.Pi/2) // a normal distribution's standard deviation
	r.width += gain * (math.Abs(e-r.at[L50]) - r.width)
	was := r.at
	for i, tau := range Levels {
		lo, hi := max(i-1, 0), min(i+1, NumLevels-1)
		sparsity := (was[hi] - was[lo]) / (Levels[hi] - Levels[lo])
		step := gain * min(max(sparsity, minSparsity*unit*gaussianSparsity[i]), maxSparsity*unit*gaussianSparsity[i])
		if e < was[i] {
			r.at[i] -= step * (1 - tau)
		} else {
			r.at[i] += step * tau
		}
	}
	slices.Sort(r.at[:])
}

// initQuantiles takes the quantiles of the first errors.
func (r *residuals) initQuantiles() {
	slices.Sort(r.first)
	for i, tau := range Levels {
		k := tau * (firstResiduals - 1)
		lo := int(k)
		r.at[i] = r.first[lo] + (k-float64(lo))*(r.first[min(lo+1, firstResiduals-1)]-r.first[lo])
	}
	for _, e := range r.first {
		r.width += math.Abs(e-r.at[L50]) / firstResiduals
	}
	r.first = nil
}

// distribution of a baseline around its point forecast, not below zero; all NaN without a point forecast or enough
// errors.
func (r *residuals) distribution(point float64) (q Quantiles) {
	if r.n < firstResiduals {
		point = math.NaN()
	}
	for i := range q {
		q[i] = math.Max(0, point+r.at[i]) // NaN stays
	}
	return q
}
