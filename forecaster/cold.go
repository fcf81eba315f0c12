package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/forecaster/model"
)

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
