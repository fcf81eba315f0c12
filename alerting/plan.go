package alerting

import (
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// plan is one decision in the making.
type plan struct {
	now      time.Time
	in       *Input
	supply   forecaster.Supply
	observed bool
	current  int // ready and pending replicas
	asked    int // what the previous decision asked for; current before there was one
	// promptSupply is of the replicas that only compute prompts, in a disaggregated pool.
	promptSupply forecaster.Supply
	kvTokens     float64
	lead         time.Duration
	tau          float64
	tauFrom      QuantileSource
	// confidence is the quantile of demand that must fit a smaller pool; see provision.
	confidence float64
	rows       []resource
	prompts    []resource // of the replicas that only compute prompts, in a disaggregated pool
	floor      floor
	promises   []Objective
	breach     *Breach
	need       int    // to ask for: demand at tau, reserves, floor
	keep       int    // what must stay when scaling in; at least need
	enough     int    // the most that had to stay lately
	blind      blind  // why demand cannot be sized
	blockedBy  string // why fewer replicas, though enough, are not asked for
}

// blind says why a decision cannot rest on the forecast.
type blind uint8

const (
	sighted    blind = iota
	stale            // telemetry is too old
	noRequests       // engines are busy, and no request is heard of
	unsized          // no resource has both a capacity and a demand
	cold             // too little history
)

// newPlan weighs the evidence: supply, demand by resource, the floor, and how far to trust it.
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

// size is how many replicas rows take beside reserves, and at least least: to ask for, and to keep when scaling in. With too
// little history the demand of now is all there is to ask for.
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

// busyKV is the share of a replica's KV cache that is not in use by accident.
const busyKV = 0.1

// engineBusy says that an engine holds requests, by its own account.
func (p *plan) engineBusy() bool {
	s := &p.in.Minute.State
	return s.Observed && (finite(s.KVUsedMax) >= busyKV || finite(s.WaitingPerReady) >= 1)
}

// requestless says that demand is known, and there is none: either that is so, or requests are no longer heard of.
func (p *plan) requestless() bool {
	return len(p.rows) > 0 && !slices.ContainsFunc(p.rows, func(r resource) bool { return r.evidence.Demand > 0 })
}

// silent says that there was no request for ten minutes: a minute without one is common in a pool of few.
func (p *plan) silent() bool {
	return p.requestless() && p.in.Forecast.Total[0].Basis.Now.Requests == 0
}

// scaleInRisk is the risk that giving a replica up may take, over that which asking for one leaves: what is missed then stays
// missed for a whole warm-up. A third was best or near it on the second thirds of eleven pools; a half is hardly worse, but
// moves replicas half again as often.
const scaleInRisk = 1. / 3

// quantile is the share of possible demand to provide for, and where it comes from.
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
