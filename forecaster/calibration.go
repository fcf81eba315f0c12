package forecaster

import (
	"math"
	"slices"
)

// The score of an outcome is the standard normal quantile of its level in the forecast. Scores of a calibrated forecast
// are standard normal. So a forecast is calibrated by the quantiles of its past scores: its new quantile at level τ is
// the value at the τ-quantile of past scores. This corrects width, bias and skew.

// gaussian are the standard normal quantiles at Levels, the scores of a calibrated forecast.
var gaussian = Quantiles{-1.6449, -1.2816, -.6745, 0, .6745, .8416, 1.2816, 1.6449, 2.3263}

// tracker follows the quantiles of scores. Each moves up after a score above it and down after one below. The step is
// the inverse density there over the number of remembered origins (stochastic approximation: Tierney 1983,
// doi:10.1137/0904048). So level τ covers τ of the outcomes in the long run, whatever the process does (Gibbs and
// Candès 2021, arXiv:2106.00170).
type tracker struct {
	Score [NumLevels]float32
	Seen  float32 // number of origins, the prior included
}

const (
	trackerPrior = 100 // weight, in origins, of the prior that the network is calibrated
	minSparsity  = 0.1 // of the standard normal's: a quantile keeps moving where scores coincide
	maxSparsity  = 4   // one outlier does not move a tail far
)

// trackerMemory is the number of origins that a level remembers. The tails are exceeded rarely, so they remember more.
var trackerMemory = [NumLevels]float64{200, 200, 200, 200, 200, 200, 200, 300, 600}

// newTracker is a calibrated tracker. This prior weighs as much as so many origins.
func newTracker(origins float64) (t tracker) {
	t.Seen = float32(origins)
	for i, z := range gaussian {
		t.Score[i] = float32(z)
	}
	return t
}

// observe takes the score of an outcome. Where a distribution has an atom, an outcome in it has a range of scores: the
// quantiles move by the mean step for scores drawn from that part of a standard normal (randomised PIT: Czado, Gneiting
// and Held 2009, doi:10.1111/j.1541-0420.2009.01191.x, §2).
func (t *tracker) observe(from, to float64) {
	was := t.Score
	for i, tau := range Levels {
		gain := max(1/trackerMemory[i], 1/float64(t.Seen))
		step := gain * sparsity(i, &was)
		below := 0.0 // share of the outcome that lies below the quantile
		switch x := float64(was[i]); {
		case to < x:
			below = 1
		case from < x:
			below = (phi(x) - phi(from)) / (phi(to) - phi(from))
		}
		t.Score[i] += float32(step * (tau - below))
	}
	slices.Sort(t.Score[:]) // steps may have crossed
	t.Seen++
}

// sparsity is the inverse density at level i, from the distance of the neighbouring quantiles. It stays within bounds
// relative to that of the standard normal distribution.
func sparsity(i int, scores *[NumLevels]float32) float64 {
	lo, hi := max(i-1, 0), min(i+1, NumLevels-1)
	x := float64(scores[hi]-scores[lo]) / (Levels[hi] - Levels[lo])
	normal := math.Sqrt(2*math.Pi) * math.Exp(gaussian[i]*gaussian[i]/2)
	return min(max(x, minSparsity*normal), maxSparsity*normal)
}

// phi is the standard normal distribution function.
func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// quantilesAt reads a distribution at scores plus shift. Roots of at most minWidth become zero.
func quantilesAt(a *rootQuantiles, scores *[NumLevels]float32, shift, minWidth float64) (q Quantiles) {
	for i, x := range scores {
		if z := a.at(float64(x)+shift, minWidth); z > minWidth {
			q[i] = unroot(z)
		}
	}
	q.Sort()
	return q
}

// interpolate interpolates what was learned at two knots.
func (w *knotWeight) interpolate(a, b *[NumLevels]float32) (s [NumLevels]float32) {
	for i := range s {
		s[i] = float32(w.a)*a[i] + float32(w.b)*b[i]
	}
	return s
}

// stageMinutes are the silent minutes at which the next stage begins. Forecasts after traffic and after silence have
// different errors: the longer the silence, the more often it continues.
var stageMinutes = [...]int{15, 60, 240}

const numStages = len(stageMinutes) + 1
