package model

import "math"

// Trend is exponential smoothing with a damped additive trend (Gardner and McKenzie 1985, doi:10.1287/mnsc.31.10.1237)
// on the square root of the series:
//
//	ℓ = α·z + (1−α)(ℓ + φ·b),  b = β(ℓ − ℓ₋) + (1−β)φ·b,  ẑ(h) = ℓ + (φ + … + φ^h)·b
//
// The square root stabilises the variance of rates whose variance grows with their mean. A minute that is not known
// carries the state forward along the damped trend. State: ℓ, b and whether they are set.
type Trend struct {
	Alpha, Beta, Phi float64

	level, slope float64
	set          bool
}

// Update smooths in the newest minute.
func (t *Trend) Update(h *History) {
	y := h.At(h.Newest)
	if !t.set {
		if !math.IsNaN(y) {
			t.level, t.slope, t.set = math.Sqrt(y), 0, true
		}
		return
	}
	was := t.level
	t.level += t.Phi * t.slope
	t.slope *= t.Phi
	if math.IsNaN(y) {
		return
	}
	t.level += t.Alpha * (math.Sqrt(y) - t.level)
	t.slope += t.Beta * (t.level - was - t.slope)
}

// Forecast extends the damped trend.
func (t *Trend) Forecast(_ *History, lead int) float64 {
	if !t.set {
		return math.NaN()
	}
	sum := t.Phi * (1 - math.Pow(t.Phi, float64(lead))) / (1 - t.Phi)
	return square(t.level + sum*t.slope)
}

// State is ℓ, b, and 1 once they are set.
func (t *Trend) State() []float64 {
	set := 0.0
	if t.set {
		set = 1
	}
	return []float64{t.level, t.slope, set}
}

// Restore takes over a State.
func (t *Trend) Restore(s []float64) bool {
	if len(s) != 3 {
		return false
	}
	t.level, t.slope, t.set = s[0], s[1], s[2] == 1
	return true
}
