package backtest

import (
	stdheap "container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/forewarm/forewarm/ingest"
)

// tolerance absorbs rounding of the clock: events within it are due now, s. A float64 holds a decade of seconds to that
// precision.
const tolerance = 1e-7

// replica is one replica of a cluster. Its counters are valid at time at.
type replica struct {
	cfg   *ClusterConfig
	name  string
	state ingest.ReplicaState

	at   float64 // s; time of the counters
	next float64 // s; next event, +Inf if none

	prefilling heap[*call] // by mark on prefilled
	decoding   heap[*call] // by mark on decoded
	prefilled  float64     // prompt tokens per prefilling sequence since the replica started
	decoded    float64     // output tokens, in the same way
	itl        float64     // s, since at
	kv         float64     // tokens held

	preemptions, hits, queries int64   // totals
	readyAt                    float64 // s
}

// newReplica starts a replica in a state. If it is not ready, it draws its warm-up.
func (c *Cluster) newReplica(state ingest.ReplicaState) *replica {
	r := &replica{cfg: &c.cfg, state: state, at: c.now, next: math.Inf(1)}
	r.itl = c.cfg.ITL.At(0, 0)
	if state == ingest.ReplicaReady {
		r.name = fmt.Sprintf("%s-i%d", c.cfg.Pool, len(c.replicas)+1)
		return r
	}
	c.started++
	r.name = fmt.Sprintf("%s-%d", c.cfg.Pool, c.started)
	lag := warmupDraw(c.cfg.Warmup.P50.Seconds(), c.cfg.Warmup.P90.Seconds(), c.seed, c.started)
	r.readyAt = c.now + lag
	r.next = c.now + lag*c.cfg.PendingShare
	return r
}

// z90 is the 0.9 quantile of the standard normal distribution.
const z90 = 1.2815515655446004

// warmupDraw returns the warm-up of the k-th started replica in seconds: lognormal, a function of seed and k only.
func warmupDraw(p50, p90 float64, seed, k uint64) float64 {
	sigma := math.Log(p90/p50) / z90
	return p50 * math.Exp(sigma*rand.New(rand.NewPCG(seed, k)).NormFloat64())
}

func (r *replica) serving() bool {
	return r.state == ingest.ReplicaReady || r.state == ingest.ReplicaDraining
}

// warm moves the replica to its next state: pending, loading, ready.
func (r *replica) warm(c *Cluster) {
	r.at = c.now
	if r.state == ingest.ReplicaPending {
		r.state, r.next = ingest.ReplicaLoading, r.readyAt
	} else {
		r.state, r.next = ingest.ReplicaReady, math.Inf(1)
	}
	c.observe(r)
}

func (r *replica) running() int { return len(r.prefilling) + len(r.decoding) }

func (r *replica) free() float64 { return float64(r.cfg.KVCapacityTokens) - r.kv }

// fits reports whether the replica can start q now. It keeps one percent of the cache free for running sequences, so
// that an admission causes no preemption at once.
func (r *replica) fits(q *call) bool {
	if r.state != ingest.ReplicaReady || r.running() >= r.cfg.MaxNumSeqs {
		return false
	}
	return r.running() == 0 || r.kv+q.held() <= .99*float64(r.cfg.KVCapacityTokens)
}

// held returns the KV that q takes at its start.
func (q *call) held() float64 { return float64(q.PromptTokens) + q.generated }

// sync advances the counters to time t.
func (r *replica) sync(t float64) {
	dt := t - r.at
	if dt <= 0 || !r.serving() {
		return
	}
	r.at = t
	if n := len(r.prefilling); n > 0 {
		r.prefilled += dt * r.cfg.PrefillTokensPerS / float64(n)
	}
	if n := len(r.decoding); n > 0 {
		r.decoded += dt / r.itl
		r.kv += dt / r.itl * float64(n)
	}
}

// plan updates the rates and finds the next event. The counters must be current.
func (r *replica) plan() {
	r.itl = r.cfg.ITL.At(len(r.decoding), r.kv)
	r.next = r.at + min(r.untilPrompt(), r.untilOutput(), r.untilFull())
}

// untilPrompt, untilOutput and untilFull are the seconds until the first prompt ends, the first output ends, and the
// cache is full, at the current rates; +Inf means never.

func (r *replica) untilPrompt() float64 {
	n := len(r.prefilling)
	if n == 0 {
		return math.Inf(1)
	}
	return max(0, r.prefilling[0].mark-r.prefilled) * float64(n) / r.cfg.PrefillTokensPerS
}

func (r *replica) untilOutput() float64 {
	if len(r.decoding) == 0 {
		return math.Inf(1)
	}
	return max(0, r.decoding[0].mark-r.decoded) * r.itl
}

func (r *replica) untilFull() float64 {
	n := len(r.decoding)
	if n == 0 || r.running() < 2 {
		return math.Inf(1)
	}
	return max(0, r.free()) * r.itl / float64(n)
}

// start starts q. It computes the prompt and the output from before a preemption, except for the cached part.
func (r *replica) start(q *call) {
	q.kv, q.replica = q.held(), r
	r.kv += q.kv
	r.queries += q.PromptTokens
	r.hits += q.CachedTokens
	q.mark = r.prefilled + q.kv - float64(q.CachedTokens)
	r.prefilling.push(q)
	r.plan()
}

// endPrefills starts decoding the prompts that are complete, with their first token.
func (r *replica) endPrefills(c *Cluster) {
	for r.untilPrompt() < tolerance {
		q := r.prefilling.remove(0)
		if math.IsNaN(q.token) {
			q.token = c.now
		}
		q.generated++
		q.kv++
		r.kv++
		q.from = r.decoded
		q.mark = r.decoded + max(0, float64(q.OutputTokens)-q.generated)
		r.decoding.push(q)
	}
}

// endOutputs finishes the sequences that have all their tokens.
func (r *replica) endOutputs(c *Cluster) {
	for r.untilOutput() < tolerance {
		q := r.decoding.remove(0)
		r.release(q.kv + q.mark - q.from)
		c.finish(q)
	}
}

// preempt frees a full cache: it stops the newest sequences until the rest can continue.
func (r *replica) preempt(c *Cluster) {
	for r.untilFull() < tolerance {
		set, at := &r.decoding, -1
		var newest uint64
		for _, s := range []*heap[*call]{&r.prefilling, &r.decoding} {
			for i, q := range *s {
				if q.admitted > newest {
					set, at, newest = s, i, q.admitted
				}
			}
		}
		q := r.stop(set, at)
		r.preemptions++
		c.metrics.Preemptions++
		c.preempted = append(c.preempted, q)
	}
}

// stop removes element i of a set of sequences, and updates its counts.
func (r *replica) stop(set *heap[*call], i int) *call {
	q := set.remove(i)
	if set == &r.decoding {
		more := r.decoded - q.from
		q.generated += more
		q.kv += more
	}
	q.replica = nil
	r.release(q.kv)
	return q
}

// cancel removes q at time t.
func (r *replica) cancel(q *call, t float64) {
	r.sync(t)
	for _, set := range []*heap[*call]{&r.prefilling, &r.decoding} {
		if i := slices.Index(*set, q); i >= 0 {
			r.stop(set, i)
			break
		}
	}
	r.plan()
}

// release frees KV. An empty replica holds exactly none, in spite of rounding.
func (r *replica) release(kv float64) {
	r.kv = max(0, r.kv-kv)
	if r.running() == 0 {
		r.kv = 0
	}
}

// ordered is an element of a heap.
type ordered[T any] interface{ before(other T) bool }

// heap is a min-heap: no element comes before the first.
type heap[T ordered[T]] []T

// push adds an element. O(log n).
func (h *heap[T]) push(x T) { stdheap.Push(h, x) }

// remove removes element i. O(log n).
func (h *heap[T]) remove(i int) T { return stdheap.Remove(h, i).(T) }

// Len, Less, Swap, Push and Pop are for container/heap.
func (h heap[T]) Len() int           { return len(h) }
func (h heap[T]) Less(i, j int) bool { return h[i].before(h[j]) }
func (h heap[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heap[T]) Push(x any)        { *h = append(*h, x.(T)) }

func (h *heap[T]) Pop() any {
	var none T
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = none
	*h = (*h)[:last]
	return x
}
