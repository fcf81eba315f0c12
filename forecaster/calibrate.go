package forecaster

import "math"

// calibrationStep is the step of quantile tracking, in units of the spread. Small, because the errors of h-minute-ahead
// forecasts made in consecutive minutes are far from independent.
const calibrationStep = 0.0005

// placeStep is the step by which all levels move together. Tails see too little in the hours after a level shift; that a
// distribution lies too high or too low shows in all levels. Picked on origins in the second third of six public traces
// and on planted shifts: four times as long brings maxima after a fall nearer their level, and costs 1 to 3 %; this one costs
// nothing to 0.8 %.
const placeStep = 0.005

// calibrate shifts a combined distribution by what past coverage calls for.
func (m *mixture) calibrate(q Quantiles, spread float64) Quantiles {
	for i := range q {
		q[i] = unroot(math.Sqrt(q[i]) + spread*m.Shift[i])
	}
	q.Sort()
	return q
}

// cover takes outcome y of the published quantiles and moves each level's shift up when y was above it and down when it
// was not, so that in the long run level tau covers tau of the outcomes whatever the process does: conformal quantile
// tracking (Gibbs and Candès 2021, arXiv:2106.00170; Angelopoulos, Candès and Tibshirani 2023, arXiv:2307.16895, §2.2). A quantile
// of zero is left alone: an outcome of zero says no more than that it may be right. Of a steady series, one that hardly has
// minutes without anything, all levels also move together, by the mean over the levels; where that
// rests, each level does.
func (m *mixture) cover(y float64, published *Quantiles, steady bool) {
	all := 0.0
	if steady {
		for i, tau := range Levels {
			all += placeStep / NumLevels * (tau - count(y <= published[i]))
		}
	}
	for i, tau := range Levels {
		if published[i] == 0 {
			continue
		}
		step := calibrationStep * (tau - count(y <= published[i]))
		m.Shift[i] = math.Max(-2, math.Min(2, m.Shift[i]+step+all))
	}
}

// count is 1 for what is so.
func count(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
