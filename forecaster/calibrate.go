package forecaster

import "math"

// calibrationStep is the step of quantile tracking, in units of the spread. Small, because the errors of h-minute-ahead
// forecasts made in consecutive minutes are far from independent.
const calibrationStep = 0.0005

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
// of zero is left alone: an outcome of zero says no more than that it may be right.
func (m *mixture) cover(y float64, published *Quantiles) {
	for i, tau := range Levels {
		if published[i] == 0 {
			continue
		}
		step := calibrationStep * tau
		if y <= published[i] {
			step = -calibrationStep * (1 - tau)
		}
		m.Shift[i] = math.Max(-2, math.Min(2, m.Shift[i]+step))
	}
}
