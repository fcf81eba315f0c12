package pipeline

import (
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// Marks beside the records in the Deduper. No record has such a phase.
const (
	promptCounted ingest.Phase = 0xff - iota // an attempt whose prompt counted at its arrival
	adopted                                  // a call that counts at a later attempt: by that attempt, and by attempt 0
)

// attemptsBack is the number of earlier attempts of a call that are looked up, besides the first.
const attemptsBack = 3

// calls counts a request once, by its records at arrival and at the end in either order. It counts a user's call once
// for each pool: at its first attempt, or, if no earlier attempt was seen, at the first seen one. Other attempts are not
// demand. What was counted is in the Deduper; a request that it forgot counts again.
type calls struct {
	Arrivals bool `cbor:"1,keyasint"` // a record at arrival was counted
	Adopted  bool `cbor:"2,keyasint"` // a call was adopted
}

// earlier is what earlier records counted of a request and its call. done reports that its end was counted. seen has the
// counted records, including r. Attempts without an id go by their number.
func (c *calls) earlier(r *ingest.Request, seen *ingest.Deduper) (e features.Earlier, done bool) {
	if r.ID == "" {
		return features.Earlier{Call: r.Attempt > 1}, false
	}
	known := func(attempt int, phase ingest.Phase) bool { return seen.Known(r.Pool, r.ID, attempt, phase) }
	if r.Phase == ingest.PhaseArrived {
		if attemptEnded(r.Attempt, known) {
			return e, true
		}
		c.Arrivals = true
		if r.PromptTokens >= 0 {
			seen.Seen(r.Pool, r.ID, r.Attempt, promptCounted)
		}
	} else if c.Arrivals {
		e.Arrival, e.Prompt = known(r.Attempt, ingest.PhaseArrived), known(r.Attempt, promptCounted)
	}
	switch {
	case c.Adopted && known(0, adopted):
		e.Call = !known(r.Attempt, adopted)
	case r.Attempt > 1:
		counted := func(n int) bool { return known(n, ingest.PhaseArrived) || attemptEnded(n, known) }
		e.Call = e.Arrival || counted(1) // as at its arrival
		for n := r.Attempt - 1; n > max(1, r.Attempt-1-attemptsBack) && !e.Call; n-- {
			e.Call = counted(n)
		}
		if !e.Call {
			c.Adopted = true
			seen.Seen(r.Pool, r.ID, 0, adopted)
			seen.Seen(r.Pool, r.ID, r.Attempt, adopted)
		}
	}
	return e, false
}

// attemptEnded reports whether a record of an attempt's end was counted.
func attemptEnded(n int, known func(attempt int, phase ingest.Phase) bool) bool {
	return known(n, ingest.PhaseFinished) || known(n, ingest.PhaseRejected) || known(n, ingest.PhaseCancelled)
}
