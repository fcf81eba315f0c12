package pipeline

import (
	"fmt"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

const (
	// maxLeap, beside the lateness, is how far a record or watermark may move the event clock at once, unless
	// features.future_bound or features.revise allow more. Beyond it a time is taken for a mistake, unless jumpConfirm in a row agree, each
	// within jumpSpread of the one before: a real gap in the traffic. So sparse that none agree, rowConfirm in a row do.
	maxLeap     = 5 * time.Minute
	jumpConfirm = 8
	jumpSpread  = 10 * time.Minute
	rowConfirm  = 64
	// maxCatchUp is how much of a hole in time is ticked through minute by minute.
	maxCatchUp = 24 * time.Hour
	// patience is how long after it is due a watermark may come, before the stream's own time takes its place.
	patience = 2 * time.Minute
)

// timekeeper turns event times and promises into ticks. It never reads a clock. The first time it is told cannot be
// checked, and time never goes back: where that one lies in the future, what follows is late until the clock is reached.
type timekeeper struct {
	clock    Clock
	lateness time.Duration
	ahead    time.Duration // how far a record may lie beyond the stream's own time, on the event clock beyond the last tick

	timekeeperState
}

func newTimekeeper(c *Config) timekeeper {
	k := timekeeper{clock: c.Clock, lateness: c.Features.Lateness, ahead: c.Features.FutureBound}
	if c.Clock == EventClock {
		// A leap within the span that can still be amended loses nothing, even if it was a mistake.
		k.ahead = max(k.ahead, c.Features.Revise)
	}
	return k
}

type timekeeperState struct {
	Last   time.Time `cbor:"1,keyasint"` // newest tick
	Stream time.Time `cbor:"2,keyasint"` // on the wall clock, newest time at which the stream stored a message
	Jumps  int       `cbor:"3,keyasint"` // times in a row that lie too far ahead and agree
	Row    int       `cbor:"4,keyasint"` // times in a row that lie too far ahead, agreeing or not
	Jump   time.Time `cbor:"5,keyasint"` // the newest of those
	Live   bool      `cbor:"6,keyasint"` // on the wall clock, a watermark has come
}

// received notes when the stream stored a message. On the event clock that says nothing, and would make the state of two
// replays of one trace differ.
func (k *timekeeper) received(at time.Time) {
	if k.clock == WallClock && at.After(k.Stream) {
		k.Stream = at
	}
}

// overdue is the newest tick for which a watermark should have come by the time of the stream, zero on the event clock
// and before the first watermark. None comes while no daemon runs; telemetry that is stored meanwhile must not wait for
// the next one, which would find it hours ahead.
func (k *timekeeper) overdue() time.Time {
	if !k.Live || k.punctual() {
		return time.Time{}
	}
	return k.given()
}

// lateWatermark says that a watermark was stored long after its minute: the daemon had taken that step without the stream, which
// refused the watermark then.
func (k *timekeeper) lateWatermark(w *ingest.Watermark) bool {
	return k.clock == WallClock && w.Pool == "" && !w.At.After(k.given())
}

// punctual says that the stream's own time makes no tick due.
func (k *timekeeper) punctual() bool {
	return k.Stream.Sub(k.Last) < k.lateness+patience+features.Minute
}

// given is the newest tick that the stream's own time makes due.
func (k *timekeeper) given() time.Time {
	return k.Stream.Add(-k.lateness - patience).Truncate(features.Minute)
}

// plausible says whether a record or watermark may be of time t. On the wall clock the stream's own timestamps bound it;
// on the event clock only a leap is suspect.
func (k *timekeeper) plausible(t time.Time) bool {
	if k.clock == WallClock {
		return k.Stream.IsZero() || !t.After(k.Stream.Add(k.ahead))
	}
	if k.Last.IsZero() || !t.After(k.Last.Add(max(k.ahead, maxLeap+k.lateness))) {
		k.settle()
		return true
	}
	if t.Sub(k.Jump).Abs() > jumpSpread {
		k.Jumps = 0
	}
	k.Jumps++
	k.Row++
	k.Jump = t.UTC()
	if k.Jumps < jumpConfirm && k.Row < rowConfirm {
		return false
	}
	k.settle()
	return true
}

// settle forgets what lay too far ahead.
func (k *timekeeper) settle() { k.Jumps, k.Row, k.Jump = 0, 0, time.Time{} }

// byRecords says whether the records themselves move time: always on the event clock; on the wall clock until the first
// watermark, so that a past that is loaded into an empty state is learned minute by minute.
func (k *timekeeper) byRecords() bool { return k.clock == EventClock || !k.Live }

// event is the newest tick that a record of time t makes due; on the wall clock the newest minutes are left to watermarks.
func (k *timekeeper) event(t time.Time) time.Time {
	if !k.Last.IsZero() && (t.Sub(k.Last) < k.lateness+features.Minute || k.clock == WallClock && k.punctual()) {
		return time.Time{} // as nearly always, and cheaper than what follows
	}
	due := t.Add(-k.lateness).Truncate(features.Minute)
	if k.Last.IsZero() {
		// The first record starts the clock: its own minute is the first to end.
		k.Last = due
	}
	if k.clock == WallClock && due.After(k.given()) {
		return k.given()
	}
	return due
}

// promise is the newest tick that a watermark at t makes due: everything before t is in.
func (k *timekeeper) promise(t time.Time) time.Time {
	k.Live = k.clock == WallClock
	due := t.Truncate(features.Minute)
	if k.Last.IsZero() {
		k.Last = due.Add(-features.Minute)
	}
	return due
}

// next is the tick after the last one, zero when last is not beyond it.
func (k *timekeeper) next(last time.Time) time.Time {
	if !last.After(k.Last) {
		return time.Time{}
	}
	return k.Last.Add(features.Minute)
}

func (k *timekeeper) ticked(t time.Time) { k.Last = t }

// explain says for people why a record was refused.
func (p *Pipeline) explain(reason ingest.Reason, pool string, at time.Time) string {
	stamp := at.UTC().Format(time.RFC3339)
	if reason == ingest.ReasonUnknownPool && p.foreign(pool) {
		return fmt.Sprintf("pool %q belongs to another partition: name it in the subject of the message, which decides to which partition it goes", pool)
	}
	switch reason {
	case ingest.ReasonUnknownPool:
		return fmt.Sprintf("pool %q is not in the configuration: add it under pools, or set default_pool", pool)
	case ingest.ReasonFuture:
		return fmt.Sprintf("event time %s is too far in the future: set the producer's clock right", stamp)
	case ingest.ReasonLate:
		return fmt.Sprintf("event time %s is %s before the newest minute, and minutes are amended for %s: set the producer's clock right, publish sooner, or raise features.revise",
			stamp, p.time.Last.Sub(at).Round(time.Second), p.cfg.Features.Revise)
	case ingest.ReasonDuplicate:
		return "this id and attempt was counted before: it was sent twice, or the producer uses ids again"
	}
	return ""
}
