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
// Most engines report only once they are ready, and for some time after they were removed. So in active mode reports are
// corrected by what was asked for less than a lead time ago: see [State.corrected].
//
// The pipeline projects from the same supply that Decide uses.
func CurrentSupply(now time.Time, m features.PoolMinute, p *capacity.Pool, st State, mode Mode) (supply forecaster.Supply, observed bool) {
	if m.State.Observed {
		supply = forecaster.Supply{Ready: m.State.Ready, Pending: reported(now, m.State)}
		if mode == Active && !st.LastTick.IsZero() {
			supply = st.corrected(supply, now.Add(-forecaster.LeadTime(&p.Warmup)))
		}
		return supply, true
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

// obeyed is a reported supply when what was asked for after since is under way: replicas that were asked for and do not
// report yet are pending, and replicas that were given up and still report are gone. What was asked for longer ago and is
// not seen is not counted on.
func (st *State) corrected(s forecaster.Supply, since time.Time) forecaster.Supply {
	missing := st.LastDesired - s.Ready - len(s.Pending)
	if n := len(st.ScaleIns); missing < 0 && n > 0 && st.ScaleIns[n-1] > since.Unix() {
		return asking(s, since, st.LastDesired)
	}
	for _, asked := range st.Pending[max(0, len(st.Pending)-max(0, missing)):] {
		if asked.After(since) {
			s.Pending = append(s.Pending, asked)
		}
	}
	slices.SortFunc(s.Pending, time.Time.Compare)
	return s
}

// believe is what st holds of the supply after desired replicas were asked for at now. Of replicas that report, Pending
// has all that were asked for and are not ready, however long ago. told says that autoscalers hear of it.
func (st *State) updateSupply(now time.Time, supply forecaster.Supply, observed bool, desired int, told bool) {
	switch {
	case !told:
	case observed:
		supply.Pending = newest(st.Pending, max(0, desired-supply.Ready), now)
	default:
		supply = asking(supply, now, desired)
	}
	st.SupplyKnown, st.Ready, st.Pending = true, supply.Ready, supply.Pending
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

// newest are the n newest of those pending, for the older ones have become ready; those missing were asked for at tick.
func newest(pending []time.Time, n int, tick time.Time) []time.Time {
	pending = slices.Clone(pending[max(0, len(pending)-n):])
	for len(pending) < n {
		pending = append(pending, tick)
	}
	return pending
}
