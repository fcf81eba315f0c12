package features

import (
	"math"

	"github.com/forewarm/forewarm/ingest"
)

// delta is what a record of a request changes in its class.
type delta struct {
	arrived, started, first, finished unixTime

	prompt, cached, output, most int64 // tokens; negative when unknown

	names [accountKinds]string // for whom, "" when that is not known

	// The pool's expected output tokens and cached share of the prompt, for a call that did not finish. NaN when
	// unknown.
	usualOutput, usualCached float64

	minute int32 // in which the request counts

	how       outcome
	call      bool // it is the one that counts for its call
	arrives   bool // the request has not been counted before
	prompts   bool // its prompt is to be counted
	caches    bool // and so are its cached tokens
	ends      bool // the request is over
	cancelled bool
	uncounted bool // the prompt is in the minute without cached tokens
}

// read fills the delta from a record.
func (e *delta) read(r *ingest.Request, t *requestTimes) {
	e.arrived, e.started, e.first, e.finished = t.arrived, t.started, t.first, t.finished
	e.prompt, e.cached, e.output, e.most = r.PromptTokens, r.CachedTokens, r.OutputTokens, r.MaxOutputTokens
	e.names = [accountKinds]string{byTenant: r.Tenant, byFeature: r.Feature, byModel: r.Model, byTier: r.Tier}
	e.how = outcomeOf(r)
	e.cancelled = e.how != rejected && (r.Phase == ingest.PhaseCancelled || r.Status == ingest.StatusCancelled)
	e.ends = r.Phase != ingest.PhaseArrived
}

// event is the instant that the record counts at.
func (e *delta) event() unixTime {
	if e.arrived != never {
		return e.arrived
	}
	return e.finished
}

// outcome is how an attempt ended, as it matters for demand.
type outcome uint8

const (
	finished outcome = iota
	rejected         // never served: it holds and generates nothing
	cutOff           // cancelled or failed, possibly before it was served at all
)

// outcomeOf reads phase and status. An attempt that did not finish counts as cut off whatever the cause: the user still
// wants an answer.
func outcomeOf(r *ingest.Request) outcome {
	switch {
	case r.Phase == ingest.PhaseRejected || r.Status == ingest.StatusRejected:
		return rejected
	case r.Phase == ingest.PhaseCancelled || r.Status == ingest.StatusCancelled || r.Status == ingest.StatusError:
		return cutOff
	}
	return finished
}

// neverServed reports that an attempt ended in the queue: the record shows no service. This includes all rejected ones.
func (e *delta) neverServed() bool {
	return e.how == rejected || e.how == cutOff && e.started == never && e.first == never && e.output <= 0
}

// teaches reports whether expected lengths are learned from the attempt. Retries are left out: they are mostly of long
// calls. Errors are left out: one at the end would count as an output that continues.
func (e *delta) teaches() bool {
	return e.ends && e.call && !e.failed() && e.prompt >= 0 && e.output >= 0 && !e.neverServed()
}

// failed reports that an error ended the attempt.
func (e *delta) failed() bool { return e.how == cutOff && !e.cancelled }

// uncached is the number of prompt tokens to prefill; all of them when the cached count is unknown.
func (e *delta) uncached() float64 {
	return float64(max(e.prompt, 0) - min(max(e.cached, 0), max(e.prompt, 0)))
}

// expect sets the pool's expected values for a call that did not finish.
func (e *delta) expect(p *Expected) {
	e.usualOutput, e.usualCached = math.NaN(), math.NaN()
	if e.ends && e.call && e.prompt >= 0 && e.how != finished {
		b := promptBucket(e.prompt)
		e.usualOutput, e.usualCached = usual(&p.Output, b), usual(&p.Cached, b)
	}
}
