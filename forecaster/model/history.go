// Package model holds the history of one series in little memory, and statistics of it: levels, moves, and the same
// time of earlier days by the pool's calendar.
//
// Pure: no clock, no log, no I/O. Invariants: minutes come in order; a missing minute (NaN) is skipped, never read as
// zero. Cost: O(1) per minute. Bounds: 5 KiB a series.
package model

import (
	"math"
	"slices"
	"time"
)

const (
	exactMinutes = 64      // the newest minutes, in full precision: they can still be amended
	ringMinutes  = 26 * 60 // covers the same time yesterday, with smoothing, also on a day of 25 hours
	binMinutes   = 30      // resolution of the last 8 days
	day          = 1440
	ringBins     = 8 * day / binMinutes // covers the same time last week
)

// History is the past of one series: the last 26 hours by the minute, the last 8 days by half hours, and averages at
// several time scales. Minutes count from the Unix epoch. An unknown minute is NaN and is left out of every mean.
// Minutes older than an hour, and bins, are kept in 16 bits: within 0.05 %.
type History struct {
	Newest int64 // the newest minute pushed; -1 before the first
	Known  int64 // number of known minutes ever pushed
	// Zone is the local time of seasons, nil for UTC; not part of the state.
	Zone *time.Location

	recent [exactMinutes]float32 // by minute mod exactMinutes
	ring   [ringMinutes]uint16   // compact values, by minute mod ringMinutes
	bins   [ringBins]uint16      // compact means, by bin mod ringBins
	levels [len(levelMinutes)]float64
	moves  moves
}

// levelMinutes are the time constants of the exponentially weighted levels.
var levelMinutes = [...]float64{10, 1440}

// Indices of History.Level.
const (
	Level10m = iota
	Level1d
)

// NewHistory returns an empty history.
func NewHistory() *History {
	h := &History{Newest: -1}
	copy(h.recent[:], slices.Repeat([]float32{nan32}, exactMinutes))
	copy(h.ring[:], slices.Repeat([]uint16{compactNaN}, ringMinutes))
	copy(h.bins[:], slices.Repeat([]uint16{compactNaN}, ringBins))
	return h
}

var nan32 = float32(math.NaN())

// Push appends minute m with value y (NaN: not known). Minutes come in ascending order; skipped minutes become unknown.
func (h *History) Push(m int64, y float64) {
	for s := max(h.Newest+1, m-ringMinutes); s < m; s++ {
		h.put(s, nan32)
	}
	for b := max(h.Newest/binMinutes+1, m/binMinutes-ringBins+1); b <= m/binMinutes; b++ {
		h.bins[b%ringBins] = compactNaN
	}
	h.Newest = m
	h.put(m, float32(y))
	if math.IsNaN(y) {
		return
	}
	h.setBin(m / binMinutes)
	for i, tau := range levelMinutes {
		// Weight 1/n while the level is younger than its time constant: a plain mean.
		w := max(1/tau, 1/float64(h.Known+1))
		h.levels[i] += w * (y - h.levels[i])
	}
	h.Known++
}

func (h *History) put(m int64, y float32) {
	h.recent[m%exactMinutes] = y
	h.ring[m%ringMinutes] = compact(y)
}

// setBin sets a bin to the mean of its minutes; the ring still holds all of them.
func (h *History) setBin(b int64) {
	h.bins[b%ringBins] = compact(float32(h.Mean(b*binMinutes, (b+1)*binMinutes-1)))
}

// Amend replaces the value of an earlier minute that the ring still holds. Levels change by the weight that the old
// value still has, as if all minutes since were known; a minute that was unknown enters with the weight that it would
// have by now.
func (h *History) Amend(m int64, y float64) {
	if m > h.Newest || m <= h.Newest-ringMinutes || math.IsNaN(y) {
		return
	}
	old, since := h.At(m), float64(h.Newest-m)
	if math.IsNaN(old) {
		h.Known++
	}
	for i, tau := range levelMinutes {
		if math.IsNaN(old) {
			w := max(math.Pow(1-1/tau, since)/tau, 1/float64(h.Known))
			h.levels[i] += w * (y - h.levels[i])
		} else {
			w := max(1/tau, 1/float64(h.Known))
			h.levels[i] = max(0, h.levels[i]+w*math.Pow(1-w, since)*(y-old))
		}
	}
	if m > h.Newest-exactMinutes {
		h.recent[m%exactMinutes] = float32(y)
	}
	h.ring[m%ringMinutes] = compact(float32(y))
	if b := m / binMinutes; b*binMinutes > h.Newest-ringMinutes {
		h.setBin(b)
	}
}

// At is the value of minute m; NaN if it is unknown or no longer kept. It is not instrumented by the race detector: it
// shares no memory, and tests would spend much of their time in it.
//
//go:norace
func (h *History) At(m int64) float64 {
	if m > h.Newest || m <= h.Newest-ringMinutes || m < 0 {
		return math.NaN()
	}
	if m > h.Newest-exactMinutes {
		return float64(h.recent[m%exactMinutes])
	}
	return float64(expand(h.ring[m%ringMinutes]))
}

// Last is the newest known value among the last five minutes; NaN if there is none.
func (h *History) Last() float64 {
	for m := h.Newest; m > h.Newest-5; m-- {
		if y := h.At(m); !math.IsNaN(y) {
			return y
		}
	}
	return math.NaN()
}

// Mean is that of the known minutes in [from, to]; NaN if there is none. O(to−from).
func (h *History) Mean(from, to int64) float64 {
	s, n := 0.0, 0.0
	for m := from; m <= to; m++ {
		if y := h.At(m); !math.IsNaN(y) {
			s += y
			n++
		}
	}
	return s / n
}

// Max is the largest known minute in [from, to]; NaN if there is none. O(to−from).
func (h *History) Max(from, to int64) float64 {
	best := math.NaN()
	for m := from; m <= to; m++ {
		if y := h.At(m); !math.IsNaN(y) && !(y <= best) {
			best = y
		}
	}
	return best
}

// LongMean is the mean of the known half hours among the newest n, the present one included; NaN if there is none. O(n).
func (h *History) LongMean(n int) float64 {
	sum, known := 0.0, 0.0
	for b := h.Newest / binMinutes; b > h.Newest/binMinutes-int64(n); b-- {
		if y := h.halfHour(b); !math.IsNaN(y) {
			sum += y
			known++
		}
	}
	return sum / known
}

// Around is the mean of the half hour around minute m, interpolated between bins; NaN if unknown or older than 8 days.
func (h *History) Around(m int64) float64 {
	from := m - binMinutes/2
	b, next := from/binMinutes, float64(from%binMinutes)/binMinutes
	y, z := h.halfHour(b), h.halfHour(b+1)
	switch {
	case math.IsNaN(y):
		return z
	case math.IsNaN(z):
		return y
	}
	return y + next*(z-y)
}

// halfHour is the mean of the known minutes of bin b; NaN if there is none, and outside the last 8 days.
func (h *History) halfHour(b int64) float64 {
	if b < 0 || b > h.Newest/binMinutes || b <= h.Newest/binMinutes-ringBins {
		return math.NaN()
	}
	return float64(expand(h.bins[b%ringBins]))
}

// DaysBefore is the minute with the same local time that many days before minute m: 1,440 minutes a day, and an hour
// less or more across a change of the clock. A local time that was skipped is taken an hour later; of one that came
// twice, either.
func (h *History) DaysBefore(m int64, days int) int64 {
	then := m - day*int64(days)
	return then + h.offset(m) - h.offset(then)
}

// offset is how many minutes local time is ahead of UTC in minute m.
func (h *History) offset(m int64) int64 {
	if h.Zone == nil {
		return 0
	}
	_, seconds := time.Unix(60*m, 0).In(h.Zone).Zone()
	return int64(seconds / 60)
}

// Level is the exponentially weighted mean with time constant i (Level10m …); NaN before the first known minute.
func (h *History) Level(i int) float64 {
	if h.Known == 0 {
		return math.NaN()
	}
	return h.levels[i]
}

// State has pointers to all that a snapshot keeps: values of fixed size.
func (h *History) State() []any {
	return []any{&h.Newest, &h.Known, h.recent[:], h.ring[:], h.bins[:], h.levels[:], &h.moves}
}

// A non-negative value in 16 bits: 6 bits of exponent and 10 of mantissa. The rounding error is at most one part in 2,048
// (0.05 %) between 2⁻²⁵ and 2³⁹. Values below 2⁻²⁵ become zero, values above 2³⁹ the largest. All bits set: not
// known. Codes have the order of values.
const (
	compactDrop = 13 // dropped bits of a float32's mantissa
	compactBias = (127 - 25) << 10
	compactMost = 0xfffe
	compactNaN  = 0xffff
)

// compact is the code of y, rounded to nearest, ties to even.
func compact(y float32) uint16 {
	if math.IsNaN(float64(y)) {
		return compactNaN
	}
	bits := math.Float32bits(max(y, 0))
	bits += 1<<(compactDrop-1) - 1 + bits>>compactDrop&1
	code := int32(bits>>compactDrop) - compactBias
	return uint16(min(max(code, 0), compactMost))
}

func expand(code uint16) float32 {
	switch code {
	case 0:
		return 0
	case compactNaN:
		return nan32
	}
	return math.Float32frombits((uint32(code) + compactBias) << compactDrop)
}
