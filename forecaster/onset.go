package forecaster

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/forecaster/model"
)

const (
	onsetMinMinutes = 3   // minutes on either side of a change
	onsetShare      = 0.5 // of the variance that a change must explain
)

// onset is when a series rose to its present level: the split of the minutes from, …, to in two levels with the least
// squares (Hinkley 1970, Biometrika 57, 1), on the square-root scale; after a gap, the first known minute. The zero
// time if no split explains most of the change, or a straight line explains more. O(to − from).
func onset(h *model.History, from, to int64) time.Time {
	var n, sum, squares, minutes, minutesSquared, product float64
	for m := from; m <= to; m++ {
		if z := math.Sqrt(h.At(m)); !math.IsNaN(z) {
			t := float64(m - from)
			n++
			sum += z
			squares += z * z
			minutes += t
			minutesSquared += t * t
			product += t * z
		}
	}
	whole := squares - sum*sum/n
	if !(whole > 1e-9*squares) {
		return time.Time{}
	}
	slope := product - minutes*sum/n
	line := slope * slope / (minutesSquared - minutes*minutes/n)
	var at int64
	best, left, before := 0.0, 0.0, 0.0
	for m := from; m <= to; m++ {
		z := math.Sqrt(h.At(m))
		if math.IsNaN(z) {
			continue
		}
		after, right := n-before, sum-left
		if before >= onsetMinMinutes && after >= onsetMinMinutes && right/after > left/before {
			if gain := left*left/before + right*right/after - sum*sum/n; gain > best {
				best, at = gain, m
			}
		}
		before++
		left += z
	}
	if best < onsetShare*whole || best <= line {
		return time.Time{}
	}
	return time.Unix(60*at, 0).UTC()
}
