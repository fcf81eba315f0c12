package backtest

import (
	"math"
	"strconv"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// queuePatience is how long work waits in a fluid pool before its users give up, minutes.
const queuePatience = 0.5

// fluidRetries is how often they try again, as those of [Cluster] do.
const fluidRetries = 2

// FluidPool is a simulated pool in which work flows: what a policy's replica count means for a whole trace, minute by
// minute, also where only sums per bin are known.
//
// A minute's demand needs max over resources of demand / safe capacity of a replica; that many replicas serve it. What
// they cannot serve waits. What would wait longer than half a minute comes again in the next minute, twice at most, and is
// lost then. Replicas that are asked for are
// ready after a lognormal warm-up, the k-th one's drawn from the seed and k alone, so that all policies have the same
// luck; a fraction of a minute counts. Replicas that are given up go at once, those still warming up first. Not in the
// model: single requests, their order, preemption and prefix locality; [Cluster] has them.
type FluidPool struct {
	pool     capacity.Pool
	each     Load // safe capacity of a replica; NaN where unknown
	seed     uint64
	p50, p90 float64 // of the warm-up, s

	now     time.Time
	ready   []uint64 // numbers of the replicas that serve, ascending
	pending []warming
	warmed  []time.Duration
	changed []ingest.Replica // reports of what changed since the last reports
	started uint64
	orders  orders

	backlog float64               // replica-minutes that wait
	again   [fluidRetries]float64 // that come again in the next minute, by how often they were tried
	need    float64               // of the last minute, replicas
	load    Load                  // of the last minute

	account Account

	prompts *FluidPool // computes the prompts of a disaggregated pool, of which this one decodes; nil otherwise
	both    int        // minutes in which both were saturated
}

// warming is a replica on its way.
type warming struct {
	number       uint64
	asked, ready time.Time
}

// NewFluidPool is a pool at a minute boundary, with its initial replicas ready. Of a disaggregated one it decodes, which is what is
// observed and scaled as the pool; beside it is one for the prompts, which reports nothing. Neither waits for the other, and the
// time that it takes to send KV cache is left out.
func NewFluidPool(pool capacity.Pool, start time.Time, seed uint64) *FluidPool {
	if pool.Disaggregated {
		p := NewFluidPool(decodePool(pool), start, seed)
		p.prompts = NewFluidPool(promptPool(pool), start, seed+1)
		return p
	}
	p := &FluidPool{pool: pool, each: unknownLoad, seed: seed, now: start, orders: orders{target: pool.Replicas.Initial, warmup: pool.Warmup.Quantile(.9)}, load: unknownLoad}
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

// Need is the number of replicas, not rounded, that serve a load; 0 when nothing is known of it.
func (p *FluidPool) Need(l Load) float64 {
	need := 0.0
	for i, x := range l {
		if r := x / p.each[i]; r > need {
			need = r
		}
	}
	return need
}

// SetDesired asks for n replicas, within the pool's bounds.
func (p *FluidPool) SetDesired(n int) {
	most, _ := p.pool.Limit()
	n = min(most, max(p.pool.Replicas.Min, n))
	p.orders.set(n, p.now)
	p.account.Actions, p.account.Reversed = p.orders.actions, p.orders.reversed
	for len(p.ready)+len(p.pending) < n {
		p.started++
		k := p.started - uint64(p.pool.Replicas.Initial)
		w := warming{number: p.started, asked: p.now, ready: p.now.Add(p.lag(k))}
		p.pending = append(p.pending, w)
		p.changed = append(p.changed, p.report(w.number, ingest.ReplicaLoading, p.now))
	}
	for len(p.ready)+len(p.pending) > n {
		from := &p.ready
		var gone uint64
		if last := len(p.pending) - 1; last >= 0 {
			gone, p.pending = p.pending[last].number, p.pending[:last]
		} else {
			gone, *from = (*from)[len(*from)-1], (*from)[:len(*from)-1]
		}
		p.changed = append(p.changed, p.report(gone, ingest.ReplicaGone, p.now))
	}
}

// lag is the warm-up of the k-th replica that is started after the initial ones.
func (p *FluidPool) lag(k uint64) time.Duration {
	return time.Duration(warmupDraw(p.p50, p.p90, p.seed, k) * float64(time.Second))
}

// decodePool is the part of a disaggregated pool that decodes, as a pool; another pool is that itself.
func decodePool(p capacity.Pool) capacity.Pool {
	if p.Disaggregated {
		p.Rates.PrefillTokensPerS, p.Disaggregated = 0, false
	}
	return p
}

// promptPool is the part of a disaggregated pool that computes prompts, as a pool.
func promptPool(p capacity.Pool) capacity.Pool {
	p.Replicas, p.Reserves, p.Disaggregated = p.PrefillReplicas, p.PrefillReserves, false
	p.KVTokens, p.BudgetHourUSD = 0, 0
	p.Rates = capacity.Rates{PrefillTokensPerS: p.Rates.PrefillTokensPerS, Sustained: p.Rates.Sustained, Bound: true}
	return p
}

// obey scales the pool as decided.
func (p *FluidPool) obey(d *alerting.Decision) {
	p.SetDesired(d.Desired)
	if p.prompts != nil && d.ByRole != nil {
		p.prompts.SetDesired(d.ByRole.Prefill)
	}
}

// Step serves one minute of demand.
func (p *FluidPool) Step(load Load) {
	saturated := p.serve(load)
	if p.prompts != nil && p.prompts.serve(load) && saturated {
		p.both++
	}
}

// serve serves a minute, and says whether it was saturated.
func (p *FluidPool) serve(load Load) (saturated bool) {
	end := p.now.Add(features.Minute)
	serving := float64(len(p.ready))
	p.account.GPUHours += float64((len(p.ready)+len(p.pending))*p.pool.GPUsPerReplica) / 60
	left := p.pending[:0]
	for _, w := range p.pending {
		if w.ready.Before(end) {
			serving += min(1, end.Sub(w.ready).Minutes())
			p.ready = append(p.ready, w.number)
			p.warmed = append(p.warmed, end.Sub(w.asked)-reportEarly)
		} else {
			left = append(left, w)
		}
	}
	p.pending = left

	p.load, p.need = load, p.Need(load)
	arrives := p.need
	for _, work := range p.again {
		arrives += work
	}
	work := arrives + p.backlog
	p.account.Minutes++
	weight := 1.0
	if r := load.Of(capacity.Requests); r >= 0 {
		weight = r
	}
	p.account.Asked += weight
	if saturated = work > serving; saturated {
		p.account.Saturated++
		p.account.Met += weight * serving / work
		p.backlog = min(work-serving, queuePatience*max(serving, 1))
	} else {
		p.account.Met += weight
		p.backlog = 0
	}
	turned := 0.0 // away, of what arrived
	if lost := work - serving - p.backlog; lost > 0 && arrives > 0 {
		turned = min(lost/arrives, 1)
	}
	for i, before := 0, p.need; i < fluidRetries; i++ {
		p.again[i], before = turned*before, p.again[i]
	}
	p.now = end
	return saturated
}

// Observe is what a policy can see at the end of a minute. Where requests are not counted, each replica-minute of
// waiting work counts as one.
func (p *FluidPool) Observe() Observation {
	o := Observation{At: p.now, Ready: len(p.ready), Pending: len(p.pending), Need: p.need, Backlog: p.backlog}
	if rate := p.load.Of(capacity.Requests); p.need > 0 && rate > 0 {
		o.Waiting = p.backlog * rate * 60 / p.need
	} else {
		o.Waiting = p.backlog
	}
	o.KVUse = p.kvUse()
	return o
}

// kvUse is the share of the ready replicas' KV cache in use; where KV demand is not known, of whatever resource is used
// most, for a queue and a full cache come together.
func (p *FluidPool) kvUse() float64 {
	used := p.need + p.backlog
	if kv := p.load[0] / p.each[0]; kv >= 0 {
		used = kv
		if p.backlog > 0 {
			used = max(used, float64(len(p.ready)))
		}
	}
	if len(p.ready) == 0 {
		return math.NaN()
	}
	return min(1, used/float64(len(p.ready))*p.pool.KVTarget)
}

// reportEarly is how long before the end of a minute its reports are made, so that they are part of it.
const reportEarly = time.Millisecond

// Warmed are the lags of the replicas that became ready since the last call, as their reports show them.
func (p *FluidPool) Warmed() []time.Duration {
	w := p.warmed
	p.warmed = nil
	return w
}

// Reports appends what the replicas report: changes when they happened, then each replica's state just before the end
// of the last minute, so that it is known at its end.
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
		KVCapacityTokens: ingest.Unknown, KVUsedTokens: ingest.Unknown, KVUsedRatio: math.NaN(), Running: ingest.Unknown, Waiting: ingest.Unknown,
		PreemptionsTotal: ingest.Unknown, PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown,
	}
}

// state is the pool as features.Aggregator would sum up its reports.
func (p *FluidPool) state() features.PoolState {
	o := p.Observe()
	s := features.PoolState{
		Pool: p.pool.Name, At: p.now, Ready: o.Ready, Pending: o.Pending, ReportedAt: p.now, KVUsedMax: o.KVUse,
		WaitingPerReady: math.NaN(), Observed: o.Ready+o.Pending > 0,
	}
	if o.Ready > 0 {
		s.WaitingPerReady = float64(int64(o.Waiting / float64(o.Ready)))
	}
	for _, w := range p.pending {
		s.PendingSince = append(s.PendingSince, w.asked)
	}
	return s
}

// Account is how the pool did so far. Of a disaggregated pool it is what both roles cost, the minutes in which either was
// saturated, and the requests that each served, as if those that one lost were others than the other's where that can be.
func (p *FluidPool) Account() Account {
	sum := p.account
	if p.prompts != nil {
		prompts := p.prompts.account
		sum.Saturated += prompts.Saturated - p.both
		sum.Met = max(sum.Met+prompts.Met-sum.Asked, 0)
		sum.GPUHours += prompts.GPUHours
		sum.Actions, sum.Reversed = sum.Actions+prompts.Actions, sum.Reversed+prompts.Reversed
	}
	return sum
}
