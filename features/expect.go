package features

import (
	"math"
	"math/bits"
)

const (
	promptBuckets = 7
	// shapeMemory is the memory of an expected value in requests. Each new one weighs 1/shapeMemory, so that the mean
	// of exponential lengths has a standard error of about 1.6 %.
	shapeMemory = 2048
	// shapePrior is the weight of the more general mean, in requests.
	shapePrior = 4
	// minPaceRequests is the number of requests needed to estimate the speed of a class.
	minPaceRequests = 8
)

// promptBucket is the bucket of a prompt length: below 128 tokens, then by factors of four up to 128 Ki and beyond.
func promptBucket(tokens int64) int {
	return min(max(bits.Len64(uint64(max(tokens, 0)))-6, 0)/2, promptBuckets-1)
}

// ratio is Σ Value / Σ Per over about the latest shapeMemory requests, kept as two fading means.
type ratio struct {
	N     float32 `cbor:"1,keyasint,omitempty"` // requests, at most shapeMemory
	Value float32 `cbor:"2,keyasint,omitempty"`
	Per   float32 `cbor:"3,keyasint,omitempty"`
}

// add adds the sums over n requests.
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

// Expected has the expected values of requests of one class or pool, learned from those that were served. It fades by
// requests and not by time, so that it keeps its values without traffic. 204 bytes.
type Expected struct {
	Output  [promptBuckets]ratio `cbor:"1,keyasint"` // output tokens per request, by prompt length
	Cached  [promptBuckets]ratio `cbor:"2,keyasint"` // cached tokens per prompt token, by prompt length
	Prefill ratio                `cbor:"3,keyasint"` // s per uncached prompt token, of requests that did not queue
	Decode  ratio                `cbor:"4,keyasint"` // s per output token, likewise
	Hits    ratio                `cbor:"5,keyasint"` // cached tokens per prompt token, of all prompts
}

// outputOf is the expected output of a prompt in tokens, by shrinkage: the bucket's mean has the class's mean as a
// prior of shapePrior requests, and that has the pool's mean as its prior. NaN when nothing was served yet.
func (e *Expected) outputOf(bucket int, usual float64) float64 {
	return shrunk(&e.Output, usual, bucket)
}

// cachedOf is the expected cached share of a prompt, 0..1, likewise; NaN when it was never reported.
func (e *Expected) cachedOf(bucket int, usual float64) float64 {
	return shrunk(&e.Cached, usual, bucket)
}

func shrunk(class *[promptBuckets]ratio, usual float64, bucket int) float64 {
	all := overall(class)
	return mixed(&class[bucket], mixed(&all, usual))
}

// usual is a pool's mean of a bucket, with the mean of all its buckets as prior; NaN when there is none.
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

// mixed is the ratio r with a prior that weighs shapePrior requests; an unknown prior weighs nothing.
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

// service is the speed of service of the class without a queue. It is measured on at least minPaceRequests requests of
// the class or else of its pool; without them it is the pool's configured rate.
func (e *Expected) service(pool *Expected, s Service) (prefillTokensPerS, itlSeconds float64) {
	prefillTokensPerS, itlSeconds = s.PrefillTokensPerS, s.ITL.Seconds()
	for _, from := range [...]*Expected{pool, e} {
		if from.Prefill.N >= minPaceRequests && from.Prefill.Value > 0 {
			prefillTokensPerS = 1 / from.Prefill.of()
		}
		if from.Decode.N >= minPaceRequests && from.Decode.Value > 0 {
			itlSeconds = from.Decode.of()
		}
	}
	return prefillTokensPerS, itlSeconds
}

// learn adds a request that was served. One that was cut off adds its tokens but no request. Outputs are taken as
// exponential, which is a good approximation in production (Y. Xiang et al., ServeGen, arXiv:2505.09999). For such
// censored data Σ tokens / Σ finished requests is the maximum-likelihood mean (R. Deemer, D. Votaw, Ann. Math. Stat.
// 26, 1955). The mean of finished requests alone would be too short.
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

// pace is the speed of service of N requests that arrived in one minute and did not queue.
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

// learnPace adds a settled minute without a queue. In minutes with a queue the full pool serves all requests slowly.
func (e *Expected) learnPace(p *pace) {
	if p.Todo > 0 {
		e.Prefill.add(p.N, p.Prefill, p.Todo)
	}
	if p.Output > 0 {
		e.Decode.add(p.N, p.Decode, p.Output)
	}
}
