package alerting

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Roles are the replicas of a disaggregated pool by what they are for. Decode is Decision.Desired: the replicas that the
// pool's bounds and reserves are about.
type Roles struct {
	Prefill int `json:"prefill" cbor:"1,keyasint"`
	Decode  int `json:"decode" cbor:"2,keyasint"`
	// PrefillProbability that those that were last asked for run out within the lead time and decision.hold. Theirs is not
	// in the decision's own, which is of the replicas that decode.
	PrefillProbability float64 `json:"prefill_probability" cbor:"3,keyasint,omitempty"`
}

// PromptLimits is what the prefill replicas of a disaggregated pool carry together, for a projection: as many as were last
// asked for, since how many are ready is not reported. None in another pool.
func PromptLimits(p *capacity.Pool, st *State) []forecaster.Limit {
	if !p.Disaggregated {
		return nil
	}
	per, _ := p.PerReplica(capacity.Prefill, 0)
	return []forecaster.Limit{{Name: capacity.Prefill, Dimensions: []string{capacity.Prefill}, PerS: per * float64(st.promptReplicas(p))}}
}

// promptReplicas is how many replicas of that role were last asked for.
func (st *State) promptReplicas(p *capacity.Pool) int {
	if st.Prefill == 0 {
		return p.PrefillReplicas.Initial
	}
	return st.Prefill
}

// PromptEvidence is what d knows of its pool's prefill replicas, of which ByRole.Prefill were asked for; none of a pool without.
// Where d sized others but not these, as in journals of older versions, it has the prefill rate alone, as stated and as
// learned: the lower of them, with a demand of NaN.
func (d *Decision) PromptEvidence() []ResourceEvidence {
	if d.ByRole == nil || len(d.Prompts) > 0 || d.Basis == nil || len(d.Resources) == 0 {
		return d.Prompts
	}
	for _, r := range d.Basis.Rates {
		if r.Dimension != capacity.Prefill {
			continue
		}
		rate := r.Stated
		if r.Learned > 0 && (rate == 0 || r.Learned < rate) {
			rate = r.Learned
		}
		return []ResourceEvidence{{Dimension: capacity.Prefill, PerReplica: rate, Demand: math.NaN()}}
	}
	return nil
}

// Serving is the capacity of the pool's own replicas for a projection: in a disaggregated pool others compute prompts, and
// their number is not reported. Where t says that a rate was learned, it is as uncertain as t has it; nil is for rates that
// are known.
func Serving(p *capacity.Pool, t *capacity.Trusted) forecaster.Capacity { return serving{p, t} }

type serving struct {
	pool    *capacity.Pool
	trusted *capacity.Trusted
}

// Spread is the interval of a rate that was learned, over its value; a careful bound that is used in place of the value has
// none.
func (s serving) Spread(dimension string) (low, high float64) {
	if s.trusted == nil {
		return 1, 1
	}
	var b *capacity.Basis
	switch dimension {
	case capacity.Prefill:
		b = &s.trusted.Prefill
	case capacity.Decode:
		b = &s.trusted.Decode
	default:
		return 1, 1
	}
	if e := b.Learned; b.Source == capacity.Learned && !b.Extrapolated && e.Value > 0 && e.Low > 0 && e.High >= e.Value {
		return min(e.Low/e.Value, 1), e.High / e.Value
	}
	return 1, 1
}

// PerReplica is that of the pool, without what prefill replicas carry.
func (s serving) PerReplica(dimension string, reportedKV float64) (safe float64, ok bool) {
	if s.pool.Disaggregated && capacity.RoleOf(dimension) == capacity.PrefillRole {
		return 0, false
	}
	return s.pool.PerReplica(dimension, reportedKV)
}

// roles sizes the prefill replicas of a disaggregated pool by the same rules as the others: demand at the quantile over the lead
// window, what had to stay at each tick of the last Cooldown, and of scaling in what speaks against it, its step and how often. How
// many there are is not reported, so steps are from those last asked for, and without sight the number stands. nil when the
// pool is not disaggregated.
func (p *plan) roles(st *State, decode int, cfg Config) (*Roles, []string) {
	pool := &p.in.Pool
	if !pool.Disaggregated {
		return nil, nil
	}
	before := st.promptReplicas(pool)
	wanted := before
	if p.blind == sighted && len(p.prompts) > 0 {
		need, keep := 0, 0
		for i := range p.prompts {
			r := &p.prompts[i]
			need, keep = max(need, r.now, r.evidence.NeedReplicas), max(keep, r.keep)
		}
		st.PrefillKeeps = remember(st.PrefillKeeps, p.now, max(need, keep), cfg.Cooldown)
		wanted = max(need, min(before, most(st.PrefillKeeps)))
	}
	desired, constraints := wanted, []string(nil)
	name := func(key string, bound int) {
		constraints = append(constraints, fmt.Sprintf("%s %d: %d wanted", key, bound, wanted))
	}
	switch {
	case desired >= before:
	case p.whyStay(st, cfg, p.prompts) != "":
		desired, wanted = before, before
	case len(st.ScaleIns) >= cfg.MaxScaleIns:
		desired = before
		name("prefill: max_scale_ins", cfg.MaxScaleIns)
	case cfg.ScaleInStep > 0 && desired < before-cfg.ScaleInStep:
		desired = before - cfg.ScaleInStep
		name("prefill: scale_in_step", cfg.ScaleInStep)
	}
	if budget, ok := pool.Budget(); ok && desired > budget-decode {
		desired = budget - decode
		name("prefill: budget_hour_usd", desired)
	}
	if bounds := pool.PrefillReplicas; desired > bounds.Max {
		desired = bounds.Max
		name("disaggregated.prefill_replicas.max", bounds.Max)
	} else if desired < bounds.Min {
		desired = bounds.Min
		name("disaggregated.prefill_replicas.min", bounds.Min)
	}
	st.Prefill = desired
	roles := &Roles{Prefill: desired, Decode: decode}
	for i := range p.in.Prompts {
		roles.PrefillProbability = max(roles.PrefillProbability, finite(p.in.Prompts[i].Probability[minutes(p.lead+cfg.Hold)-1]))
	}
	return roles, constraints
}

// remember adds what has to stay now to that of earlier ticks, and forgets what is older than span.
func remember(keeps []kept, now time.Time, replicas int, span time.Duration) []kept {
	old := now.Add(-span).Unix()
	keeps = slices.DeleteFunc(slices.Clone(keeps), func(k kept) bool { return k.At <= old })
	return append(keeps, kept{now.Unix(), replicas})
}

// most is the largest number of replicas that had to stay.
func most(keeps []kept) (replicas int) {
	for _, k := range keeps {
		replicas = max(replicas, k.Replicas)
	}
	return replicas
}
