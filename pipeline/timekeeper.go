package pipeline

import (
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

const (
	// maxLeap plus the lateness is how far a record or watermark may move the event clock at once, unless
	// features.future_bound or features.revise allow more. A time beyond it counts as an error, until leapConfirm times
	// in a row are beyond it: then there is a real gap in traffic.
	maxLeap     = 5 * time.Minute
	leapConfirm = 16
	// maxCatchUp is the part of a gap in time that is ticked minute by minute.
	maxCatchUp = 24 * time.Hour
	// watermarkGrace is how late a watermark may be before the stream's time replaces it.
	watermarkGrace = 2 * time.Minute
)

// timekeeper turns event times and watermarks into ticks. It never reads a clock. The first time cannot be checked, and
// time never goes back: if the first one is in the future, records are late until then. The exported fields are saved.
type timekeeper struct {
	clock    Clock
	lateness time.Duration
	ahead    time.Duration // how far a record may be ahead of the stream's time; on the event clock, of the last tick

	Last   time.Time `cbor:"1,keyasint"` // newest tick
	Stream time.Time `cbor:"2,keyasint"` // on the wall clock, newest time of storing a message
	Leaps  int       `cbor:"3,keyasint"` // consecutive times too far ahead
	Live   bool      `cbor:"4,keyasint"` // on the wall clock, a watermark was received
}

func newTimekeeper(c *Config) timekeeper {
	k := timekeeper{clock: c.Clock, lateness: c.Features.Lateness, ahead: c.Features.FutureBound}
	if c.Clock == EventClock {
		// A wrong leap within features.revise loses nothing: those minutes can still be amended.
		k.ahead = max(k.ahead, c.Features.Revise)
	}
	return k
}

// received records when the stream stored a message. The event clock ignores it, so replays of a trace are the same.
func (k *timekeeper) received(at time.Time) {
	if k.clock == WallClock && at.After(k.Stream) {
		k.Stream = at
	}
}

// overdue is the newest tick whose watermark is overdue by the stream's time; zero on the event clock and before the
// first watermark. While no daemon runs there are no watermarks, and telemetry must not wait hours for the next one.
func (k *timekeeper) overdue() time.Time {
	if !k.Live {
		return time.Time{}
	}
	return k.due(k.Stream, k.lateness+watermarkGrace)
}

// due is the newest tick at least delay before t, or the last one if that is newer.
func (k *timekeeper) due(t time.Time, delay time.Duration) time.Time {
	if t.Before(k.Last.Add(delay + features.Minute)) { // it holds for most messages, and Truncate is slow
		return k.Last
	}
	return t.Add(-delay).Truncate(features.Minute)
}

// lateWatermark reports whether a watermark was stored long after its minute: the stream refused it at that time, and
// the daemon ran the tick without it.
func (k *timekeeper) lateWatermark(w *ingest.Watermark) bool {
	return k.clock == WallClock && w.Pool == "" && !w.At.After(k.streamTick())
}

// streamTick is the newest tick that is due by the stream's time.
func (k *timekeeper) streamTick() time.Time {
	return k.Stream.Add(-k.lateness - watermarkGrace).Truncate(features.Minute)
}

// plausible reports whether a record or watermark may have time t. On the wall clock the stream's time is the bound. On
// the event clock only a leap is refused, and counted.
func (k *timekeeper) plausible(t time.Time) bool {
	if k.clock == WallClock {
		return k.Stream.IsZero() || !t.After(k.Stream.Add(k.ahead))
	}
	k.Leaps++
	if !k.Last.IsZero() && t.After(k.Last.Add(max(k.ahead, maxLeap+k.lateness))) && k.Leaps < leapConfirm {
		return false
	}
	k.Leaps = 0
	return true
}

// recordTick is the newest tick due by a record of time t; on the wall clock the newest minutes wait for watermarks.
func (k *timekeeper) recordTick(t time.Time) time.Time {
	due := k.due(t, k.lateness)
	if k.Last.IsZero() {
		// The first record starts the clock; its minute is the first to end.
		k.Last = due
	}
	if k.clock == WallClock && due.After(k.Last) && due.After(k.streamTick()) {
		return k.streamTick()
	}
	return due
}

// watermarkTick is the newest tick due by a watermark at t: everything before t has been received.
func (k *timekeeper) watermarkTick(t time.Time) time.Time {
	k.Live = k.clock == WallClock
	due := t.Truncate(features.Minute)
	if k.Last.IsZero() {
		k.Last = due.Add(-features.Minute)
	}
	return due
}
