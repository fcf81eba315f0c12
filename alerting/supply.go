package alerting

import (
	"slices"
	"sort"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// CurrentSupply is the replicas of a pool at now, as they report. If none reports, the supply is assumed and observed
// is false: it starts at the last report, or at the pool's initial replicas. In active mode it then follows the
// requests for replicas: a requested replica is pending, and ready after the warm-up's 90th percentile. In advisory mode
// it does not change, because nobody is known to scale.
//
// Most engines report only once they are ready, and for some time after they were removed. So in active mode reports
// are corrected by the requests for replicas of the last lead time: see [State.corrected].
func CurrentSupply(now time.Time, m features.PoolMinute, p *capacity.Pool, st State, mode Mode) (supply forecaster.Supply, observed bool) {
	if m.State.Observed {
		supply.Ready = m.State.Ready
		for _, t := range m.State.PendingSince {
			supply.Pending = append(supply.Pending, t.UTC().Truncate(time.Second)) // as in a snapshot
		}
		if mode == Active && st.Delivered != nil {
			supply = st.corrected(supply, now.Add(-forecaster.LeadTime(&p.Warmup)))
		}
		return supply, true
	}
	if st.LastTick.IsZero() {
		return forecaster.Supply{Ready: p.Replicas.Initial}, false
	}
	return withArrived(now, p, forecaster.Supply{Ready: st.Ready, Pending: st.Pending}), false
}

// withArrived is an assumed supply at now: replicas are ready from the warm-up's 90th percentile after their request.
func withArrived(now time.Time, p *capacity.Pool, s forecaster.Supply) forecaster.Supply {
	warm := now.Add(-p.Warmup.Quantile(0.9))
	ready := sort.Search(len(s.Pending), func(i int) bool { return s.Pending[i].After(warm) })
	return forecaster.Supply{Ready: s.Ready + ready, Pending: slices.Clone(s.Pending[ready:])}
}

// corrected applies the delivered requests for replicas after since to a reported supply: requested replicas that do not
// report yet are pending, and removed replicas that still report do not count. Older requests are ignored.
func (st *State) corrected(s forecaster.Supply, since time.Time) forecaster.Supply {
	missing := *st.Delivered - s.Ready - len(s.Pending)
	if missing < 0 && st.LastScaleIn.After(since) {
		return without(s, -missing)
	}
	for _, asked := range st.Pending[max(0, len(st.Pending)-max(0, missing)):] {
		if asked.After(since) {
			s.Pending = append(s.Pending, asked)
		}
	}
	slices.SortFunc(s.Pending, time.Time.Compare)
	return s
}

// updateSupply stores the supply after d. If replicas report, Pending has all replicas that were requested of
// autoscalers and are not ready, however old. A decision that they do not receive requests none.
func (st *State) updateSupply(d *Decision, supply forecaster.Supply) {
	switch {
	case d.delivered():
		st.Delivered = new(d.Desired)
	case d.Mode == Advisory:
		st.Delivered = nil
	}
	switch {
	case st.Delivered != nil && !d.SupplyAssumed:
		missing := max(0, *st.Delivered-supply.Ready)
		newest := st.Pending[max(0, len(st.Pending)-missing):] // the older ones have become ready
		supply.Pending = withRequested(forecaster.Supply{Pending: newest}, d.Tick, missing).Pending
	case d.delivered():
		supply = withRequested(supply, d.Tick, d.Desired)
	}
	st.Ready, st.Pending = supply.Ready, supply.Pending
}

// updateLost counts the replicas that no longer report and did not drain, since the last decision had enough.
func (st *State) updateLost(now time.Time, s *features.PoolState) {
	left := s.Ready + s.Pending
	if st.Lost == 0 {
		st.LostAt = now
	}
	if st.Lost = max(0, st.Lost+st.Reported-left-s.Draining); left >= st.LastDesired {
		st.Lost = 0
	}
	st.Reported = left
}

// withRequested is an assumed supply after desired replicas were requested at now. New ones are pending.
func withRequested(s forecaster.Supply, now time.Time, desired int) forecaster.Supply {
	s.Pending = slices.Clone(s.Pending)
	for s.Ready+len(s.Pending) < desired {
		s.Pending = append(s.Pending, now)
	}
	return without(s, s.Ready+len(s.Pending)-desired)
}

// without is a supply with n replicas fewer. The newest pending ones are removed first.
func without(s forecaster.Supply, n int) forecaster.Supply {
	cancelled := min(n, len(s.Pending))
	s.Pending = s.Pending[:len(s.Pending)-cancelled]
	s.Ready -= n - cancelled
	return s
}
