package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/forecaster/model"
)

const (
	slopePrior  = 20.0  // sum of squares of x that the belief in the network is worth
	slopeMemory = 600.0 // origins that are remembered
	mostScore   = 3     // scores, and usual moves, beyond count as this far
)

// slope is how far outcomes follow something that is known beside the network: the slope of a ridge regression of y on x
// with exponential forgetting, between 0 and 1.
type slope struct{ Squares, Products, Outcomes float32 }

func (l *slope) weight() float64 {
	return math.Max(0, math.Min(1, float64(l.Products)/(float64(l.Squares)+slopePrior)))
}

// leastExplained is the share of the squares of outcomes that x must explain to count at all.
const leastExplained = 0.25

// proven is the weight, times the share of the squares of y that x explains beyond leastExplained: 0 where y follows x little.
func (l *slope) proven() float64 {
	if l.Outcomes <= 0 {
		return 0
	}
	explained := float64(l.Products) * float64(l.Products) / ((float64(l.Squares) + slopePrior) * float64(l.Outcomes))
	return l.weight() * math.Max(0, math.Min(1, (explained-leastExplained)/(1-leastExplained)))
}

func (l *slope) learn(x, y float64) {
	const keep = 1 - 1/slopeMemory
	x, y = max(-mostScore, min(mostScore, x)), max(-mostScore, min(mostScore, y))
	l.Squares = float32(keep*float64(l.Squares) + x*x)
	l.Products = float32(keep*float64(l.Products) + x*y)
	l.Outcomes = float32(keep*float64(l.Outcomes) + y*y)
}

// The last value is the baseline that is hardest to beat where nothing can be foreseen. x is its normal score in the network's
// distribution, y that of the outcome. The weight is 0 where the network already has all that the last value says, 1 where
// outcomes stay at the last value.

// scoreOfLast is the score of the last value in a distribution.
func scoreOfLast(last float64, a *axis, least float64) float64 {
	return max(-mostScore, min(mostScore, a.score(last, least)))
}

// Yesterday is what days that are alike repeat, which the network, trained on others, believes little. x is how far the
// network's median lies from where it would lie if the series moved as it did yesterday from the same time of the clock on, y how
// far the outcome lies from the median, both in usual moves of the series, on the square-root scale.

// usualMove is the memory of moves that says what is usual.
const usualMove = 2

// yesterdays is where the target of a forecast from the newest minute would lie above level, on the square-root scale, if
// the series moved as it did a day ago; NaN when that day is not known.
func yesterdays(h *model.History, x target) float64 {
	const near = 5 // minutes on either side that a minute is averaged over
	then := h.DayBefore(h.Newest)
	level := math.Sqrt(h.Mean(then-2*near+1, then))
	if x.from < x.to {
		return math.Sqrt(h.Max(then+int64(x.from), then+int64(x.to))) - level
	}
	at := then + int64(x.to)
	return math.Sqrt(h.Mean(at-near, at+near)) - level
}
