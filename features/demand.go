package features

import (
	"math"
	"time"
)

const (
	// ratioMemory is the memory of an expected value in requests. Each new one weighs 1/ratioMemory, so that the mean
	// of exponential lengths has a standard error of about 1.6 %.
	ratioMemory = 2048
	// poolPrior is the weight of the pool's mean in that of a class, in requests.
	poolPrior = 4
	// minPaceRequests is the number of requests needed to estimate the speed of a class.
	minPaceRequests = 8
)

// ratio is Σ Value / Σ Per over about the latest ratioMemory requests, kept as two fading means.
type ratio struct {
	N     float32 `cbor:"1,keyasint,omitempty"` // requests, at most ratioMemory
	Value float32 `cbor:"2,keyasint,omitempty"`
	Per   float32 `cbor:"3,keyasint,omitempty"`
}

// add adds the sums over n requests.
func (r *ratio) add(n, value, per float32) {
	r.N = min(r.N+n, ratioMemory)
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

// with is the ratio with a prior that weighs poolPrior requests; an unknown prior weighs nothing.
func (r *ratio) with(prior float64) float64 {
	switch own := r.of(); {
	case math.IsNaN(own):
		return prior
	case math.IsNaN(prior):
		return own
	default:
		n := float64(r.N)
		return (n*own + poolPrior*prior) / (n + poolPrior)
	}
}

// expected has the expected values of requests of one class or pool, learned from those that were served. It fades by
// requests and not by time, so that it keeps its values without traffic.
type expected struct {
	Output  ratio `cbor:"1,keyasint"` // output tokens per request
	Cached  ratio `cbor:"2,keyasint"` // cached tokens per prompt token
	Prefill ratio `cbor:"3,keyasint"` // s per uncached prompt token, of requests that did not queue
	Decode  ratio `cbor:"4,keyasint"` // s per output token, likewise
}

// learn adds a request that was served. One that was cut off adds its tokens but no request. Outputs are taken as
// exponential, which is a good approximation in production (Y. Xiang et al., ServeGen, arXiv:2505.09999). For such
// censored data Σ tokens / Σ finished requests is the maximum-likelihood mean (R. Deemer, D. Votaw, Ann. Math. Stat.
// 26, 1955). The mean of finished requests alone would be too short.
func (x *expected) learn(e *delta) {
	ended := float32(1)
	if e.how != completed {
		ended = 0
	}
	x.Output.add(1, float32(e.output), ended)
	if e.cached >= 0 && e.prompt > 0 {
		x.Cached.add(1, float32(min(e.cached, e.prompt)), float32(e.prompt))
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
func (x *expected) learnPace(p *pace) {
	if p.Todo > 0 {
		x.Prefill.add(p.N, p.Prefill, p.Todo)
	}
	if p.Output > 0 {
		x.Decode.add(p.N, p.Decode, p.Output)
	}
}

// speed is the speed of service of the class without a queue. It is measured on at least minPaceRequests requests of
// the class or else of its pool; without them it is the pool's configured rate.
func (c *class) speed() (prefillTokensPerS, itlSeconds float64) {
	prefillTokensPerS, itlSeconds = c.pool.service.PrefillTokensPerS, c.pool.service.ITL.Seconds()
	for _, from := range [...]*expected{&c.pool.Expected, &c.Expected} {
		if from.Prefill.N >= minPaceRequests && from.Prefill.Value > 0 {
			prefillTokensPerS = 1 / from.Prefill.of()
		}
		if from.Decode.N >= minPaceRequests && from.Decode.Value > 0 {
			itlSeconds = from.Decode.of()
		}
	}
	return prefillTokensPerS, itlSeconds
}

// demandKind is how the throughput of an attempt relates to demand.
type demandKind uint8

const (
	served   demandKind = iota // served at once: throughput is demand
	retried                    // a repetition: throughput is no demand
	unserved                   // did not finish: the expected demand replaces throughput
	delayed                    // waited or was cancelled: in a Censored minute, demand without that replaces throughput
)

// throughput counts what an attempt generated and held in one minute, in tokens and token-seconds, where that is no
// demand: as that of a retry, or taken off again.
func (to demandKind) throughput(w *Window, output, kv float64) {
	if to == retried {
		w.OutputRetried += output
		w.KVRetried += kv
		return
	}
	to.correct(w, -output, -kv)
}

// correct adds to the fields that correct throughput to demand in one minute.
func (to demandKind) correct(w *Window, output, kv float64) {
	switch to {
	case unserved:
		w.OutputUnserved += output
		w.KVUnserved += kv
		if output != 0 {
			w.Known |= ReportsOutput
		}
		if kv != 0 {
			w.Known |= ReportsKV
		}
	case delayed:
		w.OutputDelayed += output
		w.KVDelayed += kv
	}
}

// minQueueDelay is the shortest wait that makes a request delayed. A wait of one second moves only a sixtieth of the
// occupancy into another minute.
const minQueueDelay = time.Second

// waited is the time of an attempt in the queue, 0 when unknown. Gateways do not know the start of service. Then it is
// the time to the first token minus the usual prefill time of the class, once that was measured.
func (e *delta) waited(c *class) time.Duration {
	measured := c.Expected.Prefill.N >= minPaceRequests || c.pool.Expected.Prefill.N >= minPaceRequests
	switch {
	case e.arrived == never:
		return 0
	case e.started != never:
		return time.Duration(e.started - e.arrived)
	case e.first == never || !measured:
		return 0
	}
	prefill, _ := c.speed()
	return time.Duration(e.first-e.arrived) - time.Duration(min(e.uncached()/prefill, maxLife.Seconds())*float64(second))
}

// callDemand is the occupancy and output of a call that is served at once and to its end.
type callDemand struct {
	life
	cached float64 // expected cached tokens, when the record has none
	// scale corrects the area for the variance of the output: for g known tokens and X unknown ones, exponential with
	// mean μ, E[(g + X)²] = (g + μ)² + μ² replaces (g + μ)².
	scale float64
}

// demand is the kind of an attempt, and the demand of an unserved or delayed call: what it would hold and generate if
// served from its arrival to its end at the class's speed without a queue. A call that ended has its own lengths. Another
// one has expected lengths: cached tokens from the class's share, output from the tokens generated so far, at most its
// limit. It counts as served when its output cannot be estimated.
func (e *delta) demand(c *class) (kind demandKind, d callDemand) {
	switch {
	case !e.call:
		return retried, d
	case e.prompt < 0:
		return served, d
	case e.how != completed && !e.stopped():
		kind = unserved
	case e.stopped() || e.output >= 0 && e.waited(c) >= minQueueDelay:
		kind = delayed
	default:
		return served, d
	}
	prompt, output := float64(e.prompt), float64(e.output)
	todo := e.uncached()
	prefill, itl := c.speed()
	d.scale = 1
	if e.how != completed {
		if e.cached < 0 || e.neverServed() {
			if share := c.Expected.Cached.with(c.pool.Expected.Cached.of()); share > 0 {
				d.cached = share * prompt
			}
			todo = prompt - d.cached
		}
		output = e.fullOutput(c)
		if whole := prompt*todo/prefill + itl*(prompt*output+output*output/2); whole > 0 {
			more := output - float64(max(e.output, 0)) // the uncertain part
			d.scale += itl * more * more / 2 / whole
		}
	}
	d.life = life{start: e.event, prompt: prompt, output: output, first: todo / prefill, rate: 1 / itl}
	d.end = d.first + itl*output
	if math.IsNaN(output) {
		kind = served
	}
	return kind, d
}

// fullOutput is the expected full output of a call that did not finish, in tokens. Output lengths are taken as
// exponential, which has no memory: a mean output is still missing, up to the request's limit. It is the limit if the
// mean is unknown, and NaN if there is no limit either.
func (e *delta) fullOutput(c *class) float64 {
	generated := float64(max(e.output, 0))
	full := generated + c.Expected.Output.with(c.pool.Expected.Output.of())
	if limit := float64(e.most); e.most >= 0 && !(full <= limit) {
		full = max(limit, generated)
	}
	return full
}

// spread adds a demand to the minutes of the open span. Tokens of settled minutes go to the oldest open one, also if the
// call would have ended before it.
func (a *Aggregator) spread(c *class, l *callDemand, to demandKind) {
	first := max(l.start.minute(), a.oldest())
	x := l.secondsAt(first)
	held, done := l.held(x), 0.0
	for m := first; m == first || m < a.end() && x < l.end; m++ {
		x += seconds
		area, generated := l.held(x), l.generated(x)
		to.correct(&c.bucket(m).Window, generated-done, (area-held)*l.scale)
		held, done = area, generated
	}
}
