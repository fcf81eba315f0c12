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
// and what an engine did for it as retried. See Attempts for what that adds to demand.
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
	t := requestTimesOf(r)
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
	var c *class
	if seen != nil && seen.class != nil {
		c = seen.class // the first record decides: all of a request is in one class
	} else {
		c = a.lookup(p, r.Class, minute)
	}
	e := &a.delta
	*e = delta{}
	e.read(r, &t)
	e.minute, e.call, e.arrives = int32(minute), call, seen == nil
	entry := arrival{Hash: hash, Minute: minute, class: c}
	if seen == nil {
		a.evidence(p, minute, t.event)
		p.coverage[a.slot(minute)].queuePressure.Attempts++
	} else {
		seen.Ended = true
		entry = *seen
	}
	open := minute >= a.oldest()
	e.toCount(&entry, open)
	e.uncounted = open && entry.Prompt && !entry.Cached
	if !e.ends {
		p.phased = true
	} else {
		entry.Ended = true
		if ended := t.finished.minute(); t.finished != never && ended > minute && ended <= a.open {
			a.evidence(p, ended, t.finished)
		}
		if open {
			p.coverage[a.slot(minute)].queuePressure.end(e)
		}
		e.expect(&p.expected)
	}
	if open {
		p.tried(&p.coverage[a.slot(minute)].queuePressure, e, minute)
	}
	if e.teaches() {
		p.expected.learn(e)
	}
	if seen == nil && p.phased && r.ID != "" && a.arrivals.add(entry) {
		a.counters.ArrivalsEvicted++
	}
	a.count(c, e)
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

// toCount says whether prompt and cached tokens are to be counted: where they have not been yet. Cached tokens say nothing
// without the prompt they are part of, nor when the request was never served; they are taken off the minute that has the
// prompt, which must be open, or not at all.
func (e *delta) toCount(done *arrival, open bool) {
	e.prompts = e.prompt >= 0 && !done.Prompt
	e.caches = e.prompt >= 0 && !done.Cached && (open || !done.Prompt) && e.cached >= 0 && !e.neverServed()
	done.Prompt, done.Cached = done.Prompt || e.prompts, done.Cached || e.caches
}

// count adds an attempt to its class.
func (a *Aggregator) count(c *class, e *delta) {
	minute := int64(e.minute)
	c.born, c.last = min(c.born, minute), max(c.last, minute)
	w := a.bucket(c, max(minute, a.oldest()))
	if e.arrives {
		countArrival(c, w, e.call)
	}
	tokens := a.countPrompt(c, w, e)
	if e.ends {
		tokens += a.countEnd(c, w, e)
	}
	a.weigh(c, e, tokens)
}

func countArrival(c *class, w *bucket, call bool) {
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

// countPrompt counts prompt and cached tokens that have not been counted yet, and says how many that are.
func (a *Aggregator) countPrompt(c *class, w *bucket, e *delta) (tokens float64) {
	prompt := float64(e.prompt)
	if e.prompts {
		tokens = prompt
		c.reports |= ReportsPrompt
		w.PromptKnown++
		if e.call {
			w.PromptTokens += prompt
			w.measure(shapePrompt, prompt)
		}
	}
	if !e.call {
		countRetried(c, w, e)
	}
	if e.caches {
		cached := min(float64(e.cached), prompt)
		c.reports |= ReportsCached
		w.CachedKnown++
		if e.call {
			w.CachedTokens += cached
			w.PromptOfCachedKnown += prompt
		}
		if prompt > 0 {
			w.measure(shapeCachedShare, cached/prompt)
		}
	}
	return tokens
}

// countEnd counts what is known of a request when it is over, and says how many tokens it generated: w is the minute of its
// arrival, or the oldest open one.
func (a *Aggregator) countEnd(c *class, w *bucket, e *delta) (tokens float64) {
	switch {
	case e.how == rejected:
		w.Rejected++
	case e.cancelled:
		w.Cancelled++
	}
	if e.how == finished {
		w.Served++
	} else if !e.neverServed() {
		w.PromptWasted += e.uncached()
		w.OutputWasted += float64(max(e.output, 0))
	}
	var demand callDemand
	to := e.demandKind(c.pool, c)
	if to == unserved || to == delayed {
		var ok bool
		if demand, ok = e.demand(c.pool, c, to); !ok {
			to = served
		}
	}
	if !e.neverServed() {
		tokens = a.serve(c, w, e, to)
	} else if l, timed := e.life(c.pool.service); timed && e.reached(c.pool.service) {
		a.occupy(c, &l, to)
	}
	switch to {
	case unserved:
		c.reports |= ReportsOutput | ReportsKV
		if e.uncounted {
			w.CachedUnserved += demand.cached
		}
		a.spread(c, &demand, to)
	case delayed:
		a.spread(c, &demand, to)
	}
	return tokens
}

// serve counts what the pool did for an attempt, and says how many tokens it generated.
func (a *Aggregator) serve(c *class, w *bucket, e *delta, to demandKind) (tokens float64) {
	w.countDelay(shapeTTFT, e.arrived, e.first, 1)
	w.countDelay(shapeQueueWait, e.arrived, e.started, 1)
	w.countDelay(shapeITL, e.first, e.finished, e.output-1)
	from := e.started
	if from == never {
		from = e.arrived
	}
	if e.prompt >= 0 && from != never && e.first >= from {
		w.Prefills.Add(e.uncached(), from.secondsTo(e.first))
	}

	service := c.pool.service
	l, timed := e.life(service)
	if !timed && l.contradictory {
		a.counters.BadTimes++
	}
	if e.output < 0 {
		return 0
	}
	output := float64(e.output)
	c.reports |= ReportsOutput
	w.OutputKnown++
	if e.how == finished {
		w.measure(shapeOutput, output)
	}
	a.generate(c, w, e, &l, timed, to)
	if e.prompt < 0 {
		return output
	}
	prompt := float64(e.prompt)
	w.Moments.Add(prompt, output)
	if e.teaches() {
		c.learn(w, e, &l, timed)
	}
	c.reports |= ReportsKV
	w.KVKnown++
	if timed {
		c.reports |= ReportsTimes
		a.occupy(c, &l, to)
		return output
	}
	area := modelled(prompt, e.uncached(), output, service)
	w.KVModelled += area
	to.enter(&w.Window, 0, area)
	return output
}

// countDelay counts the time between two instants, shared over n steps; instants that are missing or in the wrong order
// are no measurement.
func (w *bucket) countDelay(shape int, from, to unixTime, n int64) {
	if from == never || to < from || n < 1 {
		return
	}
	delay := from.secondsTo(to)
	if n > 1 {
		delay /= float64(n)
	}
	w.measure(shape, delay)
}

// moments are the times of a request.
type requestTimes struct {
	arrived, started, first, finished unixTime
	event                             unixTime // the one it counts at
}

func requestTimesOf(r *ingest.Request) requestTimes {
	t := requestTimes{unixTimeOf(r.ArrivedAt), unixTimeOf(r.StartedAt), unixTimeOf(r.FirstTokenAt), unixTimeOf(r.FinishedAt), 0}
	if t.event = t.arrived; t.event == never {
		t.event = t.finished
	}
	return t
}
