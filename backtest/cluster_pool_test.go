package backtest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// Arrival is one request of a synthetic workload, as sent by the client.
type Arrival struct {
	ID            uint64 // 1, 2, … in order of time
	At            time.Time
	Class, Tenant string
	Session       uint64 // never 0
	// Token counts: the prompt includes the cached tokens; the output is what the model will write.
	PromptTokens, CachedTokens, OutputTokens, MaxOutputTokens int64
}

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
// The replicas are all ready, and their number is constant. A Cluster is not safe for concurrent use.
type Cluster struct {
	cfg  ClusterConfig
	now  float64 // s since cfg.Start
	tick float64 // s; the next whole second

	replicas []*replica
	admitted uint64

	arrivals  []Arrival // submitted, in the future
	retries   []*call   // due RetryAfter after their rejection, in order
	queue     []*call   // never started
	preempted []*call   // before the queue, newest preemption last
	patience  []*call   // all attempts by start time, including ended ones

	requests []ingest.Request
	states   []ingest.Replica
	metrics  Metrics
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

// NewCluster creates a pool.
func NewCluster(cfg ClusterConfig) *Cluster {
	c := &Cluster{cfg: cfg, tick: 1}
	for i := range cfg.Replicas {
		c.replicas = append(c.replicas, &replica{
			cfg: &c.cfg, name: fmt.Sprintf("%s-i%d", cfg.Pool, i+1), next: math.Inf(1), itl: cfg.ITL.At(0, 0),
		})
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
	end := until.Sub(DefaultStart).Seconds()
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
		earlier(c.arrivals[0].At.Sub(DefaultStart).Seconds(), c.arrive)
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

// endSecond updates the rates of all replicas, and reports them at the end of a minute.
func (c *Cluster) endSecond() {
	c.tick++
	for _, r := range c.replicas {
		r.sync(c.now)
		r.plan()
	}
	if int64(c.now)%60 == 0 {
		for i, r := range c.replicas {
			c.observe(r, i)
		}
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

// reject ends an attempt and schedules the next.
func (c *Cluster) reject(q *call) {
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
			q.started = c.now
		}
		c.admitted++
		q.admitted = c.admitted
		best.start(q)
	}
}

// step handles the due events of a replica.
func (c *Cluster) step(r *replica) {
	r.sync(c.now)
	r.endPrefills(c)
	r.endOutputs(c)
	r.preempt(c)
	r.plan()
	c.admit()
}

func (c *Cluster) clock(s float64) time.Time {
	return DefaultStart.Add(time.Duration(s * float64(time.Second)))
}

// ClusterConfig describes a simulated pool. Start from [DefaultClusterConfig].
type ClusterConfig struct {
	Pool     string
	Replicas int

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

	Objective time.Duration // for the mean time per output token
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

// DefaultClusterConfig has replicas like a 30-billion-parameter model on two GPUs.
func DefaultClusterConfig() ClusterConfig {
	return ClusterConfig{
		Pool: "demo", Replicas: 4, KVCapacityTokens: 128_000, MaxNumSeqs: 64, PrefillTokensPerS: 7000,
		ITL:          ITL{Base: 14 * time.Millisecond, PerSequence: 150 * time.Microsecond, PerThousandKV: 30 * time.Microsecond},
		QueueTimeout: 30 * time.Second, RetryAfter: 5 * time.Second, MaxAttempts: 3, MaxQueue: 4096, Objective: 60 * time.Millisecond,
	}
}

// DecodeTokensPerS returns the decode goodput of a replica whose sequences hold context tokens on average:
// b/ITL(b, b·context) for the largest b within MaxNumSeqs, KVTarget of the cache, and the objective.
func (c *ClusterConfig) DecodeTokensPerS(context float64) float64 {
	best := 0.0
	for b := 1; b <= c.MaxNumSeqs; b++ {
		kv := float64(b) * context
		itl := c.ITL.At(b, kv)
		if kv > kvTarget*float64(c.KVCapacityTokens) || itl > c.Objective.Seconds() {
			break
		}
		best = max(best, float64(b)/itl)
	}
	return best
}

// prefillTarget is the planned share of a replica's prefill rate.
const prefillTarget = 0.7

// Capacity returns this pool's configuration for a forecaster, for sequences that hold context tokens on average.
func (c *ClusterConfig) Capacity(context float64) capacity.Config {
	return capacity.Config{
		Name: c.Pool, KVCapacityTokens: int(c.KVCapacityTokens), KVTarget: kvTarget, PrefillTokensPerS: c.PrefillTokensPerS, PrefillTarget: prefillTarget,
		DecodeTokensPerS: c.DecodeTokensPerS(context), MaxNumSeqs: c.MaxNumSeqs, ITL: c.Objective,
		Warmup: capacity.Lag{P50: 8 * time.Minute, P90: 11 * time.Minute}, Replicas: capacity.Replicas{Min: c.Replicas, Max: c.Replicas, Initial: c.Replicas},
	}
}
