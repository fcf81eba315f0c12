package backtest

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// Cluster is a simulated pool at request level.
//
// Requests wait in one FIFO queue. The first goes to the ready replica with the most free KV tokens, a free slot and
// room for the prompt. A replica's prompts share its prefill rate equally. It decodes its sequences together, one token
// each per ITL(b, kv). Each output token holds KV. When the cache is full the newest sequence is preempted, and later
// computes its prompt and output again. A request that waits too long is rejected and retried.
//
// Time is continuous. A replica's rates are constant between its events, and updated each second. So a sequence ends
// when a token counter passes a mark, and an event costs O(log b).
//
// The warm-up of the k-th started replica depends only on the seed and k, so it is the same for all policies. A Cluster
// is not safe for concurrent use.
type Cluster struct {
	cfg  ClusterConfig
	seed uint64
	now  float64 // s since cfg.Start
	tick float64 // s; the next whole second

	replicas []*replica // pending to draining, in order of start
	started  uint64     // replicas started after the initial ones
	orders   replicaOrders
	admitted uint64

	arrivals  []Arrival // submitted, in the future
	retries   []*call   // due RetryAfter after their rejection, in order
	queue     []*call   // never started
	preempted []*call   // before the queue, newest preemption last
	patience  []*call   // all attempts by start time, including ended ones

	requests []ingest.Request
	states   []ingest.Replica
	metrics  Metrics
	minute   Minute
	slow     bool  // a request of this minute waited longer than the objective
	rejected int64 // attempts before this minute
}

// call is one attempt of one request.
type call struct {
	Arrival
	attempt        int
	first, arrived float64 // s: start of the first attempt, of this one
	started, token float64 // s: left the queue, first token; NaN before
	due            float64 // s: of a retry
	admitted       uint64  // order of admission
	generated      float64 // output tokens so far, updated at preemption
	replica        *replica
	over           bool
	kv             float64 // tokens held at the start of decode or prefill
	mark           float64 // value of the replica's prefill or decode counter at the end of this phase
	from           float64 // decode counter at the start of decode
}

// before orders calls by mark, ties by order of admission.
func (q *call) before(other *call) bool {
	return q.mark < other.mark || q.mark == other.mark && q.admitted < other.admitted
}

// NewCluster creates a pool with its initial replicas ready.
func NewCluster(cfg ClusterConfig, seed uint64) *Cluster {
	if cfg.Start.IsZero() {
		cfg.Start = DefaultStart
	}
	c := &Cluster{cfg: cfg, seed: seed, orders: replicaOrders{target: cfg.Initial, warmup: cfg.Warmup.P90}, tick: 1}
	c.minute.KVUse = math.NaN()
	for range cfg.Initial {
		c.replicas = append(c.replicas, c.newReplica(ingest.ReplicaReady))
	}
	return c
}

// Submit adds an arrival, in order of time and not before the cluster's clock. It takes effect when Advance passes its
// time.
func (c *Cluster) Submit(a Arrival) { c.arrivals = append(c.arrivals, a) }

// Now returns the cluster's clock.
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

// next returns the earliest event. At equal times replicas come first, so that they free capacity, and the second comes
// last. O(replicas).
func (c *Cluster) next() (at float64, do func()) {
	at, do = c.tick, c.endSecond
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
		earlier(c.patience[0].arrived+c.cfg.Patience.Seconds(), c.cancelOldest)
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

// pop removes the first element of a queue that is not empty.
func pop[T any](queue *[]T) T {
	x := (*queue)[0]
	*queue = (*queue)[1:]
	return x
}

// endSecond updates the rates of all replicas, and closes the minute at its end.
func (c *Cluster) endSecond() {
	c.tick++
	for _, r := range c.replicas {
		if r.serving() {
			r.sync(c.now)
			r.plan()
		}
		if r.state != ingest.ReplicaPending { // a replica holds its GPUs from loading on
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

// tooLong reports whether a request can never fit.
func (c *Cluster) tooLong(q *call) bool {
	return q.PromptTokens+q.OutputTokens > c.cfg.KVCapacityTokens
}

// noteWait records the waiting time of an attempt.
func (c *Cluster) noteWait(q *call) {
	c.slow = c.slow || c.now-q.arrived > c.cfg.SLO.TTFT.Seconds()
}

// reject ends an attempt and schedules the next.
func (c *Cluster) reject(q *call) {
	c.noteWait(q)
	c.metrics.Rejected++
	c.report(q, ingest.PhaseRejected)
	c.scheduleRetry(q)
}

// scheduleRetry ends an attempt that was not served, and schedules the next.
func (c *Cluster) scheduleRetry(q *call) {
	q.over = true
	if q.attempt >= c.cfg.MaxAttempts || c.tooLong(q) {
		c.metrics.Failed++
		return
	}
	c.retries = append(c.retries, &call{
		Arrival: q.Arrival, attempt: q.attempt + 1, first: q.first, arrived: q.arrived, due: c.now + c.cfg.RetryAfter.Seconds(), started: math.NaN(), token: math.NaN(),
	})
}

// cancelOldest cancels the oldest attempt if it is still open.
func (c *Cluster) cancelOldest() {
	q := pop(&c.patience)
	if q.over {
		return
	}
	r, same := q.replica, func(other *call) bool { return other == q }
	switch {
	case r != nil:
		r.cancel(q, c.now)
	case math.IsNaN(q.started):
		c.queue = slices.DeleteFunc(c.queue, same)
	default:
		c.preempted = slices.DeleteFunc(c.preempted, same)
	}
	c.metrics.Cancelled++
	c.report(q, ingest.PhaseCancelled)
	c.scheduleRetry(q)
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
			c.noteWait(q)
			q.started = c.now
		}
		c.admitted++
		q.admitted = c.admitted
		best.start(q)
	}
}

// step handles the due events of a replica.
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

// SetDesired asks for n replicas, within the pool's bounds. New ones start at once and warm up. To remove some, it
// first cancels the newest that warm up. Then the ready ones with the least work drain: they accept no requests, finish
// their work, and stop.
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
		r := c.nextToRemove()
		if !r.serving() || r.running() == 0 {
			c.remove(r)
			continue
		}
		r.state = ingest.ReplicaDraining
		c.observe(r)
	}
}

// nextToRemove returns the next replica to remove.
func (c *Cluster) nextToRemove() *replica {
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

// ClusterConfig describes a simulated pool. Start from [DefaultClusterConfig].
type ClusterConfig struct {
	Pool  string
	Start time.Time // start of the cluster's clock; zero means DefaultStart

	Initial, Min, Max int          // replicas; the initial ones are ready at Start
	Warmup            capacity.Lag // from the order of a replica until it is ready; lognormal
	PendingShare      float64      // share of the warm-up before a machine is found; the rest loads weights
	GPUsPerReplica    int

	KVCapacityTokens  int64
	MaxNumSeqs        int     // sequences per replica at once
	PrefillTokensPerS float64 // of one replica, shared among its prompts
	ITL               ITL

	// A request is rejected after QueueTimeout, or if MaxQueue requests wait. The client retries after RetryAfter, with
	// up to MaxAttempts attempts.
	QueueTimeout, RetryAfter time.Duration
	MaxAttempts, MaxQueue    int
	// Patience is the time after which the client cancels an attempt in any phase, and retries in the same way. Zero
	// means never.
	Patience time.Duration
	// ReportArrivals makes the pool also write a record when an attempt arrives.
	ReportArrivals bool

	SLO SLO
}

// ITL is the time per output token: ITL(b, kv) = Base + PerSequence·b + PerThousandKV·kv/1000 for b sequences that hold
// kv tokens. Each iteration reads the weights once, and each sequence's cache.
type ITL struct {
	Base, PerSequence, PerThousandKV time.Duration
}

// At returns the inter-token latency in seconds.
func (l ITL) At(sequences int, kvTokens float64) float64 {
	return l.Base.Seconds() + l.PerSequence.Seconds()*float64(sequences) + l.PerThousandKV.Seconds()/1000*kvTokens
}

// SLO holds the service level objectives.
type SLO struct {
	// TTFT bounds the time from the client's first attempt to the first token. TTFTStretch times the prompt's time on
	// an idle replica is added, because a long prompt may take longer.
	TTFT        time.Duration
	TTFTStretch float64
	// ITL bounds the mean time per output token after the first.
	ITL time.Duration
	// Waiting is the largest queue per ready replica at the end of a minute that does not count as queued.
	Waiting float64
}

// DefaultClusterConfig has replicas like a 30-billion-parameter model on two GPUs, with about eight minutes of warm-up.
func DefaultClusterConfig() ClusterConfig {
	return ClusterConfig{
		Pool: "demo", Initial: 4, Min: 1, Max: 24,
		Warmup: capacity.Lag{P50: 8 * time.Minute, P90: 11 * time.Minute}, PendingShare: .2, GPUsPerReplica: 2,
		KVCapacityTokens: 128_000, MaxNumSeqs: 64, PrefillTokensPerS: 7000,
		ITL:          ITL{Base: 14 * time.Millisecond, PerSequence: 150 * time.Microsecond, PerThousandKV: 30 * time.Microsecond},
		QueueTimeout: 30 * time.Second, RetryAfter: 5 * time.Second, MaxAttempts: 3, MaxQueue: 4096,
		SLO: SLO{TTFT: 3 * time.Second, TTFTStretch: 4, ITL: 60 * time.Millisecond, Waiting: 4},
	}
}

// DecodeTokensPerS is the decode goodput of a replica with sequences of context tokens on average: b/ITL(b, b·context)
// for the largest b within MaxNumSeqs, KVTarget of the cache, and the objective.
func (c *ClusterConfig) DecodeTokensPerS(context float64) float64 {
	best := 0.0
	for b := 1; b <= c.MaxNumSeqs; b++ {
		kv := float64(b) * context
		itl := c.ITL.At(b, kv)
		if kv > kvTarget*float64(c.KVCapacityTokens) || itl > c.SLO.ITL.Seconds() {
			break
		}
		best = max(best, float64(b)/itl)
	}
	return best
}

// Planned shares of a replica's KV cache and prefill rate.
const kvTarget, prefillTarget = 0.85, 0.7

// Capacity is this pool's configuration for a forecaster, for sequences of context tokens on average.
func (c *ClusterConfig) Capacity(context float64) capacity.Config {
	return capacity.Config{
		Name: c.Pool, KVCapacityTokens: int(c.KVCapacityTokens), KVTarget: kvTarget, GPU: capacity.GPU{PerReplica: c.GPUsPerReplica},
		PrefillTokensPerS: c.PrefillTokensPerS, PrefillTarget: prefillTarget, DecodeTokensPerS: c.DecodeTokensPerS(context), MaxNumSeqs: c.MaxNumSeqs,
		ITL: c.SLO.ITL, Warmup: c.Warmup, Replicas: capacity.Replicas{Min: c.Min, Max: c.Max, Initial: c.Initial},
	}
}
