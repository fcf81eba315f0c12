package features

import (
	"github.com/forewarm/forewarm/ingest"
)

// AddRequest counts one record of a request, "" says it was counted. The caller has checked that the pool is known,
// that the record is no duplicate and not ahead of the clock.
//
// A request counts once, in the minute of its arrival, whatever becomes of it. Where a producer also sends a record at
// arrival (ingest.PhaseArrived), that one counts the request and its prompt, and the later record with the same id and
// attempt adds the rest; either may come first.
//
// What it asked for is demand also when it was rejected, cancelled or failed: its prompt, and the output, cached share
// and occupancy that its class lets expect, of which what was generated is a lower bound. An attempt > 1 is taken for a
// retry of a call that has been counted (see [Aggregator.AddAttempt] for one that has not): it counts as Retries,
// its tokens as retried.
//
// Output tokens are booked in the minutes that generated them when the times of the first and the last token are known;
// of those minutes, settled ones go to the oldest open one. Otherwise they are booked in the minute of arrival, or when
// that is settled, of the end.
//
// Refusals: ReasonLate when its minute is settled (its tokens are in [Window.Late] then, and what it held and generated in
// open minutes in those), ReasonFuture beyond the open span, ReasonDuplicate for a second end
// or arrival, ReasonMissingField for an arrival without id, which no end could be joined to.
func (a *Aggregator) AddRequest(r *ingest.Request) ingest.Reason {
	return a.AddAttempt(r, r.Attempt > 1)
}

// AddAttempt counts a record as AddRequest does, whatever the number of its attempt: again says that another attempt of
// the same call has been counted, so that this one is no demand.
func (a *Aggregator) AddAttempt(r *ingest.Request, again bool) ingest.Reason {
	call := !again
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
		if reason == ingest.ReasonLate {
			a.addLate(r, &t, seen, hash, call)
		}
		return reason
	}
	a.counters.Requests++
	if minute < a.open {
		a.counters.Amended++
	}

	p := a.pool(r.Pool)
	name := r.Class
	if seen != nil && seen.class != nil {
		name = seen.class.key.Class // what the first record said: all of a request is in one class
	}
	c := a.class(p, name, minute)
	entry := arrival{Hash: hash, Minute: minute, class: c}
	if seen == nil {
		a.evidence(p, minute, t.event)
		countArrival(c, a.cell(c, minute), call)
		p.coverage[a.slot(minute)].strain.Attempts++
	} else {
		seen.Ended = true
		entry = *seen
	}
	w := a.cell(c, max(minute, a.oldest()))
	if minute >= a.oldest() || !entry.Prompt { // cached tokens are taken off the minute that has the prompt, or not at all
		a.countPrompt(c, w, r, &entry, call)
	}
	if r.Phase == ingest.PhaseArrived {
		p.phased = true
	} else {
		entry.Ended = true
		if ended := t.finished.minute(); t.finished != never && ended > minute && ended <= a.open {
			a.evidence(p, ended, t.finished)
		}
		if minute >= a.oldest() {
			p.coverage[a.slot(minute)].strain.end(r, &t)
		}
		a.countEnd(p, c, w, r, &t, call, minute >= a.oldest() && entry.Prompt && !entry.Cached)
	}
	a.weigh(c, r)
	if r.Session != 0 {
		a.visit(p, c, r, &t, call, seen == nil)
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

func countArrival(c *class, w *cell, call bool) {
	c.reports |= ReportsRequests | ReportsAttempts
	w.Records++
	w.Attempts++
	w.RequestsKnown++
	if call {
		w.Requests++
	} else {
		w.Retries++
	}
}

// countPrompt counts prompt and cached tokens that have not been counted yet. Cached tokens say nothing without the
// prompt they are part of, nor when the request was never served.
func (a *Aggregator) countPrompt(c *class, w *cell, r *ingest.Request, done *arrival, call bool) {
	if r.PromptTokens < 0 {
		return
	}
	prompt := float64(r.PromptTokens)
	if !done.Prompt {
		done.Prompt = true
		c.reports |= ReportsPrompt
		w.PromptKnown++
		a.tokens += prompt
		if call {
			w.PromptTokens += prompt
			a.measure(w, shapePrompt, prompt)
		} else {
			w.PromptRetried += prompt
		}
	}
	if done.Cached || r.CachedTokens < 0 || neverServed(r, outcomeOf(r)) {
		return
	}
	done.Cached = true
	cached := min(float64(r.CachedTokens), prompt)
	c.reports |= ReportsCached
	w.CachedKnown++
	if call {
		w.CachedTokens += cached
		w.PromptOfCachedKnown += prompt
	}
	if prompt > 0 {
		a.measure(w, shapeCachedShare, cached/prompt)
	}
}

// countEnd counts what is known of a request when it is over: w is the minute of its arrival, or the oldest open one. Of
// a request whose prompt is in w without cached tokens, uncounted is set.
func (a *Aggregator) countEnd(p *pool, c *class, w *cell, r *ingest.Request, t *moments, call, uncounted bool) {
	how := outcomeOf(r)
	switch {
	case how == rejected:
		w.Rejected++
	case r.Phase == ingest.PhaseCancelled || r.Status == ingest.StatusCancelled:
		w.Cancelled++
	}
	var demand asked
	to := ledgerOf(p, c, r, t, how, call)
	if to == unserved || to == delayed {
		var ok bool
		if demand, ok = demandOf(p, c, r, t, how, to); !ok {
			to = served
		}
	}
	if !neverServed(r, how) {
		a.serve(p, c, w, r, t, how, to)
	}
	switch to {
	case unserved:
		c.reports |= ReportsOutput | ReportsKV
		if uncounted {
			w.CachedUnserved += demand.cached
		}
		a.spread(c, &demand, to)
	case delayed:
		a.spread(c, &demand, to)
	}
}

// serve counts what the pool did for an attempt.
func (a *Aggregator) serve(p *pool, c *class, w *cell, r *ingest.Request, t *moments, how outcome, to ledger) {
	a.countDelay(w, shapeTTFT, t.arrived, t.first, 1)
	a.countDelay(w, shapeQueueWait, t.arrived, t.started, 1)
	a.countDelay(w, shapeITL, t.first, t.finished, r.OutputTokens-1)

	l, timed := lifeOf(r, t, p.service)
	if !timed && l.contradictory {
		a.counters.BadTimes++
	}
	if r.OutputTokens < 0 {
		return
	}
	output := float64(r.OutputTokens)
	c.reports |= ReportsOutput
	w.OutputKnown++
	if how == finished {
		a.measure(w, shapeOutput, output)
	}
	a.tokens += output
	a.generate(c, w, r, t, &l, timed, to)
	if r.PromptTokens < 0 {
		return
	}
	prompt := float64(r.PromptTokens)
	w.Moments.Add(prompt, output)
	if to != retried {
		learn(p, c, w, r, t, how, &l, timed)
	}
	c.reports |= ReportsKV
	w.KVKnown++
	if timed {
		c.reports |= ReportsTimes
		a.occupy(c, &l, to)
		return
	}
	area := modelled(prompt, uncached(r), output, p.service)
	w.KVModelled += area
	to.enter(&w.Window, 0, area)
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
