package features

// When a pool counts as too small for what came in a minute. All of it is about a queue: one that is short and stays
// short is how a pool works, one that grows or stands is work that it cannot take.
const (
	turnedShare = 0.01 // of the attempts, turned away; and at least turnedLeast
	turnedLeast = 2
	queueGrowth = 1   // waiting requests per ready replica that came to the queue in a minute
	queueStands = 3   // waiting requests per ready replica
	waitStands  = 3   // s in the queue on average; what the mean must have grown by, too, when it grew
	waitGrowth  = 1.3 // what it must have grown by at least as a factor
	waitLeast   = 10  // attempts that a mean is taken of
)

// queuePressure is what the records of one minute say of a pool's queue. Attempts count by arrival.
type queuePressure struct {
	Attempts float32 `cbor:"1,keyasint,omitempty"`
	Turned   float32 `cbor:"2,keyasint,omitempty"` // rejected, or cancelled before they were served
	Waited   float32 `cbor:"3,keyasint,omitempty"` // s in the queue, over those of Started
	Started  float32 `cbor:"4,keyasint,omitempty"` // attempts whose time in the queue is known
	// Waiting are the requests in the queue per ready replica, by the newest reports of the minute.
	Waiting  float32 `cbor:"5,keyasint,omitempty"`
	Reported bool    `cbor:"6,keyasint,omitempty"` // Waiting is known

	Failed      float32 `cbor:"7,keyasint,omitempty"` // see Attempts
	FailedCalls float32 `cbor:"8,keyasint,omitempty"`
	Unseen      float32 `cbor:"9,keyasint,omitempty"` // prompt tokens of the first attempts that never reached an engine
}

// end takes in the end of an attempt.
func (s *queuePressure) end(e *delta) {
	if e.neverServed() {
		if !e.failed() { // which says little of a queue
			s.Turned++
		}
		return
	}
	if e.arrived != never && e.started != never {
		s.Waited += float32(e.arrived.secondsTo(max(e.arrived, e.started)))
		s.Started++
	}
}

// wait is the mean time in the queue in seconds; ok is false for a mean of too few.
func (s *queuePressure) wait() (mean float32, ok bool) {
	return s.Waited / max(s.Started, 1), s.Started >= waitLeast
}

// turns says that too many attempts were turned away.
func (s *queuePressure) turns() bool {
	return s.Turned >= turnedLeast && s.Turned >= turnedShare*s.Attempts
}

// grows says that the queue, or the time in it, grew since the minute before.
func (s *queuePressure) grows(before *queuePressure) bool {
	was, measured := before.wait()
	is, ok := s.wait()
	return s.turns() ||
		ok && measured && is >= was+waitStands && is >= was*waitGrowth ||
		s.Reported && before.Reported && s.Waiting >= before.Waiting+queueGrowth
}

// stands says that there is a queue; one that is only known by the time in it must have grown to be one.
func (s *queuePressure) stands(grown bool) bool {
	wait, ok := s.wait()
	return grown && ok && wait >= waitStands || s.Reported && s.Waiting >= queueStands
}

// noteQueue books how long the queue of a pool is. A report belongs to the minute that it ends.
func (a *Aggregator) noteQueue(p *pool, at unixTime) {
	if m := (at - 1).minute(); a.holds(m) && p.fleet.reporting > 0 {
		s := &p.coverage[a.slot(m)].queuePressure
		s.Waiting, s.Reported = float32(p.fleet.waiting)/float32(p.fleet.reporting), true
	}
}

// before is the coverage of the minute before one of the open span.
func (a *Aggregator) before(p *pool, minute int64) *coverage {
	if a.holds(minute - 1) {
		return &p.coverage[a.slot(minute-1)]
	}
	return &p.settled
}

// growing says that a pool's queue grew in a minute of the open span.
func (a *Aggregator) growing(p *pool, minute int64) bool {
	return p.coverage[a.slot(minute)].queuePressure.grows(&a.before(p, minute).queuePressure)
}

// censored says that what a pool served in a minute of the open span was not what was asked of it then: its queue grew,
// or stood and was worked off. The minutes before it have been asked about.
func (a *Aggregator) censored(p *pool, minute int64) bool {
	return a.growing(p, minute) || p.coverage[a.slot(minute)].queuePressure.stands(a.before(p, minute).censored)
}
