package alerting

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Roles are the replicas of a disaggregated pool by what they are for. Decode is the desired_replicas of the pool. All that a
// decision says of replicas is of those that decode; what begins with prefill is of those that only compute prompts.
// How many of these there are is not reported, so those last asked for are counted. The newest count as starting until the 90th
// percentile of the warm-up lag is over.
type Roles struct {
	Prefill int `json:"prefill" cbor:"1,keyasint"`
	Decode  int `json:"decode" cbor:"2,keyasint"`
	// Chance that the prefill replicas that were last asked for, without those kept for failures, run out within the lead time
	// and decision.hold. The event's probability is of the replicas that decode alone.
	PrefillProbability float64 `json:"prefill_saturation_probability" cbor:"3,keyasint,omitempty"`

	PrefillReady    int                 `json:"prefill_ready" cbor:"4,keyasint,omitempty"`
	PrefillPending  int                 `json:"prefill_pending" cbor:"5,keyasint,omitempty"`
	PrefillNeeded   int                 `json:"prefill_needed" cbor:"6,keyasint,omitempty"` // before the constraints
	PrefillLimit    int                 `json:"prefill_limit" cbor:"7,keyasint,omitempty"`
	PrefillReserves capacity.Reserves   `json:"prefill_reserves" cbor:"8,keyasint,omitzero"`
	PrefillAskedAt  time.Time           `json:"prefill_asked_at,omitzero" cbor:"9,keyasint,omitzero"` // when more were last asked for
	PrefillDrivers  []forecaster.Driver `json:"-" cbor:"10,keyasint,omitempty"`
}

// prefill is how many replicas d asks for that only compute prompts; 0 in a pool without.
func (d *Decision) prefill() int {
	if d.ByRole == nil {
		return 0
	}
	return d.ByRole.Prefill
}

// Prefilling is d with what it says of replicas said of those that only compute prompts; nil where a pool has none, and
// where their demand could not be sized.
func (d *Decision) Prefilling() *Decision {
	r := d.ByRole
	if r == nil || r.PrefillLimit == 0 || len(d.Prompts) == 0 {
		return nil
	}
	v := *d
	v.Ready, v.Pending, v.Unreported, v.SupplyAssumed = r.PrefillReady, r.PrefillPending, 0, true
	v.Desired, v.Needed, v.Limit, v.Reserves, v.AskedAt = r.Prefill, r.PrefillNeeded, r.PrefillLimit, r.PrefillReserves, r.PrefillAskedAt
	v.Resources, v.Drivers, v.Constraints = d.Prompts, r.PrefillDrivers, nil
	for _, c := range d.Constraints {
		if ofPrefill(c) {
			v.Constraints = append(v.Constraints, c)
		}
	}
	b := slices.MaxFunc(d.Prompts, func(a, b ResourceEvidence) int { return a.NeedReplicas - b.NeedReplicas })
	v.Binding, v.Probability, v.ETA = b.Dimension, b.Probability, b.ETA
	v.Floor, v.NeededBy, v.Growth, v.Events, v.Queue, v.Path = 0, time.Time{}, nil, nil, nil, nil
	v.Action = Hold
	if there := v.Ready + v.Pending; v.Desired > there {
		v.Action = ScaleOut
	} else if v.Desired < there {
		v.Action = ScaleIn
	}
	return &v
}

// sides are d, and the same of its prefill replicas where it has any.
func (d *Decision) sides() []*Decision {
	if prefill := d.Prefilling(); prefill != nil {
		return []*Decision{d, prefill}
	}
	return []*Decision{d}
}

// own are the constraints of the replicas that d is of.
func (d *Decision) own() (constraints []string) {
	for _, c := range d.Constraints {
		if ofPrefill(c) == d.ofPrefill() {
			constraints = append(constraints, c)
		}
	}
	return constraints
}

// The beginnings of constraints on prefill replicas: of keys that are for either role, and of those that are for this one.
const (
	prefillPrefix = "prefill: "
	prefillBounds = "disaggregated.prefill_replicas."
)

func ofPrefill(constraint string) bool {
	return strings.HasPrefix(constraint, prefillPrefix) || strings.HasPrefix(constraint, prefillBounds)
}

// ofPrefill says that d is what Prefilling made.
func (d *Decision) ofPrefill() bool {
	return d.ByRole != nil && capacity.RoleOf(d.Binding) == capacity.PrefillRole
}

// role is that of the replicas that d is of, to stand before the word; "" where there is but one.
func (d *Decision) role() string {
	switch {
	case d.ByRole == nil:
		return ""
	case d.ofPrefill():
		return "prefill "
	}
	return "decode "
}

// count is so many replicas of d's role, for people.
func (d *Decision) count(n int) string {
	if n == 1 {
		return fmt.Sprintf("1 %sreplica", d.role())
	}
	return fmt.Sprintf("%d %sreplicas", n, d.role())
}

// PromptSupply is the replicas of a disaggregated pool that only compute prompts, as Roles counts them.
func PromptSupply(now time.Time, p *capacity.Pool, st *State) forecaster.Supply {
	if !st.PrefillKnown {
		return forecaster.Supply{Ready: p.PrefillReplicas.Initial}
	}
	return arrived(now, p, forecaster.Supply{Ready: st.Prefill - len(st.PrefillPending), Pending: st.PrefillPending})
}

// Serving is the capacity of the pool's own replicas for a projection: in a disaggregated pool others compute prompts. Where t
// says that a rate was learned, it is as uncertain as t has it; nil is for rates that are known.
func Serving(p *capacity.Pool, t *capacity.Trusted) forecaster.Capacity {
	return serving{p, t, capacity.DecodeRole}
}

// Prompting is the same of the replicas that only compute prompts.
func Prompting(p *capacity.Pool, t *capacity.Trusted) forecaster.Capacity {
	return serving{p, t, capacity.PrefillRole}
}

type serving struct {
	pool    *capacity.Pool
	trusted *capacity.Trusted
	role    capacity.Role // where the pool is disaggregated
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

// PerReplica is that of the pool, without what replicas of the other role carry.
func (s serving) PerReplica(dimension string, reportedKV float64) (safe float64, ok bool) {
	if s.pool.Disaggregated && (capacity.RoleOf(dimension) == capacity.PrefillRole) != (s.role == capacity.PrefillRole) {
		return 0, false
	}
	return s.pool.PerReplica(dimension, reportedKV)
}

// roles decides for the prefill replicas of a disaggregated pool, after d has decided for the others, by the same rules: demand at
// the quantile over the lead window, reserves of their own, what had to stay at each tick of the last Cooldown, and of scaling in
// what speaks against it, its step and how often. Steps are from those last asked for, and without sight the number stands.
func (p *plan) roles(d *Decision, st *State, cfg Config) {
	pool := &p.in.Pool
	if !pool.Disaggregated {
		return
	}
	there := p.promptSupply.Ready + len(p.promptSupply.Pending)
	wanted := p.promptTarget(st, there, cfg)
	b := pool.BoundsOf(capacity.PrefillRole)
	limits := bounds{role: capacity.PrefillRole, there: there, least: b.Min, most: b.Max, leastKey: prefillBounds + "min", mostKey: prefillBounds + "max", mayShrink: len(st.ScaleIns) < cfg.MaxScaleIns}
	if budget, ok := pool.Budget(); ok && max(budget-d.Desired, b.Min) < limits.most {
		limits.most, limits.mostKey = max(budget-d.Desired, b.Min), "budget_hour_usd"
	}
	desired, constraints := limits.clamp(wanted, cfg)
	d.Constraints = append(append(d.Constraints, constraints...), refusals(p.prompts, prefillPrefix)...)

	at := p.now.Unix()
	switch {
	case desired > there:
		st.PrefillAsked, st.ScaleOuts = p.now, append(slices.Clone(st.ScaleOuts), at)
	case desired < there:
		st.ScaleIns = append(slices.Clone(st.ScaleIns), at)
	}
	st.PrefillKnown, st.Prefill, st.PrefillPending = true, desired, asking(p.promptSupply, p.now, desired).Pending
	d.ByRole = &Roles{
		Prefill: desired, Decode: d.Desired, PrefillReady: p.promptSupply.Ready, PrefillPending: len(p.promptSupply.Pending),
		PrefillNeeded: wanted, PrefillLimit: limits.most, PrefillReserves: pool.PrefillReserves, PrefillAskedAt: st.PrefillAsked.UTC(),
	}
	if projection := p.in.Projection.Prompts; projection != nil {
		for i := range projection.Resources {
			d.ByRole.PrefillProbability = max(d.ByRole.PrefillProbability, finite(projection.Resources[i].Probability[minutes(p.lead+cfg.Hold)-1]))
		}
		d.ByRole.PrefillDrivers = named(projection.Drivers)
	}
}

// promptTarget is how many prefill replicas to ask for, before their bounds, where there are so many.
func (p *plan) promptTarget(st *State, there int, cfg Config) int {
	least := 0 // what is seen now takes, reserves or not
	for i := range p.prompts {
		least = max(least, p.prompts[i].now)
	}
	if p.breach != nil {
		least = max(least, p.breach.Prefill.floor())
	}
	need, keep := p.size(p.prompts, p.in.Pool.PrefillReserves, least)
	switch {
	case p.blind == cold:
		return max(there, need)
	case p.blind != sighted || len(p.prompts) == 0:
		return there
	}
	st.PrefillKeeps = remember(st.PrefillKeeps, p.now, keep, cfg.Cooldown)
	enough := maxKept(st.PrefillKeeps)
	wanted := max(need, min(there, enough))
	if wanted < there && (p.whyKeepRequest(st.PrefillAsked, p.promptSupply, enough, cfg) != "" || p.whyStay(st, cfg, p.prompts) != "") {
		return there
	}
	return wanted
}

// remember adds what has to stay now to that of earlier ticks, and forgets what is older than span.
func remember(keeps []kept, now time.Time, replicas int, span time.Duration) []kept {
	old := now.Add(-span).Unix()
	keeps = slices.DeleteFunc(slices.Clone(keeps), func(k kept) bool { return k.At <= old })
	return append(keeps, kept{now.Unix(), replicas})
}

// most is the largest number of replicas that had to stay.
func maxKept(keeps []kept) (replicas int) {
	for _, k := range keeps {
		replicas = max(replicas, k.Replicas)
	}
	return replicas
}
