package alerting

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// Parameters of decisions.
const (
	kvDanger   = 0.85            // KV use of the fullest replica that forces scale-out, at least
	queueShare = 0.1             // of the ready replicas, added for each multiple of the tolerated queue
	busyKV     = 0.1             // share of a replica's KV cache in use from which its engine counts as busy
	minKnown   = 5 * time.Minute // how long demand must have been known without a gap before scale-in
	burstTail  = 1.2             // demand, in multiples of the next minute's median, above which a burst still drains
	maxNeed    = 1_000_000       // computed replicas, far above the limit of any pool
	maxFaults  = 8               // of producers, in a decision's warnings

	// scaleInRisk is the risk allowed at scale-in, divided by the risk at scale-out. It is lower because a missing replica
	// then takes a whole warm-up to replace. A third was best or near it on the second thirds of eleven pools; a half is
	// hardly worse, but scales 1.5 times as often.
	scaleInRisk = 1. / 3
)

// draft is a decision in the making, with intermediate values.
type draft struct {
	Decision
	in            *Input
	st            *State // of the previous decision, and then of this one
	cfg           Config
	own           side
	prefill       side // the prefill replicas of a disaggregated pool
	forecastState forecastState
}

// side has the intermediate values for the replicas of one role.
type side struct {
	role       capacity.Role // AnyRole for the pool's own replicas
	projection *forecaster.Projection
	supply     forecaster.Supply
	current    int       // ready and pending replicas
	asked      int       // requested by the previous decision; current before the first one
	askedAt    time.Time // newest request for more
	rows       []resource
	floor      int     // minimum of replicas from present observations, without the forecast
	floorCause string  // for the reason; "" if only current demand counts
	need       int     // replicas for demand at tau, reserves and floor
	keep       int     // minimum for scale-in; at least need
	kept       *[]kept // the minimums of earlier ticks, in the pool's State
	enough     int     // largest minimum for scale-in of the last Cooldown
	blockedBy  string  // why replicas stay, although fewer are enough
}

func (p *draft) sides() []*side {
	if p.in.Pool.Disaggregated {
		return []*side{&p.own, &p.prefill}
	}
	return []*side{&p.own}
}

// sideOf is the side whose replicas serve a resource.
func (p *draft) sideOf(dimension string) *side {
	if p.in.Pool.Disaggregated && capacity.RoleOf(dimension) == capacity.PrefillRole {
		return &p.prefill
	}
	return &p.own
}

// forecastState says whether a decision can use the forecast, and if not, why.
type forecastState uint8

const (
	usable     forecastState = iota
	stale                    // telemetry is too old
	noRequests               // engines are busy, but no request is reported
	unsized                  // no resource has both a capacity and a demand
	cold                     // too little history
)

// newDraft computes supply, demand by resource and the floor, and checks whether the forecast is usable.
func newDraft(now time.Time, in *Input, st *State, cfg Config) *draft {
	x := &in.Projection
	p := &draft{in: in, st: st, cfg: cfg, Decision: Decision{
		Pool: in.Pool.Name, Tick: now, Sequence: in.Sequence, Mode: cfg.Mode, Expires: now.Add(cfg.Expiry),
		Binding: x.Binding, Probability: finite(x.Probability), ETA: x.ETA, Lead: x.Lead,
		Confidence: x.Confidence, Drivers: finiteDrivers(x.Drivers),
		Reserves: in.Pool.Reserves, WarnFrom: cfg.WarningProbability, Basis: in.Basis,
	}}
	p.own = side{role: capacity.AnyRole, projection: x, askedAt: st.LastScaleOut, kept: &st.Keeps}
	supply, observed := CurrentSupply(now, in.Minute, &in.Pool, *st, cfg.Mode)
	p.own.supply, p.Ready, p.Pending, p.SupplyAssumed = supply, supply.Ready, len(supply.Pending), !observed
	p.FromZero = p.Ready == 0 && (st.LastDesired == 0 || st.FromZero && !now.After(st.LastScaleOut.Add(p.Lead)))
	if observed {
		st.updateLost(now, &in.Minute.State)
		p.Lost, p.LostAt, p.Unreported = st.Lost, st.LostAt.UTC(), max(0, p.Pending-in.Minute.State.Pending)
	}
	p.prefill = side{role: capacity.PrefillRole, askedAt: st.PrefillAsked, kept: &st.PrefillKeeps}
	p.prefill.projection = cmp.Or(x.Prompts, new(forecaster.Projection))
	if in.Pool.Disaggregated {
		p.prefill.supply = PrefillSupply(now, &in.Pool, st)
	}
	for _, s := range p.sides() {
		s.current = s.supply.Ready + len(s.supply.Pending)
		s.asked = s.current
	}
	if !st.LastTick.IsZero() {
		p.own.asked = st.LastDesired
	}
	if reported := finite(in.Minute.State.KVCapacityTokens); reported > 0 {
		st.KVTokens = reported
	}
	p.Quantile, p.QuantileFrom = DecisionQuantile(&in.Pool, cfg)
	p.KeepQuantile = 1 - (1-p.Quantile)*scaleInRisk

	if !in.Forecast.Stale {
		p.addResources()
	}
	p.updateBreach()
	for _, s := range p.sides() {
		p.setFloor(s)
	}
	switch {
	case in.Forecast.Stale:
		p.forecastState = stale
	case p.engineBusy() && p.withoutRequests():
		p.forecastState = noRequests
	case len(p.own.rows) == 0:
		p.forecastState = unsized
	case in.Projection.Confidence == forecaster.Cold:
		p.forecastState = cold
	}

	for _, s := range p.sides() {
		p.size(s)
	}
	return p
}

// size sets the number of replicas that s needs with reserves: to request, and to keep at scale-in. With too little
// history, only the present demand is requested.
func (p *draft) size(s *side) {
	s.need = s.floor
	more := p.in.Pool.ReservesOf(s.role).Total()
	for i := range s.rows {
		r := &s.rows[i]
		ask := r.evidence.NeedReplicas
		if p.forecastState == cold {
			ask = r.now
		}
		s.need, s.keep = max(s.need, ask+more), max(s.keep, r.keep+more)
	}
	s.keep = max(s.keep, s.need)
}

// engineBusy reports whether an engine reports that it has requests.
func (p *draft) engineBusy() bool {
	s := &p.in.Minute.State
	return s.Observed && (finite(s.KVUsedMax) >= busyKV || finite(s.WaitingPerReady) >= 1)
}

// requestless reports whether demand is sized and zero in every resource: no requests come, or none are reported.
func (p *draft) requestless() bool {
	return len(p.own.rows) > 0 && !slices.ContainsFunc(p.own.rows, func(r resource) bool { return r.evidence.Demand > 0 })
}

// withoutRequests reports whether no request came for ten minutes. In a small pool, minutes without one are common.
func (p *draft) withoutRequests() bool {
	return p.requestless() && p.in.Forecast.Total[0].Basis.Recent.Requests == 0
}

// DecisionQuantile is the quantile of demand to provide for, and its source.
func DecisionQuantile(pool *capacity.Pool, cfg Config) (tau float64, from QuantileSource) {
	if stated := cmp.Or(pool.Quantile, cfg.Quantile); stated > 0 {
		return stated, QuantileStated
	}
	if tau, ok := pool.CostQuantile(); ok {
		return tau, QuantileFromCost
	}
	return DefaultQuantile, QuantileDefault
}

// ReplicasFor is the number of replicas with capacity per for demand. It tolerates rounding errors.
func ReplicasFor(demand, per float64) int {
	return int(min(max(math.Ceil(demand/per-1e-9), 0), maxNeed))
}

// largest is the largest tau-quantile over minutes 1…n; 0 if the forecast has no finite value.
func largest(f *forecaster.Forecast, tau float64, n int) (demand float64) {
	for h := range n {
		demand = max(demand, finite(f.Minute[h].At(tau)))
	}
	return demand
}

// provision is the demand to provide for: with it, on average a share of 1 − tau of the minutes 1…n is short. It is the
// tau-quantile of demand in a random one of these minutes, because cost counts short minutes: one short minute costs
// less than n. ok is false if the forecast has no finite value. O(n).
func provision(f *forecaster.Forecast, tau float64, n int) (demand float64, ok bool) {
	var known []*forecaster.Quantiles
	low, high := math.Inf(1), math.Inf(-1)
	for h := range n {
		q := &f.Minute[h]
		if v := q.At(tau); value.Number(v).Known() {
			known = append(known, q)
			low, high = min(low, v), max(high, v)
		}
	}
	if len(known) == 0 {
		return 0, false
	}
	const halvings, near = 30, 1e-6 // near is relative to demand, and far below one replica
	for i := 0; i < halvings && high-low > near*high; i++ {
		middle, below := low+(high-low)/2, 0.
		for _, q := range known {
			below += q.CDF(middle) / float64(len(known))
		}
		if below < tau {
			low = middle
		} else {
			high = middle
		}
	}
	return high, true
}

// resource is one resource of the pool in a decision.
type resource struct {
	forecast *forecaster.Forecast
	evidence ResourceEvidence
	now      int // replicas for the newest known demand
	keep     int // minimum for scale-in
}

// addResources adds the resources with known capacity and demand to their sides, in the order of the forecast.
func (p *draft) addResources() {
	for i := range p.in.Forecast.Total {
		f := &p.in.Forecast.Total[i]
		per, ok := p.in.Pool.PerReplica(f.Dimension, p.st.KVTokens)
		if !ok || !value.Number(f.Now.Mean).Known() {
			continue
		}
		per = p.in.Minute.Carries(f.Dimension, per)
		toHold := forecaster.WindowMinutes(p.Lead + p.cfg.Hold)
		need, ok := provision(f, p.Quantile, toHold)
		if !ok {
			continue
		}
		keep, _ := provision(f, p.KeepQuantile, forecaster.WindowMinutes(p.Lead+p.cfg.Cooldown))
		keep += p.coldCache(f)
		r := resource{forecast: f, now: ReplicasFor(f.Now.Mean, per), keep: ReplicasFor(keep, per), evidence: ResourceEvidence{
			Dimension: f.Dimension, PerReplica: per, Demand: f.Now.Mean, NeedQuantile: need, NeedReplicas: ReplicasFor(need, per),
			ETA: forecaster.ETA{P10: forecaster.Never, P50: forecaster.Never, P90: forecaster.Never},
		}}
		p.retried(&r)
		s := p.sideOf(f.Dimension)
		for j := range s.projection.Resources {
			if rp := &s.projection.Resources[j]; rp.Dimension == f.Dimension {
				r.evidence.Probability = finite(rp.Probability[toHold-1])
				r.evidence.Ahead = finite(rp.Probability[forecaster.WindowMinutes(forecaster.WarningWindow(p.Lead))-1])
				r.evidence.ETA = rp.ETA
			}
		}
		s.rows = append(s.rows, r)
	}
}

// coldCache is the extra prefill demand after one replica is removed: the others must compute the prompts that its
// prefix cache served (mean of ten minutes), until they have cached them. In a disaggregated pool, prefill replicas
// have the cache.
func (p *draft) coldCache(f *forecaster.Forecast) (tokensPerS float64) {
	const seconds = 600
	there := p.sideOf(f.Dimension).current
	if f.Dimension != features.DimPrefill || there == 0 {
		return 0
	}
	return finite(float64(f.Basis.Recent.Cached)) / seconds / float64(there)
}

// binding is the resource that needs most replicas; of equals, the one of dimension. nil without any.
func (s *side) binding(dimension string) *resource {
	var best *resource
	for i := range s.rows {
		r := &s.rows[i]
		if best == nil || r.evidence.NeedReplicas > best.evidence.NeedReplicas ||
			r.evidence.NeedReplicas == best.evidence.NeedReplicas && r.evidence.Dimension == dimension {
			best = r
		}
	}
	return best
}

// shortFrom is when demand at the decision quantile, plus reserves, first needs more than the ready replicas; now if it
// already does, or if only the floor needs more.
func (p *draft) shortFrom() time.Time {
	for h := range forecaster.WindowMinutes(p.Lead + p.cfg.Hold) {
		for i := range p.own.rows {
			r := &p.own.rows[i]
			demand := r.forecast.Minute[h].At(p.Quantile)
			if !math.IsNaN(demand) && ReplicasFor(demand, r.evidence.PerReplica)+p.in.Pool.Reserves.Total() > p.own.supply.Ready {
				return p.Tick.Add(time.Duration(h) * features.Minute)
			}
		}
	}
	return p.Tick
}

// finite is v, or 0 if it is NaN or infinite.
func finite(v float64) float64 {
	if value.Number(v).Known() {
		return v
	}
	return 0
}

// setFloor sets the floor: the replicas for the newest known demand, more if requests queue, if the fullest KV cache is
// above danger, or if latencies are over their objectives. All are totals, so pending replicas count.
func (p *draft) setFloor(s *side) {
	for i := range s.rows {
		s.floor = max(s.floor, s.rows[i].now)
	}
	state := &p.in.Minute.State
	if s.role == capacity.AnyRole && state.Observed && state.Ready > 0 {
		ready, danger := float64(state.Ready), p.danger()
		if w, tolerated := finite(state.WaitingPerReady), p.cfg.WaitingPerReplica; w >= tolerated {
			more := min(math.Ceil(ready*queueShare*w/tolerated), ready)
			s.raiseFloor(state.Ready+int(more), fmt.Sprintf("%.1f requests wait per replica (threshold %g)", w, tolerated))
		}
		if use := finite(state.KVUsedMax); use > danger {
			cause := fmt.Sprintf("the fullest replica's KV cache is %s full (danger above %s)", percent(use), percent(danger))
			s.raiseFloor(int(math.Ceil(ready*min(use, 1)/danger)), cause)
		}
	}
	if p.Breach == nil {
		return
	}
	r := p.Breach.Own
	if s.role == capacity.PrefillRole {
		r = p.Breach.Prefill
	}
	if !r.Failed {
		s.raiseFloor(r.Replicas, p.latencyText())
	}
}

func (s *side) raiseFloor(replicas int, cause string) {
	if replicas > s.floor {
		s.floor, s.floorCause = replicas, cause
	}
}
