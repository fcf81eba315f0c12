package forecaster

import "math"

// spread is how far a series strays from its ten-minute level on the square-root scale: exponentially weighted mean
// absolute deviations at three time scales, so that it rises within minutes of a burst and does not forget a noisy day.
type spread struct {
	Deviation [3]float64
	Seen      float64
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

// add counts z, the root of the newest value, against the level before it.
func (s *spread) add(z, level float64) {
	if math.IsNaN(level) {
		return
	}
	d := math.Abs(z - level)
	for i, tau := range spreadMinutes {
		s.Deviation[i] += math.Max(1/tau, 1/(s.Seen+1)) * (d - s.Deviation[i])
	}
	s.Seen++
}

// value is the spread of a series with the given mean level: positive, vanishing for a flat series.
func (s *spread) value(level float64) float64 {
	own := 0.0
	for i, share := range spreadShare {
		own += share * s.Deviation[i]
	}
	root := math.Sqrt(math.Max(level, 0))
	prior := priorDeviation * root
	w := priorMinutes / (priorMinutes + s.Seen)
	if s.Seen > 20*priorMinutes {
		w = 0
	}
	return math.Max(w*prior+(1-w)*own, 1e-7*root+1e-12)
}
