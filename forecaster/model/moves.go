package model

import "math"

// moves are statistics of how a series moves: the difference, on the square-root scale, between the mean of 15 minutes
// and the mean of the minutes 15 to 30 later. Exponentially weighted means over settled minutes.
type moves struct {
	Seen                           float64
	Square, Up, Down, Peak, PeakSq [len(moveMinutes)]float64
	// By season: the product of a move and the one of that season before, and the squares of the latter and of the former.
	Cross, Then, Now [len(repeatMinutes)][2]float64
	SeenThen         [2]float64
}

// Time constants of the means, in minutes.
var (
	moveMinutes   = [...]float64{90, 360, 1080, 5760}
	repeatMinutes = [...]float64{1080, 4320}
)

// Move is one time scale of a History's moves: root mean square, mean rise, mean fall, and the mean and standard
// deviation of the moves to the largest minute. In roots of the unit of the history.
type Move struct{ Size, Up, Down, Peak, PeakSD float64 }

// Numbers of time scales, short to long: of moves, and of their repetition.
const (
	NumMoves   = len(moveMinutes)
	NumRepeats = len(repeatMinutes)
)

// Seasons whose moves are compared with present ones.
const (
	DayAgo = iota
	WeekAgo
)

// Moves is the number of moves seen.
func (h *History) Moves() float64 { return h.moves.Seen }

// Move returns time scale i.
func (h *History) Move(i int) Move {
	m := &h.moves
	return Move{
		Size: math.Sqrt(m.Square[i]), Up: m.Up[i], Down: m.Down[i], Peak: m.Peak[i],
		PeakSD: math.Sqrt(max(0, m.PeakSq[i]-m.Peak[i]*m.Peak[i])),
	}
}

// Repeat compares moves with those a day or a week before, on time scale i: the slope of a regression through the
// origin, within ±2, and the correlation. Both are 0 if nothing is known.
func (h *History) Repeat(i, season int) (slope, correlation float64) {
	cross, then, now := h.moves.Cross[i][season], h.moves.Then[i][season], h.moves.Now[i][season]
	if !(then > 1e-12 && now > 1e-12) {
		return 0, 0
	}
	return max(-2, min(2, cross/then)), max(-1, min(1, cross/math.Sqrt(then*now)))
}

// Settle counts the move that ends with minute t, whose value is final. O(1).
func (h *History) Settle(t int64) {
	move, peak := h.moveTo(t)
	if math.IsNaN(move) {
		return
	}
	m := &h.moves
	m.Seen++
	for i, tau := range moveMinutes {
		w := max(1/tau, 1/m.Seen)
		m.Square[i] += w * (move*move - m.Square[i])
		m.Up[i] += w * (max(move, 0) - m.Up[i])
		m.Down[i] += w * (min(move, 0) - m.Down[i])
		m.Peak[i] += w * (peak - m.Peak[i])
		m.PeakSq[i] += w * (peak*peak - m.PeakSq[i])
	}
	yesterday, _ := h.moveTo(h.DaysBefore(t, 1))
	week := h.DaysBefore(t, 7)
	lastWeek := math.Sqrt(h.Around(week-8)) - math.Sqrt(h.Around(week-37)) // of half hours, which are kept for longer
	for season, then := range [...]float64{DayAgo: yesterday, WeekAgo: lastWeek} {
		if math.IsNaN(then) {
			continue
		}
		m.SeenThen[season]++
		for i, tau := range repeatMinutes {
			w := max(1/tau, 1/m.SeenThen[season])
			m.Cross[i][season] += w * (move*then - m.Cross[i][season])
			m.Then[i][season] += w * (then*then - m.Then[i][season])
			m.Now[i][season] += w * (move*move - m.Now[i][season])
		}
	}
}

// moveTo is the move that ends with minute t, and the move to the largest minute; NaN if unknown.
func (h *History) moveTo(t int64) (move, peak float64) {
	level := math.Sqrt(h.Mean(t-44, t-30))
	return math.Sqrt(h.Mean(t-15, t)) - level, math.Sqrt(h.Max(t-15, t)) - level
}
