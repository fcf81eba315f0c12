package features

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

	Failed      float32 `cbor:"7,keyasint,omitempty"` // see Attempts
	FailedCalls float32 `cbor:"8,keyasint,omitempty"`
	Unseen      float32 `cbor:"9,keyasint,omitempty"` // prompt tokens of the first attempts that never reached an engine
}

// end counts the end of an attempt.
func (s *queuePressure) end(e *delta) {
	if e.neverServed() {
		if !e.failed { // a failure is no evidence of a queue
			s.Turned++
		}
		return
	}
	if e.arrived != never && e.started != never {
		s.Waited += float32(e.arrived.secondsTo(max(e.arrived, e.started)))
		s.Started++
	}
}

// wait is the mean time in the queue in seconds; ok is false for too few attempts.
func (s *queuePressure) wait() (mean float32, ok bool) {
	return s.Waited / max(s.Started, 1), s.Started >= minWaits
}

// turnsAway reports that too many attempts were turned away.
func (s *queuePressure) turnsAway() bool {
	return s.Turned >= minTurned && s.Turned >= turnedShare*s.Attempts
}

// grows reports that attempts were turned away, or that the queue or the time in it grew since the minute before.
func (s *queuePressure) grows(before *queuePressure) bool {
	old, oldOK := before.wait()
	wait, ok := s.wait()
	return s.turnsAway() ||
		ok && oldOK && wait >= old+longWait && wait >= old*waitGrowth ||
		s.Reported && before.Reported && s.Waiting >= before.Waiting+queueGrowth
}

// long reports that the queue is long. If only the time in it is known, it must have grown before.
func (s *queuePressure) long(grown bool) bool {
	wait, ok := s.wait()
	return grown && ok && wait >= longWait || s.Reported && s.Waiting >= longQueue
}

// noteQueue records the length of a pool's queue. A report at a minute boundary belongs to the minute that ends there.
func (a *Aggregator) noteQueue(p *pool, at unixTime) {
	if m := (at - 1).minute(); a.holds(m) && p.Fleet.reporting > 0 {
		s := &p.Coverage[a.slot(m)].Queue
		s.Waiting, s.Reported = float32(p.Fleet.waiting)/float32(p.Fleet.reporting), true
	}
}

// before is the coverage of the previous minute.
func (a *Aggregator) before(p *pool, minute int64) *coverage {
	if a.holds(minute - 1) {
		return &p.Coverage[a.slot(minute-1)]
	}
	return &p.Settled
}

// growing reports that a pool's queue grew in a minute of the open span.
func (a *Aggregator) growing(p *pool, minute int64) bool {
	return p.Coverage[a.slot(minute)].Queue.grows(&a.before(p, minute).Queue)
}

// censored reports that a pool did not serve the demand of a minute of the open span at once: its queue grew or was
// long. The caller has asked about the minutes before.
func (a *Aggregator) censored(p *pool, minute int64) bool {
	return a.growing(p, minute) || p.Coverage[a.slot(minute)].Queue.long(a.before(p, minute).Censored)
}
