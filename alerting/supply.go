package alerting

import (
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// CurrentSupply is the replicas of a pool at now: what they report, or when none does, what st believes. observed is
// false for belief, which starts at the pool's initial replicas or at what was last reported. In active mode belief then
// follows what was asked for: a replica is pending when asked for, and ready after the warm-up's 90th percentile. In
// advisory mode it stays, because nobody is known to act.
//
// The pipeline projects from the same supply that Decide uses.
func CurrentSupply(now time.Time, m features.PoolMinute, p *capacity.Pool, st State) (supply forecaster.Supply, observed bool) {
	if m.State.Observed {
		return forecaster.Supply{Ready: m.State.Ready, Pending: reported(now, m.State)}, true
	}
	if !st.SupplyKnown {
		return forecaster.Supply{Ready: p.Replicas.Initial}, false
	}
	return arrived(now, p, forecaster.Supply{Ready: st.Ready, Pending: st.Pending}), false
}

// arrived is a believed supply at now: what was asked for longer ago than the warm-up's 90th percentile is ready.
func arrived(now time.Time, p *capacity.Pool, s forecaster.Supply) forecaster.Supply {
	warm := now.Add(-p.Warmup.Quantile(0.9))
	ready, _ := slices.BinarySearchFunc(s.Pending, warm, func(asked, t time.Time) int {
		if asked.After(t) {
			return 1
		}
		return -1
	})
	return forecaster.Supply{Ready: s.Ready + ready, Pending: slices.Clone(s.Pending[ready:])}
}

// reported is when each pending replica was first seen, to the second, which is what a snapshot keeps of a time. A
// pending replica without a time counts from now.
func reported(now time.Time, s features.PoolState) []time.Time {
	var since []time.Time
	for _, t := range s.PendingSince[:min(len(s.PendingSince), s.Pending)] {
		since = append(since, t.UTC().Truncate(time.Second))
	}
	for len(since) < s.Pending {
		since = append(since, now)
	}
	return since
}

// believe is what st holds of the supply after desired replicas were asked for at now.
func (st *State) believe(now time.Time, supply forecaster.Supply, observed bool, desired int, mode Mode) {
	st.SupplyKnown, st.Ready, st.Pending = true, supply.Ready, supply.Pending
	if observed || mode != Active {
		return
	}
	supply = asking(supply, now, desired)
	st.Ready, st.Pending = supply.Ready, supply.Pending
}

// asking is a believed supply after desired replicas were asked for at now: more are on their way, and of fewer those on their
// way go first.
func asking(s forecaster.Supply, now time.Time, desired int) forecaster.Supply {
	s.Pending = slices.Clone(s.Pending)
	for s.Ready+len(s.Pending) < desired {
		s.Pending = append(s.Pending, now)
	}
	if surplus := s.Ready + len(s.Pending) - desired; surplus > 0 {
		cancelled := min(surplus, len(s.Pending))
		s.Pending = s.Pending[:len(s.Pending)-cancelled]
		s.Ready -= surplus - cancelled
	}
	return s
}
