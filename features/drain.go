package features

import (
	"time"

	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/ingest"
)

// Increments are what an Aggregator has counted since it was drained last, ordered by pool, class and minute.
type Increments struct {
	Windows []ingest.Window
	Minutes []ingest.Minute
	Pools   []PoolMinute // as Close returns them, without what follows from the demand of windows
}

// Drain ends the minute [t − 1 min, t) in place of [Aggregator.Close], for an edge: it hands out what was counted in the
// open minutes up to that one since the last Drain, and counts them from zero. The increments belong to the caller; adding
// all of them with [Aggregator.AddWindow] and [Aggregator.AddMinute] to another Aggregator gives the windows that it would have counted
// itself from the same records: counts and sketches exactly, sums of token-seconds up to rounding. What calls that were
// cut off would have needed is an expectation, and follows from the traffic that this Aggregator has seen alone; a call
// whose attempts come to different edges counts at each; the rankings' error bounds add up, and each edge begins to count
// nameless tokens with the first name that it sees.
//
// An Aggregator is either closed or drained. It costs O(classes × Revise in minutes).
func (a *Aggregator) Drain(t time.Time) (out Increments) {
	next := minuteOf(t)
	a.begin(next - 1)
	if next <= a.open {
		return out
	}
	if skipped := next - 1 - a.open; skipped > 0 {
		if a.closed {
			a.counters.SkippedMinutes += uint64(skipped)
		}
		a.advance(next - 1)
	}
	a.closed = true
	a.settleBacklog()
	a.recycle()
	a.countSessions(moment(next) * minuteLength)
	for _, p := range a.pools {
		for _, c := range p.classes {
			out.Windows = a.drainClass(out.Windows, c)
		}
		out.Minutes = a.drainPool(out.Minutes, p)
		out.Pools = append(out.Pools, PoolMinute{
			Pool: p.name, Start: startOf(a.open), Covered: a.covered(p, a.open), QueueGrowing: a.growing(p, a.open),
			State: p.fleet.state(p.name, startOf(next), a.cfg.ReplicaTTL), LastEvent: p.lastEvent.time(),
		})
	}
	a.advance(next)
	a.round, a.unseen = a.round+1, a.open
	a.age()
	return out
}

// drainClass hands out what is new of a class. What belongs to no minute goes with the newest.
func (a *Aggregator) drainClass(out []ingest.Window, c *class) []ingest.Window {
	for m := a.oldest(); m < a.open; m++ {
		if at := a.find(c, m); at != nil && a.dirty(at, m) {
			out = append(out, a.drainCell(c, m))
		}
	}
	newest := ingest.Window{Pool: c.key.Pool, Class: c.key.Class, Start: startOf(a.open), Reports: uint8(c.reports)}
	at := a.find(c, a.open)
	some := at != nil && a.dirty(at, a.open)
	if some {
		newest = a.drainCell(c, a.open)
	}
	newest.Tenants, newest.Features, newest.Sessions = c.tenants.drain(), c.features.drain(), c.sessions.drain()
	for i, v := range c.late.figures() {
		newest.Figures[int(ingest.FigureLateRecords)+i] = *v
	}
	some = some || c.late != (Late{}) || newest.Tenants.Total > 0 || newest.Features.Total > 0 || newest.Sessions != nil
	c.late = Late{}
	if some {
		out = append(out, newest)
	}
	return out
}

// drainCell empties a cell, except for the pace of its minute, which is learnt from when that settles.
func (a *Aggregator) drainCell(c *class, m int64) ingest.Window {
	a.own(c, m)
	at := a.whole(c, m)
	w := ingest.Window{Pool: c.key.Pool, Class: c.key.Class, Start: startOf(m), Reports: uint8(c.reports), Timed: at.KVTimed}
	for i, v := range at.Window.figures() {
		if w.Figures[i] = *v; !ingest.Figure(i).Signed() {
			w.Figures[i] = max(*v, 0) // an area may fall short of zero by rounding
		}
	}
	if at.shapes != nil {
		for i := range at.shapes {
			if s := &at.shapes[i]; s.Count() > 0 {
				w.Sketches[i], _ = s.AppendBinary(nil) // never fails
			}
			at.shapes[i].Reset()
		}
		a.spareShapes.give(at.shapes)
	}
	*at = cell{pace: at.pace, era: a.era}
	return w
}

// drainPool hands out which minutes telemetry of the pool has newly turned out to be alive in, and what is new of its
// queue; then the oldest minute teaches the pace of service.
func (a *Aggregator) drainPool(out []ingest.Minute, p *pool) []ingest.Minute {
	for m := a.oldest(); m <= a.open; m++ {
		cov, covered := &p.coverage[a.slot(m)], a.covered(p, m)
		cov.censored = a.censored(p, m)
		s := cov.strain
		s.Waiting, s.Reported = 0, false // replicas' reports are passed on as such
		if covered == cov.returned && s == cov.drained {
			continue
		}
		out = append(out, ingest.Minute{
			Pool: p.name, Start: startOf(m), LastEvent: p.lastEvent.time(),
			Attempts: float64(s.Attempts - cov.drained.Attempts), Turned: float64(s.Turned - cov.drained.Turned),
			Waited: float64(max(s.Waited-cov.drained.Waited, 0)), Started: float64(s.Started - cov.drained.Started),
		})
		cov.returned, cov.drained = covered, s
	}
	for _, c := range p.classes {
		if at := a.find(c, a.oldest()); at != nil {
			a.settle(p, c, at, &Window{Censored: a.censored(p, a.oldest())})
		}
	}
	return out
}

// drain hands out the account, and opens a new one for the same names to come.
func (a *account) drain() (r ingest.Ranking) {
	if a == nil || !(a.names.Total() > 0) {
		return r
	}
	for _, c := range a.names.Top(a.names.Len()) {
		r.Names = append(r.Names, ingest.Weight(c))
	}
	r.Floor, r.Total = a.names.Floor(), a.names.Total()
	a.names, a.booked = sketch.NewTopK(a.names.State().Counters), false
	return r
}

// drain hands out the sums over sessions as they stand, and what happened since the last minute; nil when there is none.
func (a *sessionAccount) drain() *[ingest.SessionFigures]int64 {
	if a == nil {
		return nil
	}
	var out [ingest.SessionFigures]int64
	for i, v := range a.now.figures() {
		out[i] = *v
	}
	out[ingest.SessionStarted], out[ingest.SessionGaps], out[ingest.SessionWaited] = int64(a.since.Started), int64(a.since.Gaps), a.since.Waited
	for i, v := range a.byAge() {
		out[int(ingest.SessionByAge)+i] = *v
	}
	a.now, a.since = sessionSums{}, SessionsSince{}
	if out == ([ingest.SessionFigures]int64{}) {
		return nil
	}
	return &out
}
