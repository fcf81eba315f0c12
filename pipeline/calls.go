package pipeline

import (
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// Marks in the Deduper, in addition to the records. No record has such a phase.
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

// register notes a record in seen, and returns what earlier records counted of its request and call. A duplicate is a
// second record of an arrival or of an end, however it ended. ended reports that the end was counted before this arrival.
// Without an id, the number of the attempt says whether its call was counted.
func (c *calls) register(r *ingest.Request, seen *ingest.Deduper) (before features.Earlier, duplicate, ended bool) {
	if r.ID == "" {
		return features.Earlier{CallCounted: r.Attempt > 1}, false, false
	}
	const arrival, end = ingest.PhaseArrived, ingest.PhaseFinished // the latter for all ends
	phase := end
	if r.Phase == arrival {
		phase = arrival
	}
	if seen.Seen(r.Pool, r.ID, r.Attempt, phase) {
		return before, true, false
	}
	known := func(attempt int, phase ingest.Phase) bool { return seen.Known(r.Pool, r.ID, attempt, phase) }
	if phase == arrival {
		if known(r.Attempt, end) {
			return before, false, true
		}
		c.Arrivals = true
		if r.PromptTokens >= 0 {
			seen.Seen(r.Pool, r.ID, r.Attempt, promptCounted)
		}
	} else if c.Arrivals {
		before.ArrivalCounted, before.PromptCounted = known(r.Attempt, arrival), known(r.Attempt, promptCounted)
	}
	switch {
	case c.Adopted && known(0, adopted):
		before.CallCounted = !known(r.Attempt, adopted)
	case r.Attempt > 1:
		counted := func(n int) bool { return known(n, arrival) || known(n, end) }
		before.CallCounted = before.ArrivalCounted || counted(1) // as at its arrival
		for n := r.Attempt - 1; n > max(1, r.Attempt-1-attemptsBack) && !before.CallCounted; n-- {
			before.CallCounted = counted(n)
		}
		if !before.CallCounted {
			c.Adopted = true
			seen.Seen(r.Pool, r.ID, 0, adopted)
			seen.Seen(r.Pool, r.ID, r.Attempt, adopted)
		}
	}
	return before, false, false
}
