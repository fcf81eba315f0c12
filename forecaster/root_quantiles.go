package forecaster

import "math"

// rootQuantiles is a distribution by the square roots of its quantiles at Levels. The normal score of a value is the
// standard normal quantile of its level: linear between the quantiles and beyond the outermost ones.
type rootQuantiles [NumLevels]float32

// at is the square root of the quantile with normal score x. Quantiles that coincide count as minWidth apart.
func (a *rootQuantiles) at(x, minWidth float64) float64 {
	i := 0
	for i < NumLevels-2 && x > gaussian[i+1] {
		i++
	}
	lo, width := a.segment(i, minWidth)
	return lo + width*(x-gaussian[i])/(gaussian[i+1]-gaussian[i])
}

// score is the inverse of at. A value that equals several quantiles has their middle score.
func (a *rootQuantiles) score(z, minWidth float64) float64 {
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
	from, width := a.segment(i, minWidth)
	return gaussian[i] + (z-from)/width*(gaussian[i+1]-gaussian[i])
}

// scoreRange is the range of scores of z: wider than a point if several quantiles equal it. At zero it begins at −∞.
func (a *rootQuantiles) scoreRange(z, minWidth float64) (from, to float64) {
	lo, hi := 0, NumLevels-1
	for lo < NumLevels-1 && float64(a[lo]) < z {
		lo++
	}
	for hi > 0 && float64(a[hi]) > z {
		hi--
	}
	if lo >= hi {
		x := a.score(z, minWidth)
		return x, x
	}
	if z == 0 {
		return math.Inf(-1), gaussian[hi]
	}
	return gaussian[lo], gaussian[hi]
}

// shift moves a distribution; NaN does nothing.
func (a *rootQuantiles) shift(by float64) {
	if math.IsNaN(by) {
		return
	}
	for i := range a {
		a[i] = max(0, a[i]+float32(by))
	}
}

// segment is the start and the width of segment i.
func (a *rootQuantiles) segment(i int, minWidth float64) (from, width float64) {
	from = float64(a[i])
	return from, max(float64(a[i+1])-from, minWidth)
}
