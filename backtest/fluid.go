package backtest

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// maxQueueMinutes is how long work waits in a fluid pool before users give up, minutes.
const maxQueueMinutes = 0.5

// FluidPool simulates a pool with continuous work. It shows the effect of a policy's replica counts on a whole trace,
// minute by minute, also if only sums per bin are known.
//
// A minute needs the maximum over resources of demand / safe capacity of a replica. The rest of the work waits. Work
// that would wait longer than half a minute is retried in the next minute, at most twice, and then lost. A new replica
// is ready after a lognormal warm-up, with fractions of minutes. It is drawn from the seed and the replica's number
// only, so all policies get the same warm-ups. Removed replicas stop at once, those that warm up first. Not modelled:
// single requests, their order, preemption and prefix locality.
type FluidPool struct {
	pool     capacity.Pool
	each     Load // safe capacity of a replica; NaN if unknown
	seed     uint64
	p50, p90 float64 // of the warm-up, s

	now     time.Time
	ready   []uint64 // numbers of the ready replicas, ascending
	pending []warming
	changed []ingest.Replica // reports of changes since the last reports
	started uint64

	desired   int
	orderedAt []time.Time // order times of the newest replicas, ascending

	backlog float64    // waiting replica-minutes
	retries [2]float64 // replica-minutes in the next minute: first and second retries
	need    float64    // of the last minute, replicas
	load    Load       // of the last minute

	account Account
}

type warming struct {
	number uint64
	ready  time.Time
}

// NewFluidPool creates a pool at a minute boundary, with its initial replicas ready.
func NewFluidPool(pool capacity.Pool, start time.Time, seed uint64) *FluidPool {
	p := &FluidPool{
		pool: pool, each: unknownLoad, seed: seed, now: start, desired: pool.Replicas.Initial, load: unknownLoad,
	}
	p.p50, p.p90 = pool.Warmup.Quantile(.5).Seconds(), pool.Warmup.Quantile(.9).Seconds()
	for i, d := range loadDimensions {
		if safe, ok := pool.PerReplica(d, 0); ok {
			p.each[i] = safe
		}
	}
	for range pool.Replicas.Initial {
		p.started++
		p.ready = append(p.ready, p.started)
	}
	return p
}

// Need returns the number of replicas for a load, not rounded; 0 if the load is unknown.
func (p *FluidPool) Need(l Load) float64 {
	need := 0.0
	for i, x := range l {
		if r := x / p.each[i]; r > need {
			need = r
		}
	}
	return need
}

// SetDesired asks for n replicas, within the pool's bounds. It removes the newest first.
func (p *FluidPool) SetDesired(n int) {
	limit, _ := p.pool.Limit()
	n = min(limit, max(p.pool.Replicas.Min, n))
	if n == p.desired {
		return
	}
	p.account.Actions++
	for range n - p.desired {
		p.started++
		k := p.started - uint64(p.pool.Replicas.Initial)
		p.pending = append(p.pending, warming{number: p.started, ready: p.now.Add(p.lag(k))})
		p.orderedAt = append(p.orderedAt, p.now)
		p.changed = append(p.changed, p.report(p.started, ingest.ReplicaLoading, p.now))
	}
	if last := len(p.orderedAt) - 1; n < p.desired && last >= 0 {
		if p.now.Sub(p.orderedAt[last]).Seconds() < p.p90 {
			p.account.Reversed++
		}
		p.orderedAt = p.orderedAt[:max(0, last+1-(p.desired-n))]
	}
	for range p.desired - n {
		var gone uint64
		if last := len(p.pending) - 1; last >= 0 {
			gone, p.pending = p.pending[last].number, p.pending[:last]
		} else {
			last = len(p.ready) - 1
			gone, p.ready = p.ready[last], p.ready[:last]
		}
		p.changed = append(p.changed, p.report(gone, ingest.ReplicaGone, p.now))
	}
	p.desired = n
}

// lag returns the warm-up of the k-th replica started after the initial ones: lognormal, a function of seed and k only.
func (p *FluidPool) lag(k uint64) time.Duration {
	sigma := math.Log(p.p90/p.p50) / capacity.Z90
	seconds := p.p50 * math.Exp(sigma*rand.New(rand.NewPCG(p.seed, k)).NormFloat64())
	return time.Duration(seconds * float64(time.Second))
}

// Step serves one minute of demand.
func (p *FluidPool) Step(load Load) {
	end := p.now.Add(features.Minute)
	serving := float64(len(p.ready))
	p.account.Minutes++
	p.account.GPUHours += float64((len(p.ready)+len(p.pending))*p.pool.GPU.PerReplica) / 60
	left := p.pending[:0]
	for _, w := range p.pending {
		if w.ready.Before(end) {
			serving += min(1, end.Sub(w.ready).Minutes())
			p.ready = append(p.ready, w.number)
		} else {
			left = append(left, w)
		}
	}
	p.pending = left

	p.load, p.need = load, p.Need(load)
	arrives := p.need
	for _, work := range p.retries {
		arrives += work
	}
	work := arrives + p.backlog
	met := 1.0 // share of the minute's requests that did not wait
	p.backlog = 0
	if work > serving {
		met = serving / work
		p.backlog = min(work-serving, maxQueueMinutes*max(serving, 1))
	}
	if !load.unknown() {
		weight := 1.0
		if r := load.Of(capacity.Requests); r >= 0 {
			weight = r
		}
		p.account.Known++
		p.account.Asked += weight
		p.account.Met += weight * met
		if work > serving {
			p.account.Saturated++
		}
	}
	turned := 0.0 // lost share of the arrivals
	if lost := work - serving - p.backlog; lost > 0 && arrives > 0 {
		turned = min(lost/arrives, 1)
	}
	p.retries = [2]float64{turned * p.need, turned * p.retries[0]}
	p.now = end
}

// Observe returns what a policy sees at the end of a minute. If requests are not counted, one replica-minute of waiting
// work counts as one request. KV use is that of the ready replicas. If KV demand is unknown it is the share of the
// busiest resource, because a queue and a full cache come together.
func (p *FluidPool) Observe() Observation {
	ready := float64(len(p.ready))
	o := Observation{
		At: p.now, Ready: len(p.ready), Pending: len(p.pending),
		Need: p.need, Backlog: p.backlog, Waiting: p.backlog, KVUse: math.NaN(),
	}
	if rate := p.load.Of(capacity.Requests); p.need > 0 && rate > 0 {
		o.Waiting = p.backlog * rate * 60 / p.need
	}
	used := p.need + p.backlog
	if kv := p.load.Of(capacity.KV) / p.each.Of(capacity.KV); kv >= 0 {
		used = kv
		if p.backlog > 0 {
			used = max(used, ready)
		}
	}
	if ready > 0 {
		o.KVUse = min(1, used/ready*p.pool.KVTarget)
	}
	return o
}

// reportEarly is how long before the end of a minute its reports are made, so that the minute includes them.
const reportEarly = time.Millisecond

// Reports appends the replicas' reports: changes at their times, then each state just before the end of the minute.
func (p *FluidPool) Reports(to []ingest.Replica) []ingest.Replica {
	to = append(to, p.changed...)
	p.changed = p.changed[:0]
	o := p.Observe()
	at := p.now.Add(-reportEarly)
	for _, n := range p.ready {
		r := p.report(n, ingest.ReplicaReady, at)
		r.KVUsedRatio = o.KVUse
		r.Waiting = int64(o.Waiting / float64(len(p.ready)))
		to = append(to, r)
	}
	for _, w := range p.pending {
		to = append(to, p.report(w.number, ingest.ReplicaLoading, at))
	}
	return to
}

func (p *FluidPool) report(number uint64, state ingest.ReplicaState, at time.Time) ingest.Replica {
	return ingest.Replica{
		Pool: p.pool.Name, Name: "r" + strconv.FormatUint(number, 10), At: at, State: state,
		KVCapacityTokens: ingest.Unknown, KVUsedTokens: ingest.Unknown, KVUsedRatio: math.NaN(),
		Running: ingest.Unknown, Waiting: ingest.Unknown,
		PreemptionsTotal: ingest.Unknown, PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown,
	}
}

// TakeAccount returns the account, and begins a new one.
func (p *FluidPool) TakeAccount() (a Account) {
	a, p.account = p.account, a
	return a
}
