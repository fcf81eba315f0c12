package alerting

import (
	"slices"

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
		st.LastPublished = d.Tick
		st.PublishedDesired, st.PublishedAction, st.PublishedBinding = d.Desired, d.Action, d.Binding
	}
	if d.ByRole != nil {
		if st.Prefill > 0 {
			st.countPrompts(d.Tick.Unix(), st.Prefill, d.ByRole.Prefill)
		}
		st.Prefill = d.ByRole.Prefill
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

// follow takes over the supply of a decision.
func (st *State) follow(d *Decision) {
	pending := st.Pending[max(0, len(st.Pending)-d.Pending):] // the older ones have become ready
	for len(pending) < d.Pending {
		pending = append(slices.Clone(pending), d.Tick)
	}
	st.SupplyKnown, st.Ready, st.Pending = true, d.Ready, slices.Clone(pending)
	if d.SupplyAssumed {
		st.believe(d.Tick, forecaster.Supply{Ready: st.Ready, Pending: st.Pending}, false, d.Desired, d.Mode)
	}
}

// Reopen has a board go on with alerts that fire, for one whose memory was lost: they are not raised a second time, and
// their end is told.
func (b *Board) Reopen(alerts []Alert) {
	for i := range alerts {
		a := &alerts[i]
		o := Open{
			Name: a.Name, Pool: a.Labels["pool"], Resource: a.Labels["resource"], Class: a.Labels["class"], Severity: Severity(a.Labels["severity"]),
			Annotations: a.Annotations, Firing: true, StartsAt: a.StartsAt, UpdatedAt: a.UpdatedAt,
		}
		at, found := slices.BinarySearchFunc(b.open, o, Open.compare)
		if !found && !a.Resolved && len(b.open) < maxOpen {
			b.open = slices.Insert(b.open, at, o)
		}
	}
}
