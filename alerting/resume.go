package alerting

import (
	"slices"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Follow is the state after one more journaled decision, as far as the journal tells it: for a pool whose state was lost.
// What is not in the journal is as after no decision: demand has to be watched anew before a replica is given up.
func (st State) Follow(d *Decision) State {
	current := d.Ready + d.Pending
	switch at := d.Tick.Unix(); {
	case d.AskedAt.Equal(d.Tick):
		st.ScaleOuts = append(slices.Clone(st.ScaleOuts), at)
	case d.Desired < min(st.asked(current), current):
		st.ScaleIns = append(slices.Clone(st.ScaleIns), at)
	}
	st.Short, st.LastScaleOut = d.Desired > current, d.AskedAt
	st.follow(d)
	st.LastDesired, st.LastTick, st.Generation = d.Desired, d.Tick, d.Generation
	if d.Publish {
		st.published(d)
	}
	st.Breach = d.Breach
	if d.ByRole != nil {
		st.followPrefill(d)
	}
	if d.Basis != nil {
		for _, x := range d.Basis.Rates {
			if x.Dimension == capacity.KV && x.Learned > 0 {
				st.KVTokens = x.Learned
			}
		}
	}
	return st
}

// followPrefill is Follow for a disaggregated pool's prefill replicas.
func (st *State) followPrefill(d *Decision) {
	r := d.ByRole
	switch at := d.Tick.Unix(); {
	case st.PrefillKnown && r.Prefill > st.Prefill:
		st.ScaleOuts = append(slices.Clone(st.ScaleOuts), at)
	case st.PrefillKnown && r.Prefill < st.Prefill:
		st.ScaleIns = append(slices.Clone(st.ScaleIns), at)
	}
	supply := forecaster.Supply{Ready: r.PrefillReady, Pending: newest(st.PrefillPending, r.PrefillPending, d.Tick)}
	st.PrefillKnown, st.Prefill, st.PrefillAsked = true, r.Prefill, r.PrefillAskedAt
	if r.PrefillLimit > 0 { // else it is of a version that took all to be ready
		st.PrefillPending = asking(supply, d.Tick, r.Prefill).Pending
	}
}

// newest are the n newest of those pending, for the older ones have become ready; those missing were asked for at tick.
func newest(pending []time.Time, n int, tick time.Time) []time.Time {
	pending = slices.Clone(pending[max(0, len(pending)-n):])
	for len(pending) < n {
		pending = append(pending, tick)
	}
	return pending
}

// follow takes over the supply of a decision.
func (st *State) follow(d *Decision) {
	supply := forecaster.Supply{Ready: d.Ready, Pending: newest(st.Pending, d.Pending, d.Tick)}
	st.believe(d.Tick, supply, !d.SupplyAssumed, d.Desired, d.told())
}

// Reopen has a board go on with alerts that fire, for one whose memory was lost: they are not raised a second time, and
// their end is told.
func (b *Board) Reopen(alerts []Alert) {
	for i := range alerts {
		a := &alerts[i]
		o := Open{
			Name: a.Name, Pool: a.Labels["pool"], Role: a.Labels["role"], Resource: a.Labels["resource"], Class: a.Labels["class"], Severity: Severity(a.Labels["severity"]),
			Annotations: a.Annotations, Firing: true, StartsAt: a.StartsAt, UpdatedAt: a.UpdatedAt,
		}
		at, found := slices.BinarySearchFunc(b.open, o, Open.compare)
		if !found && !a.Resolved && len(b.open) < maxOpen {
			b.open = slices.Insert(b.open, at, o)
		}
	}
}
