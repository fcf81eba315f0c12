package backtest

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// Cluster is a simulated pool at request level.
//
// Requests wait in one queue, first come, first served. The first goes to the ready replica with the most free KV tokens that has a
// free slot and room for the prompt. A replica computes its prompts side by side (the prefill rate is shared equally) and decodes
// its sequences together, one token each every ITL(b, kv). Every output token holds KV; when the cache is full the newest sequence
// is preempted, and later computes its prompt and its output so far again. A request that waits too long is rejected and tried again.
//
// Time is continuous. Between two events of a replica its rates are taken as constant, and they are refreshed each second. So the
// end of a sequence is the time at which a counter of tokens passes a mark, and an event costs O(log b).
//
// The warm-up of the k-th started replica depends on the seed and k alone, so it is the same under all policies. A Cluster is not
// safe for concurrent use.
type Cluster struct {
	cfg  ClusterConfig
	seed uint64
	now  float64 // s since cfg.Start
	tick float64 // s; the next whole second

	replicas []*replica // pending to draining, in order of start
	started  uint64     // replicas started after the initial ones
	orders   orders
	admitted uint64

	arrivals  []Arrival // submitted, not due yet
	retries   []*call   // due RetryAfter from their rejection, in order
	queue     []*call   // never started
	preempted []*call   // go before the queue, newest preemption last
	patience  []*call   // every attempt by its beginning, those that are over included

	requests []ingest.Request
	states   []ingest.Replica
	metrics  Metrics
	minute   Minute
	slow     bool  // a request of the open minute waited longer than the objective
	rejected int64 // attempts before the open minute
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

// before orders calls by mark, ties by order of admission.
func (q *call) before(other *call) bool {
	return q.mark < other.mark || q.mark == other.mark && q.admitted < other.admitted
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
func (c *Cluster) Submit(a Arrival) { c.arrivals = append(c.arrivals, a) }

// Now is the cluster's clock.
func (c *Cluster) Now() time.Time { return c.clock(c.now) }

// Advance runs the pool until a time.
func (c *Cluster) Advance(until time.Time) {
	end := until.Sub(c.cfg.Start).Seconds()
	for {
		at, do := c.next()
		if at > end {
			break
		}
		c.now = max(c.now, at)
		do()
	}
	c.now = max(c.now, end)
}

// next is the earliest event. Of those at the same time a replica's comes first and the second's last, so that capacity frees
// before it is asked for. O(replicas).
func (c *Cluster) next() (at float64, do func()) {
	at, do = c.tick, c.second
	earlier := func(t float64, what func()) {
		if t <= at {
			at, do = t, what
		}
	}
	if len(c.arrivals) > 0 {
		earlier(c.arrivals[0].At.Sub(c.cfg.Start).Seconds(), c.arrive)
	}
	if len(c.retries) > 0 {
		earlier(c.retries[0].due, c.retry)
	}
	if len(c.patience) > 0 {
		earlier(c.patience[0].arrived+c.cfg.Patience.Seconds(), c.losePatience)
	}
	if len(c.queue) > 0 {
		earlier(c.queue[0].arrived+c.cfg.QueueTimeout.Seconds(), func() { c.reject(pop(&c.queue)) })
	}
	var first *replica
	for _, r := range c.replicas {
		if r.next < at || r.next == at && first == nil {
			at, first = r.next, r
		}
	}
	if first != nil {
		do = func() { c.step(first) }
	}
	return at, do
}

// pop takes the first element out of a queue that is not empty.
func pop[T any](queue *[]T) T {
	x := (*queue)[0]
	*queue = (*queue)[1:]
	return x
}

// second refreshes the rates of every replica, and closes the minute when one is over.
func (c *Cluster) second() {
	c.tick++
	for _, r := range c.replicas {
		if r.serving() {
			r.sync(c.now)
			r.plan()
		}
		if r.state != ingest.ReplicaPending { // it occupies its GPUs from loading on
			c.metrics.GPUHours += float64(c.cfg.GPUsPerReplica) / 3600
		}
	}
	if int64(c.now)%60 == 0 {
		c.endMinute()
	}
}

func (c *Cluster) arrive() {
	c.metrics.Requests++
	c.enqueue(&call{Arrival: pop(&c.arrivals), attempt: 1, first: c.now, arrived: c.now, started: math.NaN(), token: math.NaN()})
}

func (c *Cluster) retry() {
	q := pop(&c.retries)
	c.metrics.Retries++
	q.arrived = c.now
	c.enqueue(q)
}

func (c *Cluster) enqueue(q *call) {
	if c.cfg.ReportArrivals {
		c.report(q, ingest.PhaseArrived)
	}
	if c.cfg.Patience > 0 {
		c.patience = append(c.patience, q)
	}
	if c.tooLong(q) || len(c.queue) >= c.cfg.MaxQueue {
		c.reject(q)
		return
	}
	c.queue = append(c.queue, q)
	c.admit()
}

// tooLong says that a request will never fit.
func (c *Cluster) tooLong(q *call) bool {
	return q.PromptTokens+q.OutputTokens > c.cfg.KVCapacityTokens
}

// waited notes how long an attempt waited, at the end of its wait.
func (c *Cluster) waited(q *call) {
	c.slow = c.slow || c.now-q.arrived > c.cfg.SLO.TTFT.Seconds()
}

// reject ends an attempt, and plans the next.
func (c *Cluster) reject(q *call) {
	c.waited(q)
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
	c.retries = append(c.retries, &call{
		Arrival: q.Arrival, attempt: q.attempt + 1, first: q.first, arrived: q.arrived, due: c.now + c.cfg.RetryAfter.Seconds(), started: math.NaN(), token: math.NaN(),
	})
}

// losePatience cancels the oldest attempt, unless it is over.
func (c *Cluster) losePatience() {
	q := pop(&c.patience)
	if q.over {
		return
	}
	r, same := q.replica, func(other *call) bool { return other == q }
	switch {
	case r != nil:
		r.drop(q, c.now)
	case math.IsNaN(q.started):
		c.queue = slices.DeleteFunc(c.queue, same)
	default:
		c.preempted = slices.DeleteFunc(c.preempted, same)
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
	for len(c.preempted)+len(c.queue) > 0 {
		last := len(c.preempted) - 1
		var q *call
		if last >= 0 {
			q = c.preempted[last]
		} else {
			q = c.queue[0]
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
		if last >= 0 {
			c.preempted = c.preempted[:last]
		} else {
			pop(&c.queue)
			c.waited(q)
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

// SetDesired asks for n replicas, within the pool's bounds. More are started at once and warm up. Of fewer, those still warming up
// are given up first, the newest before the others, and then the ready ones with the least to do drain: they take nothing new,
// finish what they have, and go.
func (c *Cluster) SetDesired(n int) {
	n = min(c.cfg.Max, max(c.cfg.Min, n))
	c.orders.set(n, c.Now())
	c.metrics.ScaleActions = c.orders.actions
	alive := 0
	for _, r := range c.replicas {
		if r.state != ingest.ReplicaDraining {
			alive++
		}
	}
	for ; alive < n; alive++ {
		r := c.newReplica(ingest.ReplicaPending)
		c.replicas = append(c.replicas, r)
		c.observe(r)
	}
	for ; alive > n; alive-- {
		r := c.superfluous()
		if !r.serving() || r.running() == 0 {
			c.remove(r)
			continue
		}
		r.state = ingest.ReplicaDraining
		c.observe(r)
	}
}

// superfluous is the replica to give up next.
func (c *Cluster) superfluous() *replica {
	var least *replica
	for _, r := range slices.Backward(c.replicas) {
		switch {
		case r.state == ingest.ReplicaDraining:
		case !r.serving():
			return r
		case least == nil || r.running() < least.running():
			least = r
		}
	}
	return least
}

// remove takes a replica out of the pool.
func (c *Cluster) remove(r *replica) {
	r.state = ingest.ReplicaGone
	c.observe(r)
	c.replicas = slices.DeleteFunc(c.replicas, func(other *replica) bool { return other == r })
}
