package forecaster

import "math"

const (
	lastValuePrior  = 20.0  // origins' worth of belief that the network knows better
	lastValueMemory = 600.0 // origins that are remembered
	mostScore       = 3     // scores beyond count as this far
)

// lastValue is the weight of the last value beside the network, the baseline that is hardest to beat where nothing can be
// foreseen. x is the normal score of the last value in the network's distribution, y that of the outcome. The weight is the
// slope of a ridge regression of y on x with exponential forgetting, between 0 and 1: 0 where the network already has all
// that the last value says, 1 where outcomes stay at the last value.
type lastValue struct{ Squares, Products float32 }

func (l *lastValue) weight() float64 {
	return math.Max(0, math.Min(1, float64(l.Products)/(float64(l.Squares)+lastValuePrior)))
}

func (l *lastValue) learn(x, y float64) {
	const keep = 1 - 1/lastValueMemory
	y = max(-mostScore, min(mostScore, y))
	l.Squares = float32(keep*float64(l.Squares) + x*x)
	l.Products = float32(keep*float64(l.Products) + x*y)
}

// scoreOfLast is the score of the last value in a distribution.
func scoreOfLast(last float64, a *axis, least float64) float64 {
	return max(-mostScore, min(mostScore, a.score(last, least)))
}
