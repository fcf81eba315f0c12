package features

import "math"

// demandKind is how the throughput of an attempt relates to demand.
type demandKind uint8

const (
	served   demandKind = iota // served at once: throughput is demand
	retried                    // a repetition: throughput is no demand
	unserved                   // did not finish: the expected demand replaces throughput
	delayed                    // waited in a queue: the same without the wait replaces throughput
)

// enter counts generated tokens and held token-seconds of one minute: added to the Retried fields, or subtracted from
// the fields that correct throughput to demand.
func (to demandKind) enter(w *Window, output, kv float64) {
	switch to {
	case served:
	case retried:
		w.OutputRetried += output
		w.KVRetried += kv
	case unserved:
		w.OutputUnserved -= output
		w.KVUnserved -= kv
	case delayed:
		w.OutputDelayed -= output
		w.KVDelayed -= kv
	}
}

// minQueueDelay is the shortest wait that makes a request delayed. A wait of one second moves only a sixtieth of the
// occupancy into another minute.
const minQueueDelay = second

// waited is the time of an attempt in the queue, 0 when unknown. Gateways do not know the start of service. Then it is
// the time to the first token minus the usual prefill time of the class.
func (e *delta) waited(p *pool, c *class) unixTime {
	switch {
	case e.arrived == never:
		return 0
	case e.started != never:
		return e.started - e.arrived
	case e.first == never || c.expected.Prefill.N < minPaceRequests && p.expected.Prefill.N < minPaceRequests:
		return 0
	}
	prefill, _ := c.expected.service(&p.expected, p.service)
	return e.first - e.arrived - unixTime(min(e.uncached()/prefill, maxLife.Seconds())*float64(second))
}

// demandKind is the kind of an attempt.
func (e *delta) demandKind(p *pool, c *class) demandKind {
	switch {
	case !e.call:
		return retried
	case e.prompt < 0:
		return served
	case e.how != finished:
		return unserved
	case e.output >= 0 && e.waited(p, c) >= minQueueDelay:
		return delayed
	}
	return served
}

// callDemand is the occupancy and output of a call that is served at once and to its end.
type callDemand struct {
	life
	cached float64 // expected cached tokens, when the record has none
	// scale corrects the area for the variance of the output: for g known tokens and X unknown ones with mean μ and
	// squared coefficient of variation v, E[(g + X)²] = (g + μ)² + v·μ² replaces (g + μ)².
	scale float64
}

// demand is the demand of an unserved or delayed call: what it would hold and generate if served from its arrival to
// its end at the class's speed without a queue. A delayed call has its own lengths. An unserved one has expected
// lengths: cached tokens from the class's share, output from the tokens generated so far, at most its limit. ok is
// false when the output cannot be estimated.
func (e *delta) demand(p *pool, c *class, to demandKind) (d callDemand, ok bool) {
	prompt, output := float64(e.prompt), float64(e.output)
	todo := e.uncached()
	prefill, itl := c.expected.service(&p.expected, p.service)
	d.scale = 1
	if to == unserved {
		b := promptBucket(e.prompt)
		if e.cached < 0 || e.neverServed() {
			if share := c.expected.cachedOf(b, e.usualCached); share > 0 {
				d.cached = share * prompt
			}
			todo = prompt - d.cached
		}
		output = e.fullOutput(c, b)
		if whole := prompt*todo/prefill + itl*(prompt*output+output*output/2); whole > 0 {
			more := output - float64(max(e.output, 0)) // the uncertain part
			d.scale += itl * c.variation() * more * more / 2 / whole
		}
	}
	d.life = life{start: e.event(), prompt: prompt, output: output, first: todo / prefill, rate: 1 / itl}
	d.end = d.first + itl*output
	return d, !math.IsNaN(output)
}

// fullOutput is the expected full output of a call that did not finish, in tokens; NaN when unknown. Output lengths are
// taken as exponential, which has no memory: a mean output is still missing, up to the request's limit.
func (e *delta) fullOutput(c *class, bucket int) float64 {
	generated := float64(max(e.output, 0))
	full := generated + c.expected.outputOf(bucket, e.usualOutput)
	if limit := float64(e.most); e.most >= 0 && !(full <= limit) {
		full = max(limit, generated)
	}
	return full
}

// variation is the squared coefficient of variation of the class's output: 1, as for an exponential, without data.
func (c *class) variation() float64 {
	if c.moments.N < 2 {
		return 1
	}
	_, squares := c.moments.Products()
	return max(squares-1, 0)
}

// spread distributes a demand over the minutes of the open span. Tokens of settled minutes go to the oldest open one.
func (a *Aggregator) spread(c *class, l *callDemand, to demandKind) {
	first := max(l.start.minute(), a.oldest())
	x := l.secondsAt(first)
	held, done := l.held(x), 0.0
	for m := first; m == first || m < a.end() && x < l.end; m++ {
		x += seconds
		area, generated := l.held(x), l.generated(x)
		to.enter(&a.bucket(c, m).Window, done-generated, (held-area)*l.scale) // negative: enter subtracts
		held, done = area, generated
	}
}

// learn updates the class's expected values from a served call; w is the minute of its arrival.
func (c *class) learn(w *bucket, e *delta, l *life, timed bool) {
	c.expected.learn(e)
	if e.how == finished {
		c.moments.Add(float64(e.prompt), float64(e.output))
	}
	if e.how == finished && timed && e.first != never && (e.started == never || e.started-e.arrived < minQueueDelay) {
		w.pace.add(e, l)
	}
}
