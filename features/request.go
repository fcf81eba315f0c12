package features

import (
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// Earlier is what earlier records counted of a request and its call.
type Earlier struct {
	CallCounted    bool // by another attempt, so that this one is no demand
	ArrivalCounted bool // the request was counted by the record at its arrival
	PromptCounted  bool // and so was its prompt
}

// AddAttempt counts one record of a request. It returns "" or the reason of a refusal. The caller has checked that the
// pool is known, that the record is no duplicate and not in the future, and what earlier records counted.
//
// A request counts once, in the minute of its arrival, however it ends. If a producer also sends a record at arrival
// (ingest.PhaseArrived), that record counts the request and its prompt, and the record at the end adds the rest.
//
// A rejected or failed request, and one cancelled in the queue, is demand too: its prompt, and the expected output,
// cached share and occupancy of its class, at least the generated output. One cancelled while it was served is so only
// in a Censored minute, and else what it was served. A retry of a counted call counts in Retries, and its work in
// the Retried fields. See Attempts.
//
// If the times of the first and the last token are known, output tokens count in the minutes that generated them, and
// those of settled minutes in the oldest open one. Otherwise they count in the minute of arrival, or if that is
// settled, of the end.
//
// Refusals: ReasonLate when its minute is settled, though what it held and generated in open minutes counts there;
// ReasonFuture beyond the open span.
func (a *Aggregator) AddAttempt(r *ingest.Request, before Earlier) ingest.Reason {
	e := &a.delta
	e.read(r, before)
	minute := e.minute
	a.begin(minute)
	open := minute >= a.oldest()
	if reason := a.refuse(minute); reason == ingest.ReasonLate {
		if !before.ArrivalCounted || e.finished.minute() < a.oldest() {
			a.serveLate(r, e)
			return reason
		}
	} else if reason != "" {
		return reason
	}
	p := a.pool(r.Pool)
	c := a.class(p, r.Class, minute)
	// Cached tokens belong to the minute of the prompt, and are not counted if that has settled.
	e.caches = e.ends && e.prompt >= 0 && (open || e.prompts) && e.cached >= 0 && !e.neverServed()
	if e.arrives {
		a.evidence(p, minute, e.event)
		p.Coverage.at(minute).Queue.Attempts++
	}
	if ended := e.finished.minute(); e.ends && e.finished != never && ended > minute && ended <= a.Open {
		a.evidence(p, ended, e.finished)
	}
	if open {
		p.tried(&p.Coverage.at(minute).Queue, e)
	}
	if e.teaches() {
		p.Expected.learn(e)
	}
	a.count(c, e)
	return ""
}

// serveLate counts what a request that is refused as late held and generated in open minutes.
func (a *Aggregator) serveLate(r *ingest.Request, e *delta) {
	if !e.ends || e.neverServed() || e.output < 0 || e.finished.minute() < a.oldest() {
		return
	}
	p := a.pool(r.Pool)
	l, timed := e.life(p.service)
	if !timed {
		return
	}
	c := a.class(p, r.Class, a.oldest())
	to := served
	if !e.call {
		to = retried
	}
	if e.prompt >= 0 {
		a.occupy(c, &l, to)
	}
	if e.first != never {
		done := l.generated(l.secondsAt(a.oldest()))
		a.generateFrom(c, &l, max(l.decodes(), a.oldest()), done, to)
	}
}

// count adds an attempt to its class.
func (a *Aggregator) count(c *class, e *delta) {
	w := c.bucket(max(e.minute, a.oldest()))
	if e.arrives {
		c.reports(w, ReportsRequests|ReportsAttempts)
		w.Records++
		w.Attempts++
		if e.call {
			w.Requests++
		} else {
			w.Retries++
		}
	}
	tokens := a.countPrompt(c, w, e)
	if e.ends {
		tokens += a.countEnd(c, w, e)
	}
	c.Accounts.add(&e.names, tokens)
}

// countPrompt counts the prompt and cached tokens, and returns the new prompt tokens.
func (a *Aggregator) countPrompt(c *class, w *bucket, e *delta) (tokens float64) {
	prompt := float64(e.prompt)
	if e.prompts {
		tokens = prompt
		c.reports(w, ReportsPrompt)
		if e.call {
			w.PromptTokens += prompt
			w.Prompt.Add(prompt)
		}
	}
	if !e.call {
		countRetried(c, w, e)
	}
	if e.caches {
		cached := min(float64(e.cached), prompt)
		c.reports(w, ReportsCached)
		if e.call {
			w.CachedTokens += cached
			w.PromptOfCachedKnown += prompt
		}
	}
	return tokens
}

// countEnd counts the end of a request and returns its generated tokens; w is the minute of its arrival, or the oldest
// open one.
func (a *Aggregator) countEnd(c *class, w *bucket, e *delta) (tokens float64) {
	if e.how == completed {
		w.Served++
	} else if !e.neverServed() {
		w.PromptWasted += e.uncached()
		w.OutputWasted += float64(max(e.output, 0))
	}
	to, demand := e.demand(c)
	if !e.neverServed() {
		tokens = a.serve(c, w, e, to)
	} else if l, timed := e.life(c.pool.service); timed && e.reached(c.pool.service) {
		a.occupy(c, &l, to)
	}
	if to == unserved {
		c.Reports |= ReportsOutput | ReportsKV
		if !e.caches && e.minute >= a.oldest() { // the prompt is in its minute without cached tokens
			w.CachedUnserved += demand.cached
		}
	}
	if to == unserved || to == delayed {
		a.spread(c, &demand, to)
	}
	return tokens
}

// serve counts the service of an attempt and returns its generated tokens.
func (a *Aggregator) serve(c *class, w *bucket, e *delta, to demandKind) (tokens float64) {
	service := c.pool.service
	l, timed := e.life(service)
	if !timed && l.contradictory {
		a.Count.BadTimes++
	}
	c.pool.Coverage.at(max(e.minute, a.oldest())).Served.add(e, &l, timed)
	if e.output < 0 {
		return 0
	}
	output := float64(e.output)
	c.reports(w, ReportsOutput)
	if e.how == completed {
		w.Output.Add(output)
	}
	a.generate(c, w, e, &l, timed, to)
	if e.prompt < 0 {
		return output
	}
	prompt := float64(e.prompt)
	if e.teaches() {
		c.Expected.learn(e)
		atOnce := e.started == never || e.arrived == never || time.Duration(e.started-e.arrived) < minQueueDelay
		if e.how == completed && timed && e.first != never && atOnce {
			w.Pace.add(e, &l)
		}
	}
	c.reports(w, ReportsKV)
	w.KVKnown++
	if timed {
		a.occupy(c, &l, to)
		return output
	}
	area := modelled(prompt, e.uncached(), output, service)
	w.KVModelled += area
	to.throughput(&w.Window, 0, area)
	return output
}

// delta is what a record of a request changes in its class.
type delta struct {
	arrived, started, first, finished, event unixTime // event is the arrival, or else the end

	prompt, cached, output, most int64 // tokens; negative when unknown; most is the request's limit of output

	names [accountKinds]string // for whom, "" when that is not known

	minute int64 // in which the request counts

	how     outcome
	call    bool // this attempt counts for its call; false for its other attempts
	arrives bool // the request has not been counted before
	prompts bool // its prompt is to be counted
	caches  bool // and so are its cached tokens
	ends    bool // the request is over
}

// read sets the delta to that of a record.
func (e *delta) read(r *ingest.Request, before Earlier) {
	*e = delta{
		arrived: unixTimeOf(r.ArrivedAt), started: unixTimeOf(r.StartedAt), first: unixTimeOf(r.FirstTokenAt), finished: unixTimeOf(r.FinishedAt),
		prompt: r.PromptTokens, cached: r.CachedTokens, output: r.OutputTokens, most: r.MaxOutputTokens,
		names: [accountKinds]string{byTenant: r.Tenant, byFeature: r.Feature},
		how:   outcomeOf(r), ends: r.Phase != ingest.PhaseArrived,
		call: !before.CallCounted, arrives: !before.ArrivalCounted, prompts: r.PromptTokens >= 0 && !before.PromptCounted,
	}
	if e.event = e.arrived; e.event == never {
		e.event = e.finished
	}
	e.minute = e.event.minute()
}

// outcome is how an attempt ended, as it matters for demand. Whatever the cause, the user still wants an answer.
type outcome uint8

const (
	completed outcome = iota
	rejected          // never served: it holds and generates nothing
	cancelled         // possibly before it was served at all
	failed            // likewise, by an error
)

func outcomeOf(r *ingest.Request) outcome {
	switch {
	case r.Phase == ingest.PhaseRejected || r.Status == ingest.StatusRejected:
		return rejected
	case r.Phase == ingest.PhaseCancelled || r.Status == ingest.StatusCancelled:
		return cancelled
	case r.Status == ingest.StatusError:
		return failed
	}
	return completed
}

// neverServed reports that an attempt ended in the queue: the record shows no service. This includes all rejected ones.
func (e *delta) neverServed() bool {
	return e.how == rejected || e.how != completed && e.started == never && e.first == never && e.output <= 0
}

// stopped reports that a user cancelled an answer that was coming: no more of it is wanted, unless the pool was too full.
func (e *delta) stopped() bool { return e.how == cancelled && !e.neverServed() }

// teaches reports whether expected lengths are learned from the attempt. Retries are left out: they are mostly of long
// calls. Errors are left out: one at the end would count as an output that continues.
func (e *delta) teaches() bool {
	return e.ends && e.call && e.how != failed && e.prompt >= 0 && e.output >= 0 && !e.neverServed()
}

// uncached is the number of prompt tokens to prefill; all of them when the cached count is unknown.
func (e *delta) uncached() float64 {
	return float64(max(e.prompt, 0) - min(max(e.cached, 0), max(e.prompt, 0)))
}
