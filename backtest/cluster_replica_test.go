package backtest

import (
	"container/heap"
	"math"
	"slices"
)

// tolerance absorbs rounding of the clock: events within it are due now, s. A float64 holds a decade of seconds to that
// precision.
const tolerance = 1e-7

// replica is one replica of a cluster. Its counters are valid at time at.
type replica struct {
	cfg  *ClusterConfig
	name string

	at   float64 // s; time of the counters
	next float64 // s; next event, +Inf if none

	prefilling callHeap // by mark on prefilled
	decoding   callHeap // by mark on decoded
	prefilled  float64  // prompt tokens per prefilling sequence since the replica started
	decoded    float64  // output tokens, in the same way
	itl        float64  // s, since at
	kv         float64  // tokens held

	preemptions, hits, queries int64 // totals
}

func (r *replica) running() int { return len(r.prefilling) + len(r.decoding) }

func (r *replica) free() float64 { return float64(r.cfg.KVCapacityTokens) - r.kv }

// fits reports whether the replica can start q now. It keeps one percent of the cache free for running sequences, so
// that an admission causes no preemption at once.
func (r *replica) fits(q *call) bool {
	if r.running() >= r.cfg.MaxNumSeqs {
		return false
	}
	return r.running() == 0 || r.kv+q.held() <= .99*float64(r.cfg.KVCapacityTokens)
}

// held returns the KV that q takes at its start.
func (q *call) held() float64 { return float64(q.PromptTokens) + q.generated }

// sync advances the counters to time t.
func (r *replica) sync(t float64) {
	dt := t - r.at
	if dt <= 0 {
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
		for _, s := range []*callHeap{&r.prefilling, &r.decoding} {
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
func (r *replica) stop(set *callHeap, i int) *call {
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
	for _, set := range []*callHeap{&r.prefilling, &r.decoding} {
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

// callHeap is a min-heap of calls. Len, Less, Swap, Push and Pop are for container/heap.
type callHeap []*call

// push adds a call. O(log n).
func (h *callHeap) push(q *call) { heap.Push(h, q) }

// remove removes element i. O(log n).
func (h *callHeap) remove(i int) *call { return heap.Remove(h, i).(*call) }

func (h callHeap) Len() int           { return len(h) }
func (h callHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h callHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *callHeap) Push(x any)        { *h = append(*h, x.(*call)) }

func (h *callHeap) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	*h = (*h)[:last]
	return q
}
