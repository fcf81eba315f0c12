package features

import (
	"github.com/forewarm/forewarm/ingest"
)

// AddRequest counts one record of a request, "" says it was counted. The caller has checked that the pool is known,
// that the record is no duplicate and not ahead of the clock.
//
// A request counts once, in the minute of its arrival, whatever becomes of it. Where a producer also sends a record at
// arrival (ingest.PhaseArrived), that one counts the request and its prompt, and the later record with the same id and
// attempt adds the rest; either may come first. Retries (attempt > 1) count as Retries only, but their tokens load the
// pool and are counted as tokens.
//
// Output tokens are booked in the minutes that generated them when the times of the first and the last token are known;
// of those minutes, settled ones go to the oldest open one. Otherwise they are booked in the minute of arrival, or when
// that is settled, of the end.
//
// Refusals: ReasonLate when its minute is settled, ReasonFuture beyond the open span, ReasonDuplicate for a second end
// or arrival, ReasonMissingField for an arrival without id, which no end could be joined to.
func (a *Aggregator) AddRequest(r *ingest.Request) ingest.Reason {
	t := momentsOf(r)
	minute := t.event.minute()
	a.begin(minute)
	seen, hash, reason := a.seen(r)
	if reason != "" {
		return reason
	}
	if seen == nil {
		reason = a.refuse(minute)
	} else if seen.Ended { // an arrival that was overtaken by its end: all of it is counted
		return ""
	} else if minute = seen.Minute; max(minute, t.finished.minute()) < a.oldest() {
		reason = a.refuse(minute)
	}
	if reason != "" {
		return reason
	}
	a.counters.Requests++
	if minute < a.open {
		a.counters.Amended++
	}

	p := a.pool(r.Pool)
	c := a.class(p, r.Class, minute)
	entry := arrival{Hash: hash, Minute: minute}
	if seen == nil {
		a.evidence(p, minute, t.event)
		countArrival(c, a.cell(c, minute), r)
	} else {
		seen.Ended = true
		entry = *seen
	}
	w := a.cell(c, max(minute, a.oldest()))
	if minute >= a.oldest() || !entry.Prompt { // cached tokens are taken off the minute that has the prompt, or not at all
		a.countPrompt(c, w, r, &entry)
	}
	if r.Phase == ingest.PhaseArrived {
		p.phased = true
	} else {
		entry.Ended = true
		a.countEnd(p, c, w, r, &t)
	}
	if seen == nil && p.phased && r.ID != "" && a.arrivals.add(entry) {
		a.counters.ArrivalsEvicted++
	}
	return ""
}

// seen looks a request up among those that were counted before, in pools that send records at arrival.
func (a *Aggregator) seen(r *ingest.Request) (seen *arrival, hash uint64, reason ingest.Reason) {
	arrived := r.Phase == ingest.PhaseArrived
	if p := a.known(r.Pool); !arrived && (p == nil || !p.phased) {
		return nil, 0, ""
	}
	if r.ID == "" {
		if arrived {
			return nil, 0, ingest.ReasonMissingField
		}
		return nil, 0, ""
	}
	hash = arrivalHash(r)
	if seen = a.arrivals.find(hash); seen != nil && seen.Ended != arrived {
		return nil, 0, ingest.ReasonDuplicate
	}
	return seen, hash, ""
}

func countArrival(c *class, w *cell, r *ingest.Request) {
	c.reports |= ReportsRequests | ReportsAttempts
	w.Records++
	w.Attempts++
	w.RequestsKnown++
	if r.Attempt > 1 {
		w.Retries++
	} else {
		w.Requests++
	}
}

// countPrompt counts prompt and cached tokens that have not been counted yet. Cached tokens say nothing without the
// prompt they are part of.
func (a *Aggregator) countPrompt(c *class, w *cell, r *ingest.Request, done *arrival) {
	if r.PromptTokens < 0 {
		return
	}
	prompt := float64(r.PromptTokens)
	if !done.Prompt {
		done.Prompt = true
		c.reports |= ReportsPrompt
		w.PromptKnown++
		w.PromptTokens += prompt
		a.measure(w, shapePrompt, prompt)
		a.weigh(c, r, prompt)
	}
	if !done.Cached && r.CachedTokens >= 0 {
		done.Cached = true
		cached := min(float64(r.CachedTokens), prompt)
		c.reports |= ReportsCached
		w.CachedKnown++
		w.CachedTokens += cached
		w.PromptOfCachedKnown += prompt
		if prompt > 0 {
			a.measure(w, shapeCachedShare, cached/prompt)
		}
	}
}

// countEnd counts what is known of a request when it is over: w is the minute of its arrival, or the oldest open one.
func (a *Aggregator) countEnd(p *pool, c *class, w *cell, r *ingest.Request, t *moments) {
	switch {
	case r.Phase == ingest.PhaseRejected || r.Status == ingest.StatusRejected:
		w.Rejected++
		return // it was never served
	case r.Phase == ingest.PhaseCancelled || r.Status == ingest.StatusCancelled:
		w.Cancelled++
	}
	a.countDelay(w, shapeTTFT, t.arrived, t.first, 1)
	a.countDelay(w, shapeQueueWait, t.arrived, t.started, 1)
	a.countDelay(w, shapeITL, t.first, t.finished, r.OutputTokens-1)

	l, timed := lifeOf(r, t, p.service)
	if !timed && l.contradictory {
		a.counters.BadTimes++
	}
	if r.OutputTokens >= 0 {
		c.reports |= ReportsOutput
		w.OutputKnown++
		a.measure(w, shapeOutput, float64(r.OutputTokens))
		a.weigh(c, r, float64(r.OutputTokens))
		a.generate(c, w, r, t, &l, timed)
	}
	if r.OutputTokens >= 0 && r.PromptTokens >= 0 {
		w.Moments.Add(float64(r.PromptTokens), float64(r.OutputTokens))
		c.moments.Add(float64(r.PromptTokens), float64(r.OutputTokens))
		c.reports |= ReportsKV
		w.KVKnown++
		if timed {
			c.reports |= ReportsTimes
			a.occupy(c, &l)
		} else {
			w.KVModelled += modelled(float64(r.PromptTokens), uncached(r), float64(r.OutputTokens), p.service)
		}
	}
}

// countDelay counts the time between two instants, shared over n steps; instants that are missing or in the wrong order
// are no measurement.
func (a *Aggregator) countDelay(w *cell, shape int, from, to moment, n int64) {
	if from == never || to < from || n < 1 {
		return
	}
	delay := from.secondsTo(to)
	if n > 1 {
		delay /= float64(n)
	}
	a.measure(w, shape, delay)
}

// moments are the times of a request.
type moments struct {
	arrived, started, first, finished moment
	event                             moment // the one it counts at
}

func momentsOf(r *ingest.Request) moments {
	t := moments{momentOf(r.ArrivedAt), momentOf(r.StartedAt), momentOf(r.FirstTokenAt), momentOf(r.FinishedAt), 0}
	if t.event = t.arrived; t.event == never {
		t.event = t.finished
	}
	return t
}
