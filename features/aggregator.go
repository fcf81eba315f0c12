// Package features aggregates requests into one-minute, event-time windows per pool and class: the demand dimensions,
// quantile sketches of the shapes, cross-moments, and KV-cache occupancy.
//
// It is pure: no clock, no I/O, no logging, no goroutine; time enters as arguments.
//
// Demand is what users asked for, not what was served. Calls that a pool turned away count with the expected values of
// their class. Retries do not count. In minutes with a queue ([Window.Censored]) tokens are demand of the minute in
// which they were requested.
//
// Invariants: a minute without evidence is not a minute without traffic ([Window.Covered]). Every request is counted in
// exactly one minute, that of its arrival; if that has settled, it is refused as late. The same records in the same
// order give the same bytes. Units: rates are per second averaged over the minute, occupancy is tokens. Bounds: classes
// per pool, names per class, open minutes and producers are capped ([Config], [Producers]); the excess is counted under
// [OverflowClass] or dropped and counted.
//
// The package also has [ClassifyConfig], which gives requests a class, [Ranking], which lists the largest consumers,
// and [Producers], which detects faults of those who send telemetry.
package features

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// aheadMinutes is how far occupancy may extend beyond the newest minute. Only traces with generated times need it.
const aheadMinutes = 60

// Aggregator adds records to windows, one minute of event time per pool and class.
//
// It owns no clock. The caller adds records in the order of the log and calls Close at every minute boundary. The open
// minutes depend only on the last Close. With o the first minute that is not closed and R = Config.Revise in minutes,
// the open span is about [o − R, o + 60). Records before it are late, records beyond it are in the future. Before the
// first Close, the first record opens the span.
//
// Every Add costs O(1) amortised, plus the minutes that a request's life touches. Memory is bounded by classes
// × open minutes. The caller bounds the pools: it refuses unknown ones. An Aggregator must not be used by two
// goroutines at once.
type Aggregator struct {
	cfg   Config
	ahead int64 // minutes

	state
	named int     // classes of all pools without OverflowClass
	pools []*pool // ordered by name

	windows    []Window
	minutes    []PoolMinute
	delta      delta // of the current request
	nowcasting nowcasting
}

// New makes an empty Aggregator.
func New(cfg Config) *Aggregator {
	return &Aggregator{
		cfg:   cfg,
		state: state{Revise: minutes(cfg.Revise)},
		ahead: aheadMinutes + minutes(cfg.Lateness+cfg.FutureBound) + 1,
	}
}

// AddReplica adds a report of one replica. The caller has checked that its pool is known and that its time is not in
// the future.
func (a *Aggregator) AddReplica(r *ingest.Replica) ReplicaLife {
	at := unixTimeOf(r.At)
	a.begin(at.minute())
	p := a.pool(r.Pool)
	before, life, ok := p.Fleet.add(r, &a.Count)
	if ok {
		a.noteUse(p, &before, r)
	}
	a.evidence(p, at.minute(), at)
	return life
}

// AddWatermark adds a watermark. The minutes of its pool up to it are covered: without records, traffic was zero in
// them. A watermark without a pool changes nothing here.
func (a *Aggregator) AddWatermark(w *ingest.Watermark) {
	if w.Pool == "" {
		return
	}
	p := a.pool(w.Pool)
	at := unixTimeOf(w.At)
	p.Watermark = max(p.Watermark, at)
	p.LastEvent = max(p.LastEvent, at)
}

// Passed reports whether the watermarks of all pools with current telemetry have passed the minute before t.
func (a *Aggregator) Passed(t time.Time) bool {
	end := unixTimeOf(t.Truncate(Minute))
	stale := end - unixTime(a.cfg.StaleAfter)
	return !slices.ContainsFunc(a.pools, func(p *pool) bool { return p.LastEvent > stale && p.Watermark < end })
}

// begin opens the span at the first record. Until the first Close, a record beyond the span moves it, so that one very
// old record cannot exclude the others.
func (a *Aggregator) begin(minute int64) {
	switch {
	case !a.Started:
		a.Started, a.Open = true, minute
	case !a.Closed && minute >= a.end():
		a.advance(minute)
	}
}

// oldest is the first minute of the open span, end the first beyond it.
func (a *Aggregator) oldest() int64 { return a.Open - a.Revise }
func (a *Aggregator) end() int64    { return a.Open + a.ahead }

func (a *Aggregator) holds(minute int64) bool { return minute >= a.oldest() && minute < a.end() }

// refuse returns why a record of this minute cannot be counted, "" if it can.
func (a *Aggregator) refuse(minute int64) ingest.Reason {
	switch {
	case minute < a.oldest():
		return ingest.ReasonLate
	case minute >= a.end():
		return ingest.ReasonFuture
	}
	return ""
}

// evidence marks that a record of the pool has this minute.
func (a *Aggregator) evidence(p *pool, minute int64, at unixTime) {
	p.LastEvent = max(p.LastEvent, at)
	if a.holds(minute) {
		p.Coverage.at(minute).Evidence = true
	}
}

// covered reports whether telemetry of the pool was alive in a minute of the open span. A slow producer does not unset
// that: its missing records are a reporting delay, which the nowcast corrects. Beyond the bounds of [NewProducers]
// that is a fault: it warns and stops scale-in.
func (a *Aggregator) covered(p *pool, minute int64) bool {
	return p.Coverage.at(minute).Evidence || p.Watermark >= unixTime(minute+1)*minuteLength
}

// AddSum counts traffic that its producer has summed, in the minute of its Start. It returns "" or the reason of a
// refusal, as AddAttempt does. Fields that are NaN stay unknown. The caller has checked that the pool is known and the
// time not in the future.
//
// KV occupancy of a sum follows by Little's law from its means, if it does not have its own. The error is up to 2× on
// mixed traffic, because the product of means is not the mean of products. It is unknown if requests, prompt or output is
// unknown.
func (a *Aggregator) AddSum(s *ingest.Sum) ingest.Reason {
	at := unixTimeOf(s.Start)
	minute := at.minute()
	a.begin(minute)
	if reason := a.refuse(minute); reason != "" {
		return reason
	}
	p := a.pool(s.Pool)
	a.evidence(p, minute, at)
	c := a.class(p, s.Class, minute)
	w := c.bucket(minute)
	w.Records++
	add := func(value float64, what Reports, sum *float64) {
		if value >= 0 { // known
			c.reports(w, what)
			*sum += value
		}
	}
	cached := min(s.CachedTokens, s.PromptTokens) // NaN when either is
	add(s.Requests, ReportsRequests, &w.Requests)
	add(s.PromptTokens, ReportsPrompt, &w.PromptTokens)
	add(cached, ReportsCached, &w.CachedTokens)
	add(s.OutputTokens, ReportsOutput, &w.OutputTokens)
	if s.OutputTokens >= 0 {
		p.Coverage.at(minute).Served.Output += s.OutputTokens
	}
	if cached >= 0 {
		w.PromptOfCachedKnown += s.PromptTokens
	}
	area := modelledSum(s, cached, p.service)
	if s.KVTokens != nil {
		area = *s.KVTokens * seconds
	}
	add(area, ReportsKV, &w.KVModelled)
	if area >= 0 {
		w.KVKnown++
	}
	return ""
}

// modelledSum is the area that the requests of a sum hold, in token-seconds; NaN when unknown.
func modelledSum(s *ingest.Sum, cached float64, service Service) float64 {
	if s.Requests == 0 && s.PromptTokens == 0 && s.OutputTokens == 0 {
		return 0
	}
	if !(s.Requests > 0) {
		return math.NaN()
	}
	if !(cached >= 0) {
		cached = 0
	}
	prompt, output := s.PromptTokens/s.Requests, s.OutputTokens/s.Requests
	return s.Requests * modelled(prompt, (s.PromptTokens-cached)/s.Requests, output, service)
}
