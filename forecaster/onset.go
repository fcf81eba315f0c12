package forecaster

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/forecaster/model"
)

const (
	onsetLeast = 3   // minutes that a level must have lasted on either side of a change
	onsetShare = 0.5 // of the variance that a change must explain to be one
)

// onset is when a series rose to the level it has now; after a hole, the first minute that is known again. The zero time when
// no one split explains most of what changed, or a straight line explains more. O(to − from).
func onset(h *model.History, from, to int64) time.Time {
	s, ok := splitOf(h.Came, from, to, onsetLeast, true)
	if !ok || s.gain < onsetShare*s.whole || s.gain <= s.line {
		return time.Time{}
	}
	return time.Unix(60*s.at, 0).UTC()
}

// split is the minute that begins the second of two levels, and the squares, of roots of minutes, that two levels and that a
// straight line explain, of those there are.
type split struct {
	at                int64
	gain, line, whole float64
}

// splitOf is the split of the minutes from, …, to in two levels that leaves the least squares (Hinkley 1970, Biometrika 57, 1),
// on the square-root scale; each level lasts for at least so many known minutes. False for a flat line. O(to − from).
func splitOf(at func(m int64) float64, from, to int64, least float64, rises bool) (s split, ok bool) {
	var n, sum, squares, minutes, minutesSquared, product float64
	for m := from; m <= to; m++ {
		if z := math.Sqrt(at(m)); !math.IsNaN(z) {
			t := float64(m - from)
			n++
			sum += z
			squares += z * z
			minutes += t
			minutesSquared += t * t
			product += t * z
		}
	}
	s.whole = squares - sum*sum/n
	if !(s.whole > 1e-9*squares) {
		return s, false
	}
	slope := product - minutes*sum/n
	s.line = slope * slope / (minutesSquared - minutes*minutes/n)
	left, before := 0.0, 0.0
	for m := from; m <= to; m++ {
		z := math.Sqrt(at(m))
		if math.IsNaN(z) {
			continue
		}
		after, right := n-before, sum-left
		if before >= least && after >= least && (!rises || right/after > left/before) {
			if gain := left*left/before + right*right/after - sum*sum/n; gain > s.gain {
				s.gain, s.at = gain, m
			}
		}
		before++
		left += z
	}
	return s, s.gain > 0
}
