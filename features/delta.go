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

	// What the pool lets expect of a call that was not served to its end, when it came: output tokens, and the share of its
	// prompt in the cache. NaN when nothing is known.
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

// read takes from a record what is in it.
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

// outcome is how an attempt ended, as far as demand goes.
type outcome uint8

const (
	finished outcome = iota
	rejected         // never served: it holds and generates nothing
	cutOff           // cancelled or failed, possibly before it was served at all
)

// outcomeOf reads phase and status. A failed attempt is one that the pool did not serve to its end, whatever the cause:
// the user still wants an answer.
func outcomeOf(r *ingest.Request) outcome {
	switch {
	case r.Phase == ingest.PhaseRejected || r.Status == ingest.StatusRejected:
		return rejected
	case r.Phase == ingest.PhaseCancelled || r.Status == ingest.StatusCancelled || r.Status == ingest.StatusError:
		return cutOff
	}
	return finished
}

// neverServed says of an attempt that it ended in the queue: nothing that would show that it had left it is known. So
// all rejected ones did.
func (e *delta) neverServed() bool {
	return e.how == rejected || e.how == cutOff && e.started == never && e.first == never && e.output <= 0
}

// teaches says that the attempt tells what calls like it need. Retries do not: they come from the calls that were not
// served before, which are the long ones. Nor do errors: one that comes at the end would count as an output that goes on.
func (e *delta) teaches() bool {
	return e.ends && e.call && !e.failed() && e.prompt >= 0 && e.output >= 0 && !e.neverServed()
}

// failed says that an error ended the attempt.
func (e *delta) failed() bool { return e.how == cutOff && !e.cancelled }

// uncached is the number of prompt tokens to prefill; all of them when the cached ones are not known.
func (e *delta) uncached() float64 {
	return float64(max(e.prompt, 0) - min(max(e.cached, 0), max(e.prompt, 0)))
}

// expect notes what the pool lets expect of a call that was not served to its end.
func (e *delta) expect(p *Expected) {
	e.usualOutput, e.usualCached = math.NaN(), math.NaN()
	if e.ends && e.call && e.prompt >= 0 && e.how != finished {
		b := promptBucket(e.prompt)
		e.usualOutput, e.usualCached = usual(&p.Output, b), usual(&p.Cached, b)
	}
}
