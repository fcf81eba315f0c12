package features

import (
	"math"
	"math/bits"
)

const (
	promptBuckets = 7
	// shapeMemory is how many requests an expected value remembers: each newer one weighs 1/shapeMemory, so that the
	// mean of exponential lengths has a standard error of about 1.6 %.
	shapeMemory = 2048
	// shapePrior is the weight of what is known in general, in requests, against what is known in particular.
	shapePrior = 4
	// paceLeast is how many requests say how fast a class is served.
	paceLeast = 8
)

// promptBucket sorts prompts by length: below 128 tokens, and then by factors of four up to 128 Ki and beyond.
func promptBucket(tokens int64) int {
	return min(max(bits.Len64(uint64(max(tokens, 0)))-6, 0)/2, promptBuckets-1)
}

// ratio is a fading Σ Value / Σ Per over the latest shapeMemory requests or so, kept as two means.
type ratio struct {
	N     float32 `cbor:"1,keyasint,omitempty"` // requests, at most shapeMemory
	Value float32 `cbor:"2,keyasint,omitempty"`
	Per   float32 `cbor:"3,keyasint,omitempty"`
}

// add takes in the sums over n requests.
func (r *ratio) add(n, value, per float32) {
	r.N = min(r.N+n, shapeMemory)
	share := min(n/r.N, 1)
	r.Value += (value/n - r.Value) * share
	r.Per += (per/n - r.Per) * share
}

// of is the ratio; NaN when there is none.
func (r *ratio) of() float64 {
	if !(r.Per > 0) {
		return math.NaN()
	}
	return float64(r.Value) / float64(r.Per)
}

// Expected is what requests of one class, or of one pool, turn out to need, learnt from those that were served. It
// fades by requests and not by time, so that a class remembers through a quiet night. 204 bytes.
type Expected struct {
	Output  [promptBuckets]ratio `cbor:"1,keyasint"` // output tokens per request, by prompt length
	Cached  [promptBuckets]ratio `cbor:"2,keyasint"` // cached tokens per prompt token, by prompt length
	Prefill ratio                `cbor:"3,keyasint"` // s per uncached prompt token, of requests that did not queue
	Decode  ratio                `cbor:"4,keyasint"` // s per output token, likewise
	Hits    ratio                `cbor:"5,keyasint"` // cached tokens per prompt token, of all prompts
}

// outputOf is the expected output of a prompt in tokens, by shrinkage: the mean of the prompt's bucket, with the mean of
// the whole class for shapePrior more requests, and that with what is usual in the pool for as many. NaN when nothing was
// served yet.
func (e *Expected) outputOf(bucket int, usual float64) float64 {
	return shrunk(&e.Output, usual, bucket)
}

// cachedOf is the expected share of a prompt in the prefix cache, 0..1, in the same way; NaN when it was never reported.
func (e *Expected) cachedOf(bucket int, usual float64) float64 {
	return shrunk(&e.Cached, usual, bucket)
}

func shrunk(class *[promptBuckets]ratio, usual float64, bucket int) float64 {
	all := overall(class)
	return mixed(&class[bucket], mixed(&all, usual))
}

// usual is a pool's mean of a bucket, with that of all its buckets for shapePrior more requests; NaN when there is none.
func usual(pool *[promptBuckets]ratio, bucket int) float64 {
	all := overall(pool)
	return mixed(&pool[bucket], all.of())
}

// overall sums up the buckets.
func overall(of *[promptBuckets]ratio) (all ratio) {
	for i := range of {
		b := &of[i]
		all.N += b.N
		all.Value += b.N * b.Value
		all.Per += b.N * b.Per
	}
	if all.N > 0 {
		all.Value, all.Per = all.Value/all.N, all.Per/all.N
	}
	return all
}

// mixed is the ratio r with a prior that weighs shapePrior requests; a prior that is not known weighs nothing.
func mixed(r *ratio, prior float64) float64 {
	switch own := r.of(); {
	case math.IsNaN(own):
		return prior
	case math.IsNaN(prior):
		return own
	default:
		n := float64(r.N)
		return (n*own + shapePrior*prior) / (n + shapePrior)
	}
}

// service is how fast requests of the class are served when they need not queue, from what was measured on at least
// paceLeast of its requests, or of its pool's, or else the rates the pool was configured with.
func (e *Expected) service(pool *Expected, s Service) (prefillTokensPerS, itlSeconds float64) {
	prefillTokensPerS, itlSeconds = s.PrefillTokensPerS, s.ITL.Seconds()
	for _, from := range [...]*Expected{pool, e} {
		if from.Prefill.N >= paceLeast && from.Prefill.Value > 0 {
			prefillTokensPerS = 1 / from.Prefill.of()
		}
		if from.Decode.N >= paceLeast && from.Decode.Value > 0 {
			itlSeconds = from.Decode.of()
		}
	}
	return prefillTokensPerS, itlSeconds
}

// learn takes in a request that was served. One that was cut off counts for its tokens, and for no request: outputs are
// taken as exponential, as they are in production to a good approximation (Y. Xiang et al., ServeGen, arXiv:2505.09999),
// and of an exponential observed so Σ tokens / Σ requests that ended is the maximum-likelihood mean (R. Deemer, D. Votaw,
// Ann. Math. Stat. 26, 1955), not that of the short ones that survive.
func (e *Expected) learn(r *delta) {
	b, ended := promptBucket(r.prompt), float32(1)
	if r.how != finished {
		ended = 0
	}
	e.Output[b].add(1, float32(r.output), ended)
	if r.cached >= 0 && r.prompt > 0 {
		e.Cached[b].add(1, float32(min(r.cached, r.prompt)), float32(r.prompt))
		e.Hits.add(1, float32(min(r.cached, r.prompt)), float32(r.prompt))
	}
}

// pace is how fast requests that arrived in one minute, and did not queue, were served: seconds and tokens of N of them.
type pace struct {
	N       float32 `cbor:"1,keyasint,omitempty"`
	Prefill float32 `cbor:"2,keyasint,omitempty"` // s to the first token
	Todo    float32 `cbor:"3,keyasint,omitempty"` // uncached prompt tokens
	Decode  float32 `cbor:"4,keyasint,omitempty"` // s from there to the end
	Output  float32 `cbor:"5,keyasint,omitempty"` // tokens
}

func (p *pace) add(e *delta, l *life) {
	p.N++
	p.Prefill += float32(l.first)
	p.Todo += float32(e.uncached())
	p.Decode += float32(l.end - l.first)
	p.Output += float32(e.output)
}

// learnPace takes in a minute that is settled and in which there was no queue: a full pool serves also those slowly that
// slip in before it forms.
func (e *Expected) learnPace(p *pace) {
	if p.Todo > 0 {
		e.Prefill.add(p.N, p.Prefill, p.Todo)
	}
	if p.Output > 0 {
		e.Decode.add(p.N, p.Decode, p.Output)
	}
}
