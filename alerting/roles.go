package alerting

import (
	"slices"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// Roles are the replicas of a disaggregated pool by role. Decode is the desired_replicas of the pool. All other fields
// of a decision are about decode replicas; those that begin with prefill are about replicas that only compute prompts.
// Prefill replicas do not report, so their number is the last one requested. A new one is pending until the 90th percentile
// of the warm-up lag.
type Roles struct {
	Prefill         int                 `json:"prefill" cbor:"1,keyasint"`
	Decode          int                 `json:"decode" cbor:"2,keyasint"`
	PrefillReady    int                 `json:"prefill_ready" cbor:"4,keyasint,omitempty"`
	PrefillPending  int                 `json:"prefill_pending" cbor:"5,keyasint,omitempty"`
	PrefillNeeded   int                 `json:"prefill_needed" cbor:"6,keyasint,omitempty"` // before the constraints
	PrefillLimit    int                 `json:"prefill_limit" cbor:"7,keyasint,omitempty"`
	PrefillReserves capacity.Reserves   `json:"prefill_reserves" cbor:"8,keyasint,omitzero"`
	PrefillAskedAt  time.Time           `json:"prefill_asked_at,omitzero" cbor:"9,keyasint,omitzero"` // newest request for more
	PrefillDrivers  []forecaster.Driver `json:"-" cbor:"10,keyasint,omitempty"`

	PrefillConstraints []Constraint `json:"-" cbor:"11,keyasint,omitempty"`
}

// PrefillReplicas is the number of prefill replicas that d requests; 0 in a pool without any.
func (d *Decision) PrefillReplicas() int {
	if d.ByRole == nil {
		return 0
	}
	return d.ByRole.Prefill
}

// Prefilling is the decision for the prefill replicas, in the fields of a Decision; nil if a pool has none or if their
// demand could not be sized.
func (d *Decision) Prefilling() *Decision {
	r := d.ByRole
	if r == nil || len(d.Prompts) == 0 {
		return nil
	}
	v := *d
	v.Ready, v.Pending, v.Unreported, v.SupplyAssumed, v.FromZero = r.PrefillReady, r.PrefillPending, 0, true, false
	v.Desired, v.Needed, v.Limit, v.Reserves, v.AskedAt = r.Prefill, r.PrefillNeeded, r.PrefillLimit, r.PrefillReserves, r.PrefillAskedAt
	v.Resources, v.Drivers, v.Constraints = d.Prompts, r.PrefillDrivers, r.PrefillConstraints
	b := slices.MaxFunc(d.Prompts, func(a, b ResourceEvidence) int { return a.NeedReplicas - b.NeedReplicas })
	v.Binding, v.Probability, v.ETA = b.Dimension, b.Probability, b.ETA
	v.Floor, v.NeededBy, v.Events = 0, time.Time{}, nil
	v.Action = Hold
	if there := v.Ready + v.Pending; v.Desired > there {
		v.Action = ScaleOut
	} else if v.Desired < there {
		v.Action = ScaleIn
	}
	return &v
}

// PoolAction is the action of the whole pool: that of d, or that of the prefill replicas while d holds.
func (d *Decision) PoolAction() Action {
	if v := d.Prefilling(); d.Action == Hold && v != nil {
		return v.Action
	}
	return d.Action
}

// byRole are d and, if any, the decision for its prefill replicas.
func (d *Decision) byRole() []*Decision {
	if prefill := d.Prefilling(); prefill != nil {
		return []*Decision{d, prefill}
	}
	return []*Decision{d}
}

// ofPrefill reports whether d is from Prefilling.
func (d *Decision) ofPrefill() bool {
	return d.ByRole != nil && capacity.RoleOf(d.Binding) == capacity.PrefillRole
}

// role is d's role as an adjective; "" in a pool without roles.
func (d *Decision) role() string {
	switch {
	case d.ByRole == nil:
		return ""
	case d.ofPrefill():
		return "prefill "
	}
	return "decode "
}

func (d *Decision) replicasText(n int) string { return value.Count(n, d.role()+"replica") }

// PrefillSupply is the prefill replicas of a disaggregated pool, counted as in Roles.
func PrefillSupply(now time.Time, p *capacity.Pool, st *State) forecaster.Supply {
	if !st.PrefillKnown {
		return forecaster.Supply{Ready: p.BoundsOf(capacity.PrefillRole).Initial}
	}
	return withArrived(now, p, forecaster.Supply{Ready: st.Prefill - len(st.PrefillPending), Pending: st.PrefillPending})
}

// Serving is the capacity of a pool's replicas of one role.
type Serving struct {
	Pool    *capacity.Pool
	Trusted *capacity.Trusted // the uncertainty of learned rates; nil if all rates are certain
	Role    capacity.Role     // counts only in a disaggregated pool
}

// Spread is the interval of a learned rate, divided by its value. It is 1, 1 for other rates, and for an extrapolated
// one, which is a careful bound already.
func (s Serving) Spread(dimension string) (low, high float64) {
	if s.Trusted == nil {
		return 1, 1
	}
	b := map[string]capacity.Basis{capacity.Prefill: s.Trusted.Prefill, capacity.Decode: s.Trusted.Decode}[dimension]
	if e := b.Learned; b.Source == capacity.Learned && !e.Extrapolated && e.Value > 0 && e.Low > 0 && e.High >= e.Value {
		return min(e.Low/e.Value, 1), e.High / e.Value
	}
	return 1, 1
}

// PerReplica is the pool's; ok is false for resources of the other role.
func (s Serving) PerReplica(dimension string, reportedKV float64) (safe float64, ok bool) {
	if s.Pool.Disaggregated && (capacity.RoleOf(dimension) == capacity.PrefillRole) != (s.Role == capacity.PrefillRole) {
		return 0, false
	}
	return s.Pool.PerReplica(dimension, reportedKV)
}

// roles adds the decision for the prefill replicas of a disaggregated pool. It follows the rules of Decide, with
// their own reserves. Steps count from the last request for replicas. If demand cannot be sized, the number does not change.
func (p *draft) roles() {
	if !p.in.Pool.Disaggregated {
		return
	}
	s, st := &p.prefill, p.st
	there, wanted := s.current, p.target(s)
	desired, most, constraints := p.bound(s, wanted, p.Desired)
	if p.Withheld == "" { // also in advisory mode: somebody is assumed to follow; a withheld request is none
		if desired > there {
			st.PrefillAsked = p.Tick
		}
		st.PrefillKnown, st.Prefill, st.PrefillPending = true, desired, withRequested(s.supply, p.Tick, desired).Pending
	}
	p.ByRole = &Roles{
		Prefill: desired, Decode: p.Desired,
		PrefillReady: s.supply.Ready, PrefillPending: len(s.supply.Pending),
		PrefillNeeded: wanted, PrefillLimit: most, PrefillConstraints: constraints,
		PrefillReserves: p.in.Pool.ReservesOf(s.role), PrefillAskedAt: st.PrefillAsked.UTC(),
		PrefillDrivers: finiteDrivers(s.projection.Drivers),
	}
}
