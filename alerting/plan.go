package alerting

import (
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// plan has the intermediate values of one decision.
type plan struct {
	now      time.Time
	in       *Input
	supply   forecaster.Supply
	observed bool
	current  int // ready and pending replicas
	asked    int // requested by the previous decision; current before the first one
	// promptSupply is the prefill replicas of a disaggregated pool.
	promptSupply forecaster.Supply
	kvTokens     float64
	lead         time.Duration
	tau          float64
	tauFrom      QuantileSource
	// confidence is the quantile of demand that must fit a smaller pool; see provision.
	confidence float64
	rows       []resource
	prompts    []resource // of the prefill replicas, in a disaggregated pool
	floor      floor
	promises   []Objective
	breach     *Breach
	need       int    // replicas for demand at tau, reserves and floor
	keep       int    // minimum for scale-in; at least need
	enough     int    // largest minimum for scale-in of the last Cooldown
	blind      blind  // why demand cannot be sized
	blockedBy  string // why the pool does not scale in, although fewer replicas are enough
}

// blind is why a decision cannot use the forecast.
type blind uint8

const (
	sighted    blind = iota // the forecast is usable
	stale                   // telemetry is too old
	noRequests              // engines are busy, but no request is reported
	unsized                 // no resource has both a capacity and a demand
	cold                    // too little history
)

// newPlan computes supply, demand by resource and the floor, and checks whether the forecast is usable.
func newPlan(now time.Time, in *Input, st *State, cfg Config) *plan {
	p := &plan{now: now, in: in, lead: in.Projection.Lead, kvTokens: st.KVTokens}
	p.supply, p.observed = CurrentSupply(now, in.Minute, &in.Pool, *st, cfg.Mode)
	if in.Pool.Disaggregated {
		p.promptSupply = PromptSupply(now, &in.Pool, st)
	}
	p.current = p.supply.Ready + len(p.supply.Pending)
	p.asked = st.asked(p.current)
	if reported := finite(in.Minute.State.KVCapacityTokens); reported > 0 {
		p.kvTokens = reported
	}
	if p.lead <= 0 {
		p.lead = in.Pool.Warmup.Quantile(0.9) + features.Minute
	}
	p.tau, p.tauFrom = quantile(&in.Pool, cfg)
	if p.confidence = max(cfg.ScaleInConfidence, p.tau); cfg.ScaleInConfidence == 0 {
		p.confidence = 1 - (1-p.tau)*scaleInRisk
	}

	if in.Forecast != nil && !in.Forecast.Stale && !in.Projection.Stale {
		p.rows, p.prompts = p.resources(cfg)
	}
	p.floor = reactive(in.Minute.State, p.rows, p.danger(cfg), cfg)
	if p.objectives(st.Breach); p.breach != nil {
		p.floor.raise(p.breach.Own.floor(), p.slow())
	}
	switch {
	case in.Forecast == nil || in.Forecast.Stale || in.Projection.Stale:
		p.blind = stale
	case p.engineBusy() && p.silent():
		p.blind = noRequests
	case len(p.rows) == 0:
		p.blind = unsized
	case in.Projection.Confidence == forecaster.Cold || in.Projection.Confidence == "":
		p.blind = cold
	}

	p.need, p.keep = p.size(p.rows, in.Pool.Reserves, p.floor.replicas)
	return p
}

// size is the number of replicas that rows need with reserves, at least least: to request, and to keep at scale-in.
// With too little history, only the present demand is requested.
func (p *plan) size(rows []resource, reserves capacity.Reserves, least int) (need, keep int) {
	need, more := least, reserves.Total()
	for i := range rows {
		r := &rows[i]
		ask := r.evidence.NeedReplicas
		if p.blind == cold {
			ask = r.now
		}
		need, keep = max(need, ask+more), max(keep, r.keep+more)
	}
	return need, max(keep, need)
}

// busyKV is the share of a replica's KV cache in use from which its engine counts as busy.
const busyKV = 0.1

// engineBusy reports whether an engine reports that it has requests.
func (p *plan) engineBusy() bool {
	s := &p.in.Minute.State
	return s.Observed && (finite(s.KVUsedMax) >= busyKV || finite(s.WaitingPerReady) >= 1)
}

// requestless reports whether demand is known to be zero: there are no requests, or they are no longer reported.
func (p *plan) requestless() bool {
	return len(p.rows) > 0 && !slices.ContainsFunc(p.rows, func(r resource) bool { return r.evidence.Demand > 0 })
}

// silent reports whether there was no request for ten minutes. One minute without requests is common in a small pool.
func (p *plan) silent() bool {
	return p.requestless() && p.in.Forecast.Total[0].Basis.Now.Requests == 0
}

// scaleInRisk is the risk allowed at scale-in, divided by the risk at scale-out. It is lower because a missing replica
// then takes a whole warm-up to replace. A third was best or near it on the second thirds of eleven pools; a half is
// hardly worse, but scales 1.5 times as often.
const scaleInRisk = 1. / 3

// quantile is the decision quantile of demand, and its source.
func quantile(pool *capacity.Pool, cfg Config) (tau float64, from QuantileSource) {
	if pool.Quantile > 0 {
		return pool.Quantile, QuantileStated
	}
	if cfg.Quantile > 0 {
		return cfg.Quantile, QuantileStated
	}
	if tau, ok := pool.CostQuantile(); ok {
		return tau, QuantileFromCost
	}
	return defaultQuantile, QuantileDefault
}
