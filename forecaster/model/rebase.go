package model

import (
	"math"
	"slices"
)

// Change is a change of level that is taken to be for good: what came before Minute is read as if the level had always been
// what it is now. So seasons keep their shape, and spreads and empirical errors have the size that they have at the present
// level. What is kept stays as it came, and Came reads it.
type Change struct {
	Minute int64   `cbor:"1,keyasint"`
	Ratio  float64 `cbor:"2,keyasint"` // of levels
	// Noise is the ratio of how far the roots of minutes stray from the root of the level: the root of Ratio where noise grows
	// with the level, 1 where requests are independent.
	Noise float64 `cbor:"3,keyasint"`
}

// maxChanges bounds the changes that are in force. A level that changes more often than daily has none to stay at.
const maxChanges = 8

// changeBack is how nearly a change must be undone by another, as a share of its logarithm, for both to be taken back.
const changeBack = 0.35

// Changes are those that are in force, oldest first.
func (h *History) Changes() []Change { return h.changes }

// Rebase takes the level to have changed with a minute, one of those kept, that comes after all earlier changes. A change back
// to what was before the last one takes that back, in place of adding another. O(minutes kept); false when there are too
// many.
func (h *History) Rebase(c Change) bool {
	h.drop()
	touched := []int64{c.Minute}
	if n := len(h.changes); n > 0 && math.Abs(math.Log(c.Ratio*h.changes[n-1].Ratio)) <= changeBack*math.Abs(math.Log(h.changes[n-1].Ratio)) {
		touched = append(touched, h.changes[n-1].Minute)
		h.changes = h.changes[:n-1]
	} else if n >= maxChanges {
		return false
	} else {
		h.changes = append(h.changes, c)
	}
	for _, m := range touched {
		if b := m / binMinutes; b*binMinutes > h.Newest-ringMinutes {
			h.bins.set(b%ringBins, h.bins.at((b-1)%ringBins)) // the level before the change
			h.bin(b)
		}
	}
	h.levels = h.Before(h.Newest).levels
	h.revision++
	return true
}

// drop forgets changes that nothing kept is older than.
func (h *History) drop() {
	oldest := (h.Newest/binMinutes - ringBins + 1) * binMinutes
	h.changes = slices.DeleteFunc(h.changes, func(c Change) bool { return c.Minute <= oldest })
}

// since is what has changed since minute m: the ratios of the level and of the noise.
func (h *History) since(m int64) (ratio, noise float64) {
	ratio, noise = 1, 1
	for i := len(h.changes) - 1; i >= 0 && m < h.changes[i].Minute; i-- {
		ratio *= h.changes[i].Ratio
		noise *= h.changes[i].Noise
	}
	return ratio, noise
}

// rebased is the value of minute m, which came as y, at the present level: how far its root is from that of its ten minutes'
// level is scaled by the noise.
func (h *History) rebased(m int64, y float64) float64 {
	ratio, noise := h.since(m)
	if ratio == 1 && noise == 1 {
		return y
	}
	level := math.Sqrt(float64(h.bins.at(m / binMinutes % ringBins)))
	if math.IsNaN(level) {
		return y * ratio
	}
	return square(math.Sqrt(ratio)*level + noise*(math.Sqrt(y)-level))
}

// Came is the value of minute m as it came, NaN when it is not known or no longer kept.
func (h *History) Came(m int64) float64 {
	if !h.started || m > h.Newest || m <= h.Newest-ringMinutes || m < 0 {
		return math.NaN()
	}
	if m > h.Newest-exactMinutes {
		return float64(h.recent[m%exactMinutes])
	}
	return float64(h.ring.at(m % ringMinutes))
}

// MeanCame averages the known minutes in [from, to] as they came; NaN when there is none. O(to−from).
func (h *History) MeanCame(from, to int64) float64 {
	s, n := 0.0, 0
	for m := from; m <= to; m++ {
		if y := h.Came(m); !math.IsNaN(y) {
			s += y
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return s / float64(n)
}
