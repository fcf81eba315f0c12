package backtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// requestPool is a Cluster that serves a trace request by request.
//
// A trace may be thinned, or of a service so small that its busiest minute would not fill one replica; then a replica that
// is one of many holds less than a request. So each request of the trace stands for so many copies that replicas run
// sequences side by side. Copies are spread at random over the minute, the same for all policies; without copies every
// request comes at its own time. Outside, demand and capacity are those of the trace.
type requestPool struct {
	cluster *Cluster
	sizing  *FluidPool // for the need of a load, which a monitoring system measures
	copies  int
	seed    uint64

	n      uint64
	minute []Arrival // of the minute that Step serves next
	load   Load
	states []ingest.Replica
	asked  map[string]time.Time // when replicas on their way were asked for
	warmed []time.Duration
}

// newRequestPool is a pool of cfg whose replicas safely carry copies times what those of pool do.
func newRequestPool(pool capacity.Pool, cfg ClusterConfig, copies int, seed uint64) (*requestPool, error) {
	c, err := NewCluster(cfg, seed)
	if err != nil {
		return nil, err
	}
	c.quiet = true
	return &requestPool{
		cluster: c, sizing: NewFluidPool(pool, cfg.Start, seed), copies: copies, seed: seed, load: unknownLoad, asked: map[string]time.Time{},
	}, nil
}

// Submit hands over an attempt that a client began; what it would have written is what it wrote, and one token where that is
// not known. Retries of the trace that its pool turned away are left out: this pool turns away what it cannot serve itself.
func (p *requestPool) Submit(r *ingest.Request) {
	if r.Attempt > 1 && (r.Phase == ingest.PhaseRejected || r.Status == ingest.StatusRejected) {
		return
	}
	a := Arrival{
		At: r.ArrivedAt, Class: r.Class, Tenant: r.Tenant, PromptTokens: max(r.PromptTokens, 1),
		CachedTokens: max(r.CachedTokens, 0), OutputTokens: max(r.OutputTokens, 1), MaxOutputTokens: r.MaxOutputTokens,
	}
	a.CachedTokens = min(a.CachedTokens, a.PromptTokens)
	p.minute = append(p.minute, a)
}

// spread submits the minute's requests with their copies, in order of time.
func (p *requestPool) spread() {
	start := p.cluster.Now()
	rng := rand.New(rand.NewPCG(p.seed, uint64(start.Unix())))
	if p.copies > 1 {
		all := make([]Arrival, 0, p.copies*len(p.minute))
		for _, a := range p.minute {
			for range p.copies {
				a.At = start.Add(time.Duration(rng.Int64N(int64(features.Minute))))
				all = append(all, a)
			}
		}
		p.minute = all
	}
	slices.SortStableFunc(p.minute, func(a, b Arrival) int { return a.At.Compare(b.At) })
	for _, a := range p.minute {
		p.n++
		a.ID = p.n
		p.cluster.Submit(a)
	}
	p.minute = p.minute[:0]
}

// Step serves the minute.
func (p *requestPool) Step(load Load) {
	p.load = load
	p.spread()
	end := p.cluster.Now().Add(features.Minute)
	p.cluster.Advance(end)
	_, states := p.cluster.Drain()
	p.states = states
	for i := range states {
		r := &states[i]
		r.KVCapacityTokens, r.KVUsedTokens = ingest.Unknown, ingest.Unknown // of all copies; the ratio says enough
		if !r.At.Before(end) {
			r.At = end.Add(-reportEarly)
		}
		switch r.State {
		case ingest.ReplicaPending, ingest.ReplicaLoading:
			if _, known := p.asked[r.Name]; !known {
				p.asked[r.Name] = r.At
			}
		case ingest.ReplicaReady:
			if asked, known := p.asked[r.Name]; known {
				p.warmed = append(p.warmed, r.At.Sub(asked))
				delete(p.asked, r.Name)
			}
		case ingest.ReplicaGone:
			delete(p.asked, r.Name)
		}
	}
}

// Observe is what an autoscaler sees at the end of the minute.
func (p *requestPool) Observe() Observation {
	o := p.cluster.Observe()
	o.Need, o.Backlog = p.sizing.Need(p.load), 0
	if rate := p.load.Of(capacity.Requests); rate > 0 {
		o.Backlog = o.Waiting * o.Need / (rate * 60)
	}
	return o
}

// SetDesired asks for n replicas.
func (p *requestPool) SetDesired(n int) { p.cluster.SetDesired(n) }

// Reports appends what the replicas report of the minute.
func (p *requestPool) Reports(to []ingest.Replica) []ingest.Replica { return append(to, p.states...) }

// Warmed are the lags of the replicas that became ready since the last call.
func (p *requestPool) Warmed() []time.Duration {
	w := p.warmed
	p.warmed = nil
	return w
}

// Account is how the pool did so far.
func (p *requestPool) Account() Account {
	m := p.cluster.Metrics()
	return Account{
		Minutes: m.Minutes, Saturated: m.SaturatedMinutes, Asked: float64(m.Finished + m.Failed), Met: float64(m.SLOMet),
		Served: float64(m.Finished + m.Failed), TTFTMet: float64(m.TTFTMet), ITLMet: float64(m.ITLMet), GPUHours: m.GPUHours, Actions: m.ScaleActions, Reversed: m.ReversedActions,
	}
}

func (p *requestPool) state() features.PoolState {
	o := p.cluster.Observe()
	s := features.PoolState{
		Pool: p.cluster.cfg.Pool, At: o.At, Ready: o.Ready, Pending: o.Pending, ReportedAt: o.At, KVUsedMax: o.KVUse,
		WaitingPerReady: math.NaN(), Observed: o.Ready+o.Pending > 0,
	}
	if o.Ready > 0 {
		s.WaitingPerReady = float64(int64(o.Waiting / float64(o.Ready)))
	}
	for _, r := range p.cluster.replicas {
		if r.state == ingest.ReplicaPending || r.state == ingest.ReplicaLoading {
			s.PendingSince = append(s.PendingSince, p.cluster.clock(r.askedAt))
		}
	}
	return s
}

// sequences is how many sequences a replica of a requestPool runs at least at its safe load, and how many of the largest
// request it can hold.
const (
	sequences   = 8
	largestHeld = 2
	maxCopies   = 64
)

// small makes of a pool sized by PeakPool one whose replicas single requests can run on: they are fast enough that a
// prompt takes as long as service says, however few of them a replica can carry. KV and decode bind, as before; prefill
// only where the trace asks for more of it than that. Part of the KV cache is kept free.
func small(pool *capacity.Pool, service features.Service) {
	pool.KVTokens, pool.KVTarget = math.Ceil(pool.KVTokens/kvTarget), kvTarget
	pool.Rates.PrefillTokensPerS, pool.PrefillTarget = max(pool.Rates.PrefillTokensPerS/prefillTarget, service.PrefillTokensPerS), prefillTarget
}

// copies is how many requests each of the trace stands for.
func (r *runner) copies() int {
	n := 1.
	if d := r.pool.Rates.Decode(); d > 0 {
		n = max(n, sequences/(d*r.service().ITL.Seconds()))
	}
	if r.pool.KVTokens > 0 {
		n = max(n, largestHeld*r.demand.Largest/r.pool.KVTokens)
	}
	return int(math.Ceil(min(n, maxCopies)))
}

// clusterConfig is the cluster whose replicas safely carry copies times what those of the run's pool do. Its law of ITL
// has the service's ITL where decode is at its safe rate, a fifth of it in proportion to the batch; it has slots for an
// eighth more.
func (r *runner) clusterConfig(copies int) ClusterConfig {
	p, service, times := &r.pool, r.service(), float64(copies)
	c := DefaultClusterConfig()
	most, _ := p.Limit()
	c.Pool, c.Start = p.Name, r.demand.Start
	c.Initial, c.Min, c.Max = p.Replicas.Initial, p.Replicas.Min, most
	c.Warmup = capacity.Lag{P50: p.Warmup.Quantile(.5), P90: p.Warmup.Quantile(.9)}
	c.PendingShare, c.GPUsPerReplica = 0, p.GPUsPerReplica
	c.KVCapacityTokens = math.MaxInt32
	if p.KVTokens > 0 {
		c.KVCapacityTokens = int64(p.KVTokens * times)
	}
	c.PrefillTokensPerS = service.PrefillTokensPerS * times
	if safe, ok := p.PerReplica(capacity.Prefill, 0); ok {
		c.PrefillTokensPerS = safe / p.PrefillTarget * times
	}
	batch := float64(c.MaxNumSeqs)
	if d := p.Rates.Decode() * times; d > 0 {
		batch = d * service.ITL.Seconds()
	}
	const steady, spare = .8, 1.125
	c.ITL = ITL{Base: time.Duration(steady * float64(service.ITL)), PerSequence: time.Duration((1 - steady) * float64(service.ITL) / batch)}
	if c.MaxNumSeqs = p.Rates.MaxNumSeqs * copies; c.MaxNumSeqs == 0 {
		c.MaxNumSeqs = int(math.Ceil(spare * batch))
	}
	c.SLO.ITL = service.ITL * 3 / 2
	return c
}
