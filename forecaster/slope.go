package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/forecaster/model"
	"github.com/forewarm/forewarm/forecaster/network"
)

const (
	slopePrior  = 20.0  // weight, as a sum of squares of x, of the prior slope 0
	slopeMemory = 600.0 // origins
	maxScore    = 3     // limit of scores, and of usual moves
	maxLast     = 1     // limit of the score of the last value: more of it would shift the tails after each burst
)

// slope is how far outcomes y follow a predictor x beside the network: the slope of a ridge regression through the
// origin with exponential forgetting, limited to 0…1.
type slope struct{ Squares, Products, Outcomes float32 }

func (l *slope) weight() float64 {
	return math.Max(0, math.Min(1, float64(l.Products)/(float64(l.Squares)+slopePrior)))
}

// minExplained is the share of the squares of y that x must explain to count.
const minExplained = 0.25

// provenWeight is the weight times the share of the squares of y that x explains beyond minExplained.
func (l *slope) provenWeight() float64 {
	if l.Outcomes <= 0 {
		return 0
	}
	explained := float64(l.Products) * float64(l.Products) / ((float64(l.Squares) + slopePrior) * float64(l.Outcomes))
	return l.weight() * math.Max(0, math.Min(1, (explained-minExplained)/(1-minExplained)))
}

func (l *slope) learn(x, y float64) {
	const keep = 1 - 1/slopeMemory
	x, y = max(-maxScore, min(maxScore, x)), max(-maxScore, min(maxScore, y))
	l.Squares = float32(keep*float64(l.Squares) + x*x)
	l.Products = float32(keep*float64(l.Products) + x*y)
	l.Outcomes = float32(keep*float64(l.Outcomes) + y*y)
}

// The last value is the hardest baseline without a pattern. x is its normal score in the network's distribution, y that
// of the outcome. The weight is 0 if the last value adds nothing to the network, 1 if outcomes stay at the last value.

// scoreOfLast is the normal score of the last value in a distribution.
func scoreOfLast(last float64, a *rootQuantiles, minWidth float64) float64 {
	return max(-maxLast, min(maxLast, a.score(last, minWidth)))
}

// Yesterday matters for series whose days are alike; the network, trained on others, gives it little weight. x is the
// distance from the network's median to where the series would be if it moved as yesterday from the same local time on, y
// that to the outcome. Both are in usual moves of the series, on the square-root scale.

// usualMove is the time scale of usual moves.
const usualMove = 2

// dayAgoMove is the distance of a target from the level, on the square-root scale, if the series moves as it did a day
// ago; NaN if that day is unknown.
func dayAgoMove(h *model.History, x network.Span) float64 {
	const near = 5 // minutes on either side of the mean of a minute
	then := h.DaysBefore(h.Newest, 1)
	level := math.Sqrt(h.Mean(then-2*near+1, then))
	if x.From < x.To {
		return math.Sqrt(h.Max(then+int64(x.From), then+int64(x.To))) - level
	}
	at := then + int64(x.To)
	return math.Sqrt(h.Mean(at-near, at+near)) - level
}

// floor is the least median, as a root, in a pool's first two hours, and its weight, which fades in the second hour.
// Long requests make demand rise after a start, and the network takes the rise for a burst. Classes that begin later
// have no floor: new services are often tried out and stopped. The floor is the level of the last quarter of the known
// minutes, limited by the largest of the last three minutes and the smaller of the last two.
func (s *series) floor() (root, share float64) {
	h := s.history
	if h.Known >= 2*coldMinutes || s.began {
		return 0, 0
	}
	span := int64(max(3, h.Known/4))
	level := h.Mean(h.Newest-span+1, h.Newest)
	a, b, c := h.At(h.Newest), h.At(h.Newest-1), h.At(h.Newest-2)
	if low := math.Min(a, b); low > level { // it rises
		level = low
	} else if high := math.Max(math.Max(a, b), c); high < level { // it falls
		level = high
	}
	if math.IsNaN(level) {
		level = h.Level(model.Level10m)
	}
	return math.Sqrt(level), math.Min(1, float64(2*coldMinutes-h.Known)/coldMinutes)
}

// raiseMedian raises a median to a floor. The tails stay, so demand may still fall or rise.
func raiseMedian(q *Quantiles, root, share float64) {
	rise := share * (root - math.Sqrt(q[L50]))
	if !(rise > 0) {
		return
	}
	for i, tau := range Levels {
		q[i] = unroot(math.Sqrt(q[i]) + rise*2*math.Min(tau, 1-tau))
	}
	q.Sort()
}
