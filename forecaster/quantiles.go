package forecaster

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/forecaster/network"
)

// NumLevels is the number of quantile levels a forecast carries.
const NumLevels = network.NumLevels

// Levels are the quantile levels of every forecast, ascending.
var Levels = [NumLevels]float64{.05, .1, .25, .5, .75, .8, .9, .95, .99}

// Indices into Levels, for readers that want one of them.
const (
	L05 = iota
	L10
	L25
	L50
	L75
	L80
	L90
	L95
	L99
)

// Quantiles is a distribution by its quantiles at Levels; non-decreasing.
type Quantiles [NumLevels]float64

// At is the quantile at level tau: linear in tau between levels; below the first level linear to zero at tau = 0; above
// the last an exponential tail, with the slope of the last two levels in −ln(1−tau).
func (q *Quantiles) At(tau float64) float64 {
	switch {
	case tau <= 0:
		return 0
	case tau < Levels[0]:
		return q[0] * tau / Levels[0]
	case tau >= Levels[NumLevels-1]:
		return q[NumLevels-1] + q.tailSlope()*math.Log((1-Levels[NumLevels-1])/(1-math.Min(tau, maxLevel)))
	}
	i := 1
	for tau > Levels[i] {
		i++
	}
	f := (tau - Levels[i-1]) / (Levels[i] - Levels[i-1])
	return q[i-1] + f*(q[i]-q[i-1])
}

// maxLevel is the highest level of the tail.
const maxLevel = 0.9999

// tailSlope is the slope of the last two levels in −ln(1−tau).
func (q *Quantiles) tailSlope() float64 {
	const n = NumLevels
	return (q[n-1] - q[n-2]) / math.Log((1-Levels[n-2])/(1-Levels[n-1]))
}

// CDF is the level of x, the inverse of At; 0 for x < 0, and at most maxLevel. If several quantiles equal x, it is the
// middle of their levels, and at zero the middle of 0 and the highest one's. So PIT values stay uniform on average.
func (q *Quantiles) CDF(x float64) float64 {
	if !(x >= 0) {
		return 0
	}
	lo, hi := NumLevels, -1 // quantiles that equal x
	for i, v := range q {
		if v == x {
			lo, hi = min(lo, i), i
		}
	}
	switch {
	case x == 0 && hi >= 0: // the quantile at level 0 is 0, too
		return Levels[hi] / 2
	case hi > lo:
		return (Levels[lo] + Levels[hi]) / 2
	case x < q[0]:
		return Levels[0] * x / q[0]
	case x >= q[NumLevels-1]:
		slope := q.tailSlope()
		if slope <= 0 {
			return maxLevel
		}
		return math.Min(maxLevel, 1-(1-Levels[NumLevels-1])*math.Exp(-(x-q[NumLevels-1])/slope))
	}
	i := 1
	for x > q[i] {
		i++
	}
	f := (x - q[i-1]) / (q[i] - q[i-1])
	return Levels[i-1] + f*(Levels[i]-Levels[i-1])
}

// Sort makes q non-decreasing and non-negative. Rearranging crossed quantiles never raises the pinball loss
// (Chernozhukov, Fernández-Val and Galichon 2010, doi:10.3982/ECTA7880).
func (q *Quantiles) Sort() {
	for i := range q {
		if !(q[i] > 0) {
			q[i] = 0
		}
	}
	slices.Sort(q[:])
}

// rootQuantiles is a distribution by the square roots of its quantiles at Levels. The normal score of a value is the
// standard normal quantile of its level: linear between the quantiles and beyond the outermost ones.
type rootQuantiles [NumLevels]float32

// at is the square root of the quantile with normal score x. Quantiles that coincide count as minWidth apart.
func (a *rootQuantiles) at(x, minWidth float64) float64 {
	i := 0
	for i < NumLevels-2 && x > gaussian[i+1] {
		i++
	}
	return float64(a[i]) + a.width(i, minWidth)*(x-gaussian[i])/(gaussian[i+1]-gaussian[i])
}

// score is the inverse of at. A value that equals several quantiles has their middle score.
func (a *rootQuantiles) score(z, minWidth float64) float64 {
	lo, hi := a.around(z)
	if lo < hi {
		return (gaussian[lo] + gaussian[hi]) / 2
	}
	i := min(max(lo-1, 0), NumLevels-2)
	return gaussian[i] + (z-float64(a[i]))/a.width(i, minWidth)*(gaussian[i+1]-gaussian[i])
}

// scoreRange is the range of scores of z: wider than a point if several quantiles equal it. At zero it begins at −∞.
func (a *rootQuantiles) scoreRange(z, minWidth float64) (from, to float64) {
	switch lo, hi := a.around(z); {
	case lo >= hi:
		x := a.score(z, minWidth)
		return x, x
	case z == 0:
		return math.Inf(-1), gaussian[hi]
	default:
		return gaussian[lo], gaussian[hi]
	}
}

// around returns the index of the first quantile that is not below z, and of the last that is not above z.
func (a *rootQuantiles) around(z float64) (lo, hi int) {
	hi = NumLevels - 1
	for lo < NumLevels-1 && float64(a[lo]) < z {
		lo++
	}
	for hi > 0 && float64(a[hi]) > z {
		hi--
	}
	return lo, hi
}

// shift adds by to each quantile; NaN changes nothing.
func (a *rootQuantiles) shift(by float64) {
	if math.IsNaN(by) {
		return
	}
	for i := range a {
		a[i] = max(0, a[i]+float32(by))
	}
}

// width is the distance of quantiles i and i+1, at least minWidth.
func (a *rootQuantiles) width(i int, minWidth float64) float64 {
	return max(float64(a[i+1])-float64(a[i]), minWidth)
}
