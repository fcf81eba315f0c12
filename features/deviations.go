package features

import "math"

// scoredAges is how many ages of a minute have deviations of their own: the newest, the one before, and all that are
// older together, scored at the first of them.
const scoredAges = 3

// deviations are what the errors of nowcasts were, in units of the standard deviation that the model gave them: their
// mean square, and the quantiles between which 90 % of them lay.
type deviations struct {
	Square float32 `cbor:"1,keyasint"`
	Low    float32 `cbor:"2,keyasint"` // 5 %
	High   float32 `cbor:"3,keyasint"` // 95 %
	Scored float32 `cbor:"4,keyasint"`
}

// misses are the deviations of one age, kept apart for minutes from which much is missing, and from which so little is
// that it may well be nothing: there no bound above the count can be missed in one case of twenty, the interval begins
// with the count, and High is the 90 % quantile.
type misses struct {
	Many deviations `cbor:"1,keyasint"`
	Few  deviations `cbor:"2,keyasint"`
}

const (
	fewSteps       = 3 // e⁻³ is 5 %
	normal95       = 1.6449
	normal90       = 1.2816
	deviationGain  = 1.0 / 300 // memory, in minutes that were scored
	deviationStart = 20        // how many minutes the normal distribution is worth at the start
	deviationDense = 9.7       // inverse density of the normal distribution at its 5 % quantile
	deviationBound = 5         // an error counts for no more in the mean square
	scoredFrom     = 0.25      // records; smaller nowcasts say nothing of larger ones
)

func newMisses() misses {
	return misses{Many: deviations{Square: 1, Low: -normal95, High: normal95}, Few: deviations{Square: 1, High: normal90}}
}

// score takes the error of one more nowcast, divided by the standard deviation that was given with it. The mean square
// is averaged; the quantiles move against each miss, so that in the long run they are missed as often as they should be,
// whatever the distribution (Robbins and Monro 1951, doi:10.1214/aoms/1177729586; as conformal quantile tracking in
// Angelopoulos, Candès and Tibshirani 2023, arXiv:2307.16895).
func (e *misses) score(z float64, few bool) {
	if few {
		e.Few.High = track(e.Few.High, z, .9, e.Few.learn(z))
		return
	}
	gain := e.Many.learn(z)
	e.Many.Low = track(e.Many.Low, z, .05, gain)
	e.Many.High = track(e.Many.High, z, .95, gain)
}

// learn averages the square of an error, and gives its weight.
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
