package pipeline

import "github.com/forewarm/forewarm/ingest"

const (
	// maxAdopted bounds the calls that are remembered to be counted at an attempt that was not their first; beyond it a
	// straggling first attempt counts as a call of its own.
	maxAdopted = 1 << 14
	// attemptsBack is how many earlier attempts of a call are looked for, beside the first.
	attemptsBack = 3
)

// calls tells attempts at calls that were counted from those that are demand. One user call is demand once for each pool
// that it comes to: at its first attempt, or, when no earlier one was seen, at the first that was.
type calls struct {
	// adopted are the calls that count at a later attempt: each by that attempt, and by attempt 0.
	adopted *ingest.Deduper
}

func newCalls() calls { return calls{ingest.NewDeduper(2 * maxAdopted)} }

// again says whether another attempt of the call that r belongs to has been counted. seen remembers the records that
// were counted, r among them. Attempts without an id go by their number.
func (c *calls) again(r *ingest.Request, seen *ingest.Deduper) bool {
	if r.ID == "" {
		return r.Attempt > 1
	}
	if c.adopted.Len() > 0 && c.adopted.Known(r.Pool, r.ID, 0, 0) {
		return !c.adopted.Known(r.Pool, r.ID, r.Attempt, 0)
	}
	if r.Attempt <= 1 {
		return false
	}
	if r.Phase != ingest.PhaseArrived && seen.Known(r.Pool, r.ID, r.Attempt, ingest.PhaseArrived) {
		return true // so it was said to be when it arrived
	}
	for n := r.Attempt - 1; n >= max(1, r.Attempt-attemptsBack); n-- {
		if attempted(r, n, seen) {
			return true
		}
	}
	if r.Attempt-attemptsBack > 1 && attempted(r, 1, seen) {
		return true
	}
	c.adopted.Seen(r.Pool, r.ID, 0, 0)
	c.adopted.Seen(r.Pool, r.ID, r.Attempt, 0)
	return false
}

// attempted says whether a record of the n-th attempt of r's call was counted.
func attempted(r *ingest.Request, n int, seen *ingest.Deduper) bool {
	for _, phase := range [...]ingest.Phase{ingest.PhaseFinished, ingest.PhaseArrived, ingest.PhaseRejected, ingest.PhaseCancelled} {
		if seen.Known(r.Pool, r.ID, n, phase) {
			return true
		}
	}
	return false
}
