package features

import "math"

// scoredAges is the number of ages with their own deviations: the newest, the one before, and all older ones together,
// scored at the first of them.
const scoredAges = 3

// deviations describe the errors of nowcasts in units of the model's standard deviation: the mean square, and the
// quantiles between which 90 % of them lie.
type deviations struct {
	Square float32 `cbor:"1,keyasint"`
	Low    float32 `cbor:"2,keyasint"` // 5 %
	High   float32 `cbor:"3,keyasint"` // 95 %
	Scored float32 `cbor:"4,keyasint"`
}

// ageErrors are the deviations of one age: Many for minutes with much missing, Few for minutes with so little missing
// that it may be nothing. For Few no lower bound above the count can hold in 19 of 20 cases. So the interval begins at
// the count, and High is the 90 % quantile.
type ageErrors struct {
	Many deviations `cbor:"1,keyasint"`
	Few  deviations `cbor:"2,keyasint"`
}

const (
	fewSteps       = 3 // e⁻³ is 5 %
	normal95       = 1.6449
	normal90       = 1.2816
	deviationGain  = 1.0 / 300 // one over the memory in scored minutes
	deviationStart = 20        // weight of the normal distribution at the start, in minutes
	deviationDense = 9.7       // inverse density of the normal distribution at its 5 % quantile
	deviationBound = 5         // larger errors are clipped in the mean square
	scoredFrom     = 0.25      // records; smaller nowcasts are not scored
)

func newAgeErrors() ageErrors {
	return ageErrors{Many: deviations{Square: 1, Low: -normal95, High: normal95}, Few: deviations{Square: 1, High: normal90}}
}

// score adds the error of one nowcast, divided by its standard deviation. The mean square is averaged. Each quantile
// moves towards an error beyond it, so that in the long run it has its nominal coverage for any distribution (Robbins
// and Monro 1951, doi:10.1214/aoms/1177729586; conformal quantile tracking, Angelopoulos, Candès and Tibshirani 2023,
// arXiv:2307.16895).
func (e *ageErrors) score(z float64, few bool) {
	if few {
		e.Few.High = track(e.Few.High, z, .9, e.Few.learn(z))
		return
	}
	gain := e.Many.learn(z)
	e.Many.Low = track(e.Many.Low, z, .05, gain)
	e.Many.High = track(e.Many.High, z, .95, gain)
}

// learn averages the square of an error and returns its weight.
func (v *deviations) learn(z float64) (gain float64) {
	v.Scored++
	gain = math.Max(deviationGain, 1/(float64(v.Scored)+deviationStart))
	square := float64(v.Square)
	v.Square = float32(square + gain*(math.Min(z*z, deviationBound*deviationBound)*square-square))
	return gain
}

func track(quantile float32, z, level, gain float64) float32 {
	step := gain * deviationDense
	if z < float64(quantile) {
		return quantile - float32(step*(1-level))
	}
	return quantile + float32(step*level)
}
