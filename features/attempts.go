package features

import "math"

// Attempts counts the attempts of one minute of a pool. Demand counts each call once; the other attempts are load
// beyond demand. The arrays are indexed by forecast dimension, in its unit.
type Attempts struct {
	_ struct{} `cbor:",toarray"`

	Minute      int64   // Unix time
	Retries     float32 // attempts at calls that were counted before
	Failed      float32 // attempts of any number that were rejected, failed or cancelled in the queue
	FailedCalls float32 // those of Failed that are counted as calls

	Calls    [forecastDimensions]float32 // demand, without the correction for queues
	Again    [forecastDimensions]float32 // work of engines for Retries
	Unserved [forecastDimensions]float32 // the part of Calls that failed attempts still needed
}

// attemptsSpan is for how many minutes after the last retry a pool's attempts are still returned.
const attemptsSpan = 10

// LoadFactor is the load of all attempts divided by the load of the calls, for a forecast dimension, over some minutes:
// 1 + (again − unserved · retried) / calls, at least 1. The unserved part of a failed attempt is in its call's demand.
// If the call was retried, later attempts did that work, and it must count once. retried is the share of failed calls
// that were retried.
func LoadFactor(rows []Attempts, dimension string) float64 {
	d := ForecastIndex(dimension)
	var calls, again, unserved, retries, failed, failedCalls float64
	for i := range rows {
		r := &rows[i]
		calls += float64(r.Calls[d])
		again += float64(r.Again[d])
		unserved += float64(r.Unserved[d])
		retries += float64(r.Retries)
		failed += float64(r.Failed)
		failedCalls += float64(r.FailedCalls)
	}
	retried := 1.0
	if failedCalls > 0 {
		retried -= min(max((failed-retries)/failedCalls, 0), 1)
	}
	if more := again - max(unserved, 0)*retried; more > 0 && calls > 0 {
		return 1 + more/calls
	}
	return 1
}

// attempts sums the classes of a pool, for each minute of the open span that has begun. It is nil without recent
// retries. O(classes × Revise in minutes).
func (a *Aggregator) attempts(p *pool) []Attempts {
	if p.Retried < a.oldest()-attemptsSpan {
		return nil
	}
	rows := make([]Attempts, 0, a.Open-a.oldest()+1)
	for m := a.oldest(); m <= a.Open; m++ {
		s := &p.Coverage.at(m).Queue
		row, prompts := Attempts{Minute: m, Failed: s.Failed, FailedCalls: s.FailedCalls}, 0.0
		for _, c := range p.classes {
			at := c.Buckets.find(m)
			if at == nil {
				continue
			}
			row.Retries += float32(at.Retries)
			prompts += at.PromptTokens
			for d := range Forecast {
				sums := Forecast[d].parts(&at.Window)
				row.Calls[d] += float32(sums.calls / seconds)
				row.Again[d] += float32(sums.again / seconds)
				row.Unserved[d] += float32(sums.unserved / seconds)
			}
		}
		if prompts > 0 { // an engine would compute the uncached share of the unseen prompts
			row.Unserved[prefillPlace] += s.Unseen * row.Calls[prefillPlace] / float32(prompts)
		}
		rows = append(rows, row)
	}
	return rows
}

// prefillPlace is the index of DimPrefill among the forecast dimensions.
const prefillPlace = 1

// reached reports that an engine worked on an attempt: the record shows service, or an error came so late that the
// prompt can have been computed.
func (e *delta) reached(s Service) bool {
	if !e.neverServed() {
		return true
	}
	return e.how == failed && e.arrived != never && e.finished != never &&
		e.arrived.secondsTo(e.finished) >= max(e.uncached(), 1)/s.PrefillTokensPerS
}

// tried counts an attempt in its minute.
func (p *pool) tried(s *queuePressure, e *delta) {
	if !e.call {
		p.Retried = max(p.Retried, e.minute)
	}
	if !e.ends {
		return
	}
	s.Ended++
	switch {
	case !e.neverServed() && e.arrived != never && e.started != never:
		s.Waited += float32(e.arrived.secondsTo(max(e.arrived, e.started)))
		s.Started++
	case e.neverServed() && e.how != failed: // a failure is no evidence of a queue
		s.Turned++
	}
	if e.how == completed || e.stopped() {
		return
	}
	s.Failed++
	if e.call {
		s.FailedCalls++
		if !e.reached(p.service) {
			s.Unseen += float32(max(e.prompt, 0))
		}
	}
}

// countRetried counts the computed prompt tokens of a retry. It subtracts a prompt that was counted at arrival and
// never reached an engine.
func countRetried(c *class, w *bucket, e *delta) {
	reached := !e.ends || e.reached(c.pool.service)
	switch {
	case e.prompts && reached:
		w.PromptRetried += float64(e.prompt)
	case !e.prompts && e.ends && !reached:
		w.PromptRetried -= float64(max(e.prompt, 0))
	}
	if e.caches && reached {
		w.PromptRetried -= float64(min(e.cached, e.prompt))
	}
}

// Bounds beyond which a pool was too small for a minute. A short and stable queue is normal. A queue that grows or
// stays long is work beyond the pool's capacity.
const (
	turnedShare = 0.01 // share of attempts that were turned away
	minTurned   = 2    // the same as a count; both must be reached
	queueGrowth = 1    // growth of the queue in a minute, requests per ready replica
	longQueue   = 3    // waiting requests per ready replica
	longWait    = 3    // mean time in the queue, and growth of it, s
	waitGrowth  = 1.3  // growth of the mean time in the queue, factor
	minWaits    = 10   // attempts needed for a mean
)

// queuePressure is the evidence of a pool's queue in one minute. Attempts count by arrival.
type queuePressure struct {
	Attempts float32 `cbor:"1,keyasint,omitempty"`
	Turned   float32 `cbor:"2,keyasint,omitempty"` // rejected, or cancelled before they were served
	Waited   float32 `cbor:"3,keyasint,omitempty"` // total time in the queue of Started, s
	Started  float32 `cbor:"4,keyasint,omitempty"` // attempts whose time in the queue is known
	// Waiting is the number of queued requests per ready replica, from the newest reports of the minute.
	Waiting  float32 `cbor:"5,keyasint,omitempty"`
	Reported bool    `cbor:"6,keyasint,omitempty"` // Waiting is known

	Failed      float32 `cbor:"7,keyasint,omitempty"` // this and the next as in Attempts
	FailedCalls float32 `cbor:"8,keyasint,omitempty"`
	Unseen      float32 `cbor:"9,keyasint,omitempty"`  // prompt tokens of the first attempts that never reached an engine
	Ended       float32 `cbor:"10,keyasint,omitempty"` // of Attempts
}

// wait is the mean time in the queue in seconds; ok is false for too few attempts.
func (s *queuePressure) wait() (mean float32, ok bool) {
	return s.Waited / max(s.Started, 1), s.Started >= minWaits
}

// grows reports that attempts were turned away, or that the queue or the time in it grew since the minute before.
func (s *queuePressure) grows(before *queuePressure) bool {
	old, oldOK := before.wait()
	wait, ok := s.wait()
	turnsAway := s.Turned >= minTurned && s.Turned >= turnedShare*s.Attempts
	return turnsAway ||
		ok && oldOK && wait >= old+longWait && wait >= old*waitGrowth ||
		s.Reported && before.Reported && s.Waiting >= before.Waiting+queueGrowth
}

// long reports that the queue is long. If only the time in it is known, it must have grown before.
func (s *queuePressure) long(grown bool) bool {
	wait, ok := s.wait()
	return grown && ok && wait >= longWait || s.Reported && s.Waiting >= longQueue
}

// noteFleet records the ready replicas at the end of the minute that closes and, if replicas reported in it, the length
// of a pool's queue and its serving replicas. A report at a minute boundary belongs to the minute that ends there.
func (a *Aggregator) noteFleet(p *pool, s *PoolState) {
	c := p.Coverage.at(a.Open)
	c.Ready = s.Ready
	if unixTimeOf(s.ReportedAt) <= unixTime(a.Open)*minuteLength {
		return
	}
	c.Use.Serving = float64(s.Ready + s.Draining)
	if !math.IsNaN(s.WaitingPerReady) {
		c.Queue.Waiting, c.Queue.Reported = float32(s.WaitingPerReady), true
	}
}

// steady is the number of replicas that were ready throughout the minute that settles; 0 if unknown or changed.
func (a *Aggregator) steady(p *pool) int {
	if n := p.Coverage.at(a.oldest()).Ready; n == a.before(p, a.oldest()).Ready {
		return n
	}
	return 0
}

// before is the coverage of the previous minute.
func (a *Aggregator) before(p *pool, minute int64) *coverage {
	if a.holds(minute - 1) {
		return p.Coverage.at(minute - 1)
	}
	return &p.Settled
}

// growing reports that a pool's queue grew in a minute of the open span.
func (a *Aggregator) growing(p *pool, minute int64) bool {
	return p.Coverage.at(minute).Queue.grows(&a.before(p, minute).Queue)
}

// censored reports that a pool did not serve the demand of a minute of the open span at once: its queue grew or was
// long. The caller has asked about the minutes before.
func (a *Aggregator) censored(p *pool, minute int64) bool {
	return a.growing(p, minute) || p.Coverage.at(minute).Queue.long(a.before(p, minute).Censored)
}
