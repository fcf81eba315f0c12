package forecaster

import "math"

// Learning constants, picked on origins in the second third of eight public traces and on random walks, where nothing is to
// be foreseen. Steps twice as long, or more of each quantile's own gradient, cost 0.5 % and more on counts by ten minutes.
const (
	leanStep   = 0.1
	leanMemory = 3 * 1440 // outcomes whose gradients set the scale of a step
	leanYoung  = 60       // outcomes after which steps have half their length
	leanBack   = 0.06     // of a usual gradient, by which it goes back while nothing is won
	leanOwn    = 0.3      // part of a quantile's own gradient in its step; the rest is that of all
)

// lean is how far the answer leans from the combination towards the last value, the baseline that is hardest to beat
// where nothing can be foreseen: the weight of the last value in each quantile, which follows the gradient of the pinball
// loss (online gradient descent on [0, 1]: Zinkevich 2003, ICML) in steps over the root of the squares of past gradients
// (Duchi, Hazan and Singer 2011, JMLR 12, 2121): partly of that quantile, partly of all, for the loss of one is noisy.
// Unlike a switch it comes and goes gradually, and half-way it is often better than either.
type lean struct {
	By      figures // 0: not at all; 1: the last value answers
	Seen    float32 // outcomes
	Squares figures // of gradients, fading
}

// leans are the lean of a series that is not silent, and that of one that is: what comes after silence is foreseen in another
// way (silences), and may be foreseen badly where the rest is foreseen well.
type leans [2]lean

// of is the lean that holds after so many quiet minutes.
func (l *leans) of(quiet float32) *lean {
	if quiet > 0 {
		return &l[1]
	}
	return &l[0]
}

// learn takes outcome y of what was said after so many quiet minutes, as lean.learn does.
func (l *leans) learn(quiet float32, y, scale float64, q, last *Quantiles) {
	l.of(quiet).learn(y, scale, q, last)
}

// toward is q as far towards the last value as it leans.
func (l *lean) toward(q, last *Quantiles) (out Quantiles) {
	for i := range q {
		out[i] = q[i] + float64(l.By[i])*(last[i]-q[i])
	}
	return out
}

// learn takes outcome y of what the combination said, and of what the last value would have; scale is the series' usual
// size.
func (l *lean) learn(y, scale float64, q, last *Quantiles) {
	var won Quantiles // by leaning a little further, as far as the slope of the loss says
	all := 0.0
	for i, x := range l.toward(q, last) {
		slope := -Levels[i]
		if y < x {
			slope++
		}
		won[i] = -slope * (last[i] - q[i]) / scale
		all += won[i]
	}
	l.Seen++
	step := leanStep * float64(l.Seen) / (float64(l.Seen) + leanYoung)
	for i, own := range won {
		gain := leanOwn*NumLevels*own + (1-leanOwn)*all
		squares := (1-1/leanMemory)*float64(l.Squares[i]) + gain*gain
		l.Squares[i] = float32(squares)
		if squares > 0 {
			by := float64(l.By[i]) + step*(gain/math.Sqrt(squares)-leanBack/math.Sqrt(leanMemory))
			l.By[i] = float32(math.Max(0, math.Min(1, by)))
		}
	}
}

// most says whether the last value has the larger part in the median.
func (l *lean) most() bool { return l.By[L50] > .5 }
