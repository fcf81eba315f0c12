package forecaster

import "math"

// axis is a distribution by the square roots of its quantiles at Levels. A value has a standard normal score on it: the score
// of the level at which it lies, linear between the quantiles and beyond the outermost ones.
type axis [NumLevels]float32

// at is the square root of the quantile with standard normal score x. least is taken for the width between quantiles
// that coincide.
func (a *axis) at(x, least float64) float64 {
	i := 0
	for i < NumLevels-2 && x > gaussian[i+1] {
		i++
	}
	lo, width := a.segment(i, least)
	return lo + width*(x-gaussian[i])/(gaussian[i+1]-gaussian[i])
}

// score is the inverse of at. What coincides with several quantiles is in their middle.
func (a *axis) score(z, least float64) float64 {
	lo, hi := 0, NumLevels-1
	for lo < NumLevels-1 && float64(a[lo]) < z {
		lo++
	}
	for hi > 0 && float64(a[hi]) > z {
		hi--
	}
	if lo < hi {
		return (gaussian[lo] + gaussian[hi]) / 2
	}
	i := min(max(lo-1, 0), NumLevels-2)
	from, width := a.segment(i, least)
	return gaussian[i] + (z-from)/width*(gaussian[i+1]-gaussian[i])
}

// span is the range of scores that z stands for: more than one where several quantiles coincide with it, and at zero, which
// stands for all that is less.
func (a *axis) span(z, least float64) (from, to float64) {
	lo, hi := 0, NumLevels-1
	for lo < NumLevels-1 && float64(a[lo]) < z {
		lo++
	}
	for hi > 0 && float64(a[hi]) > z {
		hi--
	}
	if lo >= hi {
		x := a.score(z, least)
		return x, x
	}
	if z == 0 {
		return math.Inf(-1), gaussian[hi]
	}
	return gaussian[lo], gaussian[hi]
}

// move shifts a distribution; one that is not known shifts nothing.
func (a *axis) move(by float64) {
	if math.IsNaN(by) {
		return
	}
	for i := range a {
		a[i] = max(0, a[i]+float32(by))
	}
}

// segment is where the i-th segment begins, and how wide it is.
func (a *axis) segment(i int, least float64) (from, width float64) {
	from = float64(a[i])
	return from, max(float64(a[i+1])-from, least)
}
