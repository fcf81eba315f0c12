package alerting

import (
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// CurrentSupply is the replicas of a pool at now, as they report. If none reports, the supply is assumed and observed
// is false: it starts at the last report, or at the pool's initial replicas. In active mode it then follows the
// requests: a requested replica is pending, and ready after the warm-up's 90th percentile. In advisory mode it does not
// change, because nobody is known to scale.
//
// Most engines report only once they are ready, and for some time after they were removed. So in active mode reports
// are corrected by the requests of the last lead time: see [State.corrected].
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
	if st.LastTick.IsZero() {
		return forecaster.Supply{Ready: p.Replicas.Initial}, false
	}
	return withArrived(now, p, forecaster.Supply{Ready: st.Ready, Pending: st.Pending}), false
}

// withArrived is an assumed supply at now: replicas are ready if requested longer ago than the warm-up's 90th
// percentile.
func withArrived(now time.Time, p *capacity.Pool, s forecaster.Supply) forecaster.Supply {
	warm := now.Add(-p.Warmup.Quantile(0.9))
	ready, _ := slices.BinarySearchFunc(s.Pending, warm, func(asked, t time.Time) int {
		if asked.After(t) {
			return 1
		}
		return -1
	})
	return forecaster.Supply{Ready: s.Ready + ready, Pending: slices.Clone(s.Pending[ready:])}
}

// reported is when each pending replica was first seen, in whole seconds as in a snapshot; now if unknown.
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

// corrected applies the requests after since to a reported supply: requested replicas that do not report yet are
// pending, and removed replicas that still report do not count. Older requests are ignored.
func (st *State) corrected(s forecaster.Supply, since time.Time) forecaster.Supply {
	missing := st.LastDesired - s.Ready - len(s.Pending)
	if missing < 0 && st.LastScaleIn.After(since) {
		return withRequested(s, since, st.LastDesired)
	}
	for _, asked := range st.Pending[max(0, len(st.Pending)-max(0, missing)):] {
		if asked.After(since) {
			s.Pending = append(s.Pending, asked)
		}
	}
	slices.SortFunc(s.Pending, time.Time.Compare)
	return s
}

// updateSupply stores the supply after desired replicas were requested at now. If replicas report, Pending has all
// requested replicas that are not ready, however old. delivered says that autoscalers receive the request.
func (st *State) updateSupply(now time.Time, supply forecaster.Supply, observed bool, desired int, delivered bool) {
	switch {
	case !delivered:
	case observed:
		supply.Pending = newestPending(st.Pending, max(0, desired-supply.Ready), now)
	default:
		supply = withRequested(supply, now, desired)
	}
	st.Ready, st.Pending = supply.Ready, supply.Pending
}

// withRequested is an assumed supply after desired replicas were requested at now. New ones are pending; pending ones
// are removed first.
func withRequested(s forecaster.Supply, now time.Time, desired int) forecaster.Supply {
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

// newestPending are the n newest pending replicas: the older ones have become ready. Missing ones were requested now.
func newestPending(pending []time.Time, n int, now time.Time) []time.Time {
	pending = slices.Clone(pending[max(0, len(pending)-n):])
	for len(pending) < n {
		pending = append(pending, now)
	}
	return pending
}
