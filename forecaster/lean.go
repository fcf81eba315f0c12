package forecaster

import "math"

const (
	leanStep   = 0.1
	leanMemory = 3.0 * OriginsPerDay // origins whose gradients set the scale of a step
	leanYoung  = 12                  // origins after which steps have half their length
	leanBack   = 0.06                // of a usual gradient, by which the weight goes back while nothing is won
	leanOwn    = 0.3                 // part of a quantile's own gradient in its step; the rest is that of all
)

// lastWeight is the weight of the last value beside the model, the baseline that is hardest to beat where nothing can be
// foreseen. The weight in each quantile follows the gradient of the pinball loss (online gradient descent on [0, 1]:
// Zinkevich 2003, ICML) in steps over the root of the squares of past gradients (Duchi, Hazan and Singer 2011, JMLR 12,
// 2121): partly of that quantile, partly of all, because the loss of one is noisy. Where the model has clearly lost over
// days, the last value has the larger part.
type lastWeight struct {
	By      [NumLevels]float32 // 0: the model answers; 1: the last value does
	Squares [NumLevels]float32 // of gradients, fading
	Seen    float32            // origins
}

// learn takes outcome y of what the model and the last value said; size is the usual size of the series.
func (l *lastWeight) learn(y, size float64, model, last *Quantiles) {
	var won Quantiles // by a little more weight, as far as the slope of the loss says
	all := 0.0
	for i := range won {
		slope := -Levels[i]
		if y < model[i]+float64(l.By[i])*(last[i]-model[i]) {
			slope++
		}
		won[i] = -slope * (last[i] - model[i]) / size
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

// mix gives the last value its weight.
func mix(model, last *Quantiles, by *[NumLevels]float32) (q Quantiles) {
	for i := range q {
		q[i] = model[i] + float64(by[i])*(last[i]-model[i])
	}
	q.Sort()
	return q
}
