package forecaster

import "math"

// Learning constants, picked on origins in the second third of eight public traces. Steps half and twice as long change no
// geometric mean by more than 0.2 %.
const (
	leanStep   = 0.2
	leanMemory = 3 * 1440 // outcomes whose gradients set the scale of a step
	leanYoung  = 720      // outcomes after which steps have half their length
	leanBack   = 0.1      // of a usual gradient, by which it goes back while nothing is won
)

// lean is how far the answer leans from the combination towards the last value, the baseline that is hardest to beat
// where nothing can be foreseen: the weight of the last value in each quantile, which follows the gradient of the pinball
// loss (online gradient descent on [0, 1]: Zinkevich 2003, ICML) in steps over the root of the squares of past gradients
// (Duchi, Hazan and Singer 2011, JMLR 12, 2121). Unlike a switch it comes and goes gradually, and half-way it is often
// better than either.
type lean struct {
	By      float32 // 0: not at all; 1: the last value answers
	Seen    float32 // outcomes
	Squares float64 // of gradients, fading
}

// toward is q as far towards the last value as it leans.
func (l *lean) toward(q, last *Quantiles) (out Quantiles) {
	by := float64(l.By)
	for i := range q {
		out[i] = q[i] + by*(last[i]-q[i])
	}
	return out
}

// learn takes outcome y of what the combination said, and of what the last value would have; scale is the series' usual
// size.
func (l *lean) learn(y, scale float64, q, last *Quantiles) {
	won := 0.0 // by leaning a little further, as far as the slope of the loss says
	for i, x := range l.toward(q, last) {
		slope := -Levels[i]
		if y < x {
			slope++
		}
		won -= slope * (last[i] - q[i]) / scale
	}
	l.Seen++
	l.Squares += won*won - l.Squares/leanMemory
	if l.Squares <= 0 {
		return
	}
	step := leanStep * float64(l.Seen) / (float64(l.Seen) + leanYoung)
	by := float64(l.By) + step*(won/math.Sqrt(l.Squares)-leanBack/math.Sqrt(leanMemory))
	l.By = float32(math.Max(0, math.Min(1, by)))
}

// most says whether the last value has the larger part in the answer.
func (l *lean) most() bool { return l.By > .5 }
