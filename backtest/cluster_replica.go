package backtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/forewarm/forewarm/ingest"
)

// instant absorbs rounding of the clock: what is due within it is due now, s. A float64 holds a decade of seconds to
// that precision.
const instant = 1e-7

// replica is one replica of a cluster. Its counters are as of at.
type replica struct {
	cfg   *ClusterConfig
	name  string
	state ingest.ReplicaState

	at   float64 // s; the counters hold for this time
	next float64 // s; its next event, +Inf for none

	prefilling heap[*call] // by mark on prefilled
	decoding   heap[*call] // by mark on decoded
	prefilled  float64     // prompt tokens that each prefilling sequence has been given since the replica began
	decoded    float64     // output tokens, likewise
	itl        float64     // s, since at
	kv         float64     // tokens held

	preemptions, hits, queries int64   // totals
	askedAt, readyAt           float64 // s
}

// newReplica starts a replica in a state; one that is not ready yet draws its warm-up.
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
	r.askedAt, r.readyAt = c.now, c.now+lag
	r.next = c.now + lag*c.cfg.PendingShare
	return r
}

// z90 is the 0.9 quantile of the standard normal distribution.
const z90 = 1.2815515655446004

// warmupDraw is the warm-up of the k-th started replica in seconds: lognormal, a function of seed and k alone.
func warmupDraw(p50, p90 float64, seed, k uint64) float64 {
	sigma := math.Log(p90/p50) / z90
	return p50 * math.Exp(sigma*rand.New(rand.NewPCG(seed, k)).NormFloat64())
}

func (r *replica) serving() bool {
	return r.state == ingest.ReplicaReady || r.state == ingest.ReplicaDraining
}

// warm takes the replica one state further: pending, loading, ready.
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

// fits says whether the replica can start q now. One percent of the cache is kept free for the sequences that run, so
// that an admission does not preempt the next moment.
func (r *replica) fits(q *call) bool {
	if r.state != ingest.ReplicaReady || r.running() >= r.cfg.MaxNumSeqs {
		return false
	}
	return r.running() == 0 || r.kv+q.held() <= .99*float64(r.cfg.KVCapacityTokens)
}

// held is the KV that q takes when it starts.
func (q *call) held() float64 { return float64(q.PromptTokens) + q.generated }

// sync brings the counters to time t.
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

// plan sets the rates from now on and finds the next event. The counters must be up to date.
func (r *replica) plan() {
	r.itl = r.cfg.ITL.At(len(r.decoding), r.kv)
	r.next = r.at + min(r.untilPrompt(), r.untilOutput(), r.untilFull())
}

// untilPrompt, untilOutput and untilFull are the seconds until the first prompt is done, the first output is done, and
// the cache is full at the present rates; +Inf when that does not come.

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

// take starts q: its prompt, and what it had generated before a preemption, is computed except for the cached part.
func (r *replica) take(q *call) {
	q.kv, q.replica = q.held(), r
	r.kv += q.kv
	r.queries += q.PromptTokens
	r.hits += q.CachedTokens
	q.mark = r.prefilled + q.kv - float64(q.CachedTokens)
	r.prefilling.push(q)
	r.plan()
}

// endPrefills gives the prompts that are done their first token and lets them decode.
func (r *replica) endPrefills(c *Cluster) {
	for r.untilPrompt() < instant {
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
	for r.untilOutput() < instant {
		q := r.decoding.remove(0)
		r.release(q.kv + q.mark - q.from)
		c.finish(q)
	}
}

// preempt frees the cache when it is full: the newest sequences give way until the rest can go on.
func (r *replica) preempt(c *Cluster) {
	for r.untilFull() < instant {
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

// stop takes out element i of a set of sequences, and brings its counts up to date.
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

// drop takes out q at time t.
func (r *replica) drop(q *call, t float64) {
	r.sync(t)
	for _, set := range []*heap[*call]{&r.prefilling, &r.decoding} {
		if i := slices.Index(*set, q); i >= 0 {
			r.stop(set, i)
			break
		}
	}
	r.plan()
}

// release frees KV; an empty replica holds none, whatever rounding left.
func (r *replica) release(kv float64) {
	r.kv = max(0, r.kv-kv)
	if r.running() == 0 {
		r.kv = 0
	}
}
