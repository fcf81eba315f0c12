package pipeline

import "github.com/forewarm/forewarm/ingest"

const (
	// maxAdopted bounds the remembered calls that were counted at a later attempt. Beyond it, a first attempt that
	// comes late counts as a call of its own.
	maxAdopted = 1 << 14
	// attemptsBack is the number of earlier attempts of a call that are looked up, besides the first.
	attemptsBack = 3
)

// calls counts a user call once for each pool: at its first attempt, or, if no earlier attempt was seen, at the first
// seen one. Other attempts are not demand.
type calls struct {
	// adopted has the calls that count at a later attempt: each by that attempt, and by attempt 0.
	adopted *ingest.Deduper
}

func newCalls() calls { return calls{ingest.NewDeduper(2 * maxAdopted)} }

// alreadyCounted reports whether another attempt of r's call was counted. seen has the counted records, including r.
// Attempts without an id go by their number.
func (c *calls) alreadyCounted(r *ingest.Request, seen *ingest.Deduper) bool {
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
		return true // as at its arrival
	}
	for n := r.Attempt - 1; n >= max(1, r.Attempt-attemptsBack); n-- {
		if attemptCounted(r, n, seen) {
			return true
		}
	}
	if r.Attempt-attemptsBack > 1 && attemptCounted(r, 1, seen) {
		return true
	}
	c.adopted.Seen(r.Pool, r.ID, 0, 0)
	c.adopted.Seen(r.Pool, r.ID, r.Attempt, 0)
	return false
}

// attemptCounted reports whether a record of the n-th attempt of r's call was counted.
func attemptCounted(r *ingest.Request, n int, seen *ingest.Deduper) bool {
	for _, phase := range [...]ingest.Phase{ingest.PhaseFinished, ingest.PhaseArrived, ingest.PhaseRejected, ingest.PhaseCancelled} {
		if seen.Known(r.Pool, r.ID, n, phase) {
			return true
		}
	}
	return false
}
