package forewarm

import (
	"fmt"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

const (
	// maxJump is how far the event clock may leap at once. Beyond it a time is taken for a mistake, unless jumpConfirm
	// records in a row agree on it: a real gap in the traffic.
	maxJump     = 6 * time.Hour
	jumpConfirm = 8
	// maxCatchUp is how much of a hole in time is ticked through minute by minute.
	maxCatchUp = 24 * time.Hour
	// patience is how long after it is due a watermark may come, before the stream's own time takes its place.
	patience = 2 * time.Minute
)

// timekeeper turns event times and promises into ticks. It never reads a clock.
type timekeeper struct {
	clock    Clock
	lateness time.Duration
	ahead    time.Duration // how far beyond the stream's own time a record may lie, on the wall clock

	timekeeperState
}

type timekeeperState struct {
	Last   time.Time `cbor:"1,keyasint"` // newest tick
	Stream time.Time `cbor:"2,keyasint"` // on the wall clock, newest time at which the stream stored a message
	Jumps  int       `cbor:"3,keyasint"` // records in a row that lie beyond maxJump
}

// received notes when the stream stored a message. On the event clock that says nothing, and would make the state of two
// replays of one trace differ.
func (k *timekeeper) received(at time.Time) {
	if k.clock == WallClock && at.After(k.Stream) {
		k.Stream = at
	}
}

// overdue is the newest tick for which a watermark should have come by the time of the stream, zero on the event clock.
// None comes while no daemon runs; telemetry that is stored meanwhile must not wait for the next one, which would find
// it hours ahead.
func (k *timekeeper) overdue() time.Time {
	if k.clock != WallClock || k.Stream.IsZero() {
		return time.Time{}
	}
	at := k.Stream.Add(-k.lateness)
	if k.Last.IsZero() {
		k.Last = at.Truncate(features.Minute).Add(-features.Minute)
	}
	return at.Add(-patience).Truncate(features.Minute)
}

// plausible says whether a record may be of time t. On the wall clock the stream's own timestamps bound it; on the event
// clock only a leap is suspect.
func (k *timekeeper) plausible(t time.Time) bool {
	if k.clock == WallClock {
		return k.Stream.IsZero() || !t.After(k.Stream.Add(k.ahead))
	}
	if k.Last.IsZero() || !t.After(k.Last.Add(maxJump)) {
		k.Jumps = 0
		return true
	}
	k.Jumps++
	if k.Jumps < jumpConfirm {
		return false
	}
	k.Jumps = 0
	return true
}

// event is the newest tick that a record of time t makes due.
func (k *timekeeper) event(t time.Time) time.Time {
	due := t.Add(-k.lateness).Truncate(features.Minute)
	if k.Last.IsZero() {
		// The first record starts the clock: its own minute is the first to end.
		k.Last = due
	}
	return due
}

// promise is the newest tick that a watermark at t makes due: everything before t is in.
func (k *timekeeper) promise(t time.Time) time.Time {
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
	switch reason {
	case ingest.ReasonUnknownPool:
		return fmt.Sprintf("pool %q is not in the configuration: add it under pools, or set default_pool", pool)
	case ingest.ReasonFuture:
		return fmt.Sprintf("event time %s is too far ahead of the stream: check the producer's clock", stamp)
	case ingest.ReasonLate:
		return fmt.Sprintf("event time %s is before the minutes that can still be amended (last tick %s, features.revise %s)",
			stamp, p.time.Last.UTC().Format(time.RFC3339), p.cfg.Features.Revise)
	case ingest.ReasonDuplicate:
		return "this id and attempt was counted before"
	}
	return ""
}
