package backtest

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// maxTelemetry bounds the records that wait for Drain; further ones are dropped and counted.
const maxTelemetry = 1 << 20

// Cluster is a simulated pool at request level.
//
// Requests wait in one first-come-first-served queue. The head goes to the ready replica with the most free KV tokens
// that has a free slot and room for the prompt; while there is none, all wait. A replica works on its admitted prompts
// side by side (chunked prefill: the prefill rate is shared equally), then decodes them together, one token per
// sequence every ITL(b, kv). Every output token holds KV; when the cache is full the newest sequence is preempted, and
// later computes its prompt and output so far again. A request that waits too long is rejected and tried again.
//
// Time is continuous. Between two events of a replica (an admission, an end of prefill or output, a full cache) its
// rates are taken constant, and refreshed at least each second because the cache grows: a second adds b/ITL tokens, a
// few thousand, which moves ITL by less than one percent. So a sequence's end is the moment at which a counter of
// tokens per sequence passes a mark, and an event costs O(log b) rather than one step for each token: a day of 300,000
// requests takes seconds.
//
// Draws are common across policies: the warm-up of the k-th replica that is started depends on the seed and k alone,
// and arrivals come from outside. A Cluster is not safe for concurrent use.
type Cluster struct {
	cfg  ClusterConfig
	seed uint64
	now  float64 // s since cfg.Start
	tick float64 // s; the next whole second

	replicas []*replica // pending to draining, in order of start
	started  uint64     // replicas started after the initial ones
	orders   orders
	admitted uint64

	arrivals  fifo[Arrival] // submitted, not due yet
	retries   fifo[*call]   // due RetryAfter from their rejection, in order
	queue     fifo[*call]   // never started
	preempted []*call       // go before the queue, newest preemption last
	patience  fifo[*call]   // every attempt by its beginning, those that are over included

	quiet    bool // reports no requests
	requests []ingest.Request
	states   []ingest.Replica
	metrics  Metrics
	minute   Minute
	open     minuteCounts
}

// call is one attempt of one request.
type call struct {
	Arrival
	attempt        int
	first, arrived float64 // s: of the first attempt, of this one
	started, token float64 // s: left the queue, first token; NaN before
	due            float64 // s: of a retry
	admitted       uint64  // order of admission
	generated      float64 // output tokens so far, up to date when preempted
	replica        *replica
	over           bool
	kv             float64 // tokens held when decoding began or prefill was admitted
	mark           float64 // of the replica's prefill or decode counter at which this phase ends
	from           float64 // of the decode counter at which decoding began
}

// NewCluster is a pool with its initial replicas ready.
func NewCluster(cfg ClusterConfig, seed uint64) (*Cluster, error) {
	if cfg.Start.IsZero() {
		cfg.Start = DefaultStart
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, seed: seed, orders: orders{target: cfg.Initial, warmup: cfg.Warmup.P90}, tick: 1}
	c.minute.KVUse = math.NaN()
	for range cfg.Initial {
		c.replicas = append(c.replicas, c.newReplica(ingest.ReplicaReady))
	}
	return c, nil
}

// Submit hands over an arrival, in order of time and not before the cluster's clock. It takes effect when Advance
// passes its time.
func (c *Cluster) Submit(a Arrival) { c.arrivals.push(a) }

// Now is the cluster's clock.
func (c *Cluster) Now() time.Time { return c.clock(c.now) }

// Advance runs the pool until a time.
func (c *Cluster) Advance(until time.Time) {
	end := until.Sub(c.cfg.Start).Seconds()
	for {
		at, what, r := c.next()
		if at > end {
			break
		}
		c.now = max(c.now, at)
		switch what {
		case replicaDue:
			c.step(r)
		case timeoutDue:
			c.reject(c.queue.pop())
		case patienceDue:
			c.losePatience(c.patience.pop())
		case retryDue:
			c.retry()
		case arrivalDue:
			c.arrive()
		case secondDue:
			c.second()
		}
	}
	c.now = max(c.now, end)
}

// event is a kind of event; among events at the same time the first in this order comes first, so that capacity frees
// before it is asked for.
type event uint8

const (
	replicaDue event = iota
	timeoutDue
	patienceDue
	retryDue
	arrivalDue
	secondDue
)

// next is the earliest event. O(replicas).
func (c *Cluster) next() (at float64, what event, r *replica) {
	at, what = c.tick, secondDue
	if a, ok := c.arrivals.head(); ok {
		if t := a.At.Sub(c.cfg.Start).Seconds(); t <= at {
			at, what = t, arrivalDue
		}
	}
	if q, ok := c.retries.head(); ok && q.due <= at {
		at, what = q.due, retryDue
	}
	if q, ok := c.patience.head(); ok {
		if t := q.arrived + c.cfg.Patience.Seconds(); t <= at {
			at, what = t, patienceDue
		}
	}
	if q, ok := c.queue.head(); ok {
		if t := q.arrived + c.cfg.QueueTimeout.Seconds(); t <= at {
			at, what = t, timeoutDue
		}
	}
	for _, other := range c.replicas {
		if other.next < at || other.next == at && what != replicaDue {
			at, what, r = other.next, replicaDue, other
		}
	}
	return at, what, r
}

// second refreshes the rates of every replica, and closes the minute when one is over.
func (c *Cluster) second() {
	c.tick++
	for _, r := range c.replicas {
		if r.serving() {
			r.sync(c.now)
			r.plan()
		}
		c.metrics.GPUHours += r.billed() * float64(c.cfg.GPUsPerReplica) / 3600
	}
	if int64(c.now)%60 == 0 {
		c.endMinute()
	}
}

func (c *Cluster) arrive() {
	a := c.arrivals.pop()
	c.open.arrived++
	c.metrics.Requests++
	c.enqueue(&call{Arrival: a, attempt: 1, first: c.now, arrived: c.now, started: math.NaN(), token: math.NaN()})
}

func (c *Cluster) retry() {
	q := c.retries.pop()
	c.metrics.Retries++
	q.arrived = c.now
	c.enqueue(q)
}

func (c *Cluster) enqueue(q *call) {
	if c.cfg.ReportArrivals {
		c.report(q, ingest.PhaseArrived)
	}
	if c.cfg.Patience > 0 {
		c.patience.push(q)
	}
	switch {
	case c.tooLong(q):
		c.reject(q)
	case c.queue.len() >= c.cfg.MaxQueue:
		c.reject(q)
	default:
		c.queue.push(q)
		c.admit()
	}
}

// tooLong says that a request will never fit.
func (c *Cluster) tooLong(q *call) bool {
	return q.PromptTokens+q.OutputTokens > c.cfg.KVCapacityTokens
}

// reject ends an attempt, and plans the next.
func (c *Cluster) reject(q *call) {
	c.open.rejected++
	c.open.wait(c.now-q.arrived, c.cfg.SLO)
	c.metrics.Rejected++
	c.report(q, ingest.PhaseRejected)
	c.again(q)
}

// again ends an attempt that was not served, and plans the next.
func (c *Cluster) again(q *call) {
	q.over = true
	if q.attempt >= c.cfg.MaxAttempts || c.tooLong(q) {
		c.metrics.Failed++
		return
	}
	again := *q
	again.attempt++
	again.due = c.now + c.cfg.RetryAfter.Seconds()
	again.over, again.replica, again.generated = false, nil, 0
	again.started, again.token = math.NaN(), math.NaN()
	c.retries.push(&again)
}

// losePatience cancels an attempt, unless it is over.
func (c *Cluster) losePatience(q *call) {
	if q.over {
		return
	}
	r := q.replica
	switch {
	case r != nil:
		r.drop(q, c.now)
	case math.IsNaN(q.started):
		c.queue.remove(q)
	default:
		c.preempted = slices.DeleteFunc(c.preempted, func(other *call) bool { return other == q })
	}
	c.metrics.Cancelled++
	c.report(q, ingest.PhaseCancelled)
	c.again(q)
	if r != nil && r.state == ingest.ReplicaDraining && r.running() == 0 {
		c.remove(r)
	}
	c.admit()
}

// admit starts waiting requests while the first of them fits somewhere.
func (c *Cluster) admit() {
	for {
		var q *call
		if n := len(c.preempted); n > 0 {
			q = c.preempted[n-1]
		} else if head, ok := c.queue.head(); ok {
			q = head
		} else {
			return
		}
		var best *replica
		for _, r := range c.replicas {
			r.sync(c.now)
			if r.fits(q) && (best == nil || r.free() > best.free()) {
				best = r
			}
		}
		if best == nil {
			return
		}
		if n := len(c.preempted); n > 0 {
			c.preempted = c.preempted[:n-1]
		} else {
			c.queue.pop()
			c.open.wait(c.now-q.arrived, c.cfg.SLO)
			q.started = c.now
		}
		c.admitted++
		q.admitted = c.admitted
		best.take(q)
	}
}

// step handles whatever is due at a replica.
func (c *Cluster) step(r *replica) {
	if !r.serving() {
		r.warm(c)
		c.admit()
		return
	}
	r.sync(c.now)
	r.endPrefills(c)
	r.endOutputs(c)
	r.preempt(c)
	r.plan()
	if r.state == ingest.ReplicaDraining && r.running() == 0 {
		c.remove(r)
	}
	c.admit()
}

func (c *Cluster) clock(s float64) time.Time {
	return c.cfg.Start.Add(time.Duration(s * float64(time.Second)))
}
