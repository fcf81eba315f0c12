package forecaster

import "math"

// spread is how far a series strays from its ten-minute level on the square-root scale: exponentially weighted mean
// absolute deviations at three time scales, so that it rises within minutes of a burst and does not forget a noisy day.
// It sees a minute once that has settled: first counts of requests that are reported when they end may be next to
// nothing, and would leave no spread for errors to be measured in.
type spread struct {
	Deviation [3]float64
	Seen      float64
	Near, Day float64 // mean of ten minutes, and of a day
}

// spreadMinutes are the time constants of the deviations, spreadShare their part in the whole.
var (
	spreadMinutes = [3]float64{20, 90, 1440}
	spreadShare   = [3]float64{.4, .3, .3}
)

// priorDeviation is the deviation, relative to the level's root, that a series is taken to have before it has shown its
// own, and how many minutes that belief is worth.
const (
	priorDeviation = 0.3
	priorMinutes   = 10
)

// add counts y, the value of a settled minute; NaN counts for nothing.
func (s *spread) add(y float64) {
	if math.IsNaN(y) {
		return
	}
	if s.Seen > 0 {
		d := math.Abs(math.Sqrt(y) - math.Sqrt(s.Near))
		for i, tau := range spreadMinutes {
			s.Deviation[i] += math.Max(1/tau, 1/s.Seen) * (d - s.Deviation[i])
		}
	}
	s.Seen++
	s.Near += math.Max(1.0/10, 1/s.Seen) * (y - s.Near)
	s.Day += math.Max(1.0/1440, 1/s.Seen) * (y - s.Day)
}

// value is the spread of a series: positive, vanishing for a flat one. level stands in for the mean until a minute has
// settled.
func (s *spread) value(level float64) float64 {
	own := 0.0
	for i, share := range spreadShare {
		own += share * s.Deviation[i]
	}
	if s.Seen > 0 {
		level = s.Day
	}
	root := math.Sqrt(math.Max(level, 0))
	prior := priorDeviation * root
	w := priorMinutes / (priorMinutes + s.Seen)
	if s.Seen > 20*priorMinutes {
		w = 0
	}
	return math.Max(w*prior+(1-w)*own, 1e-7*root+1e-12)
}
