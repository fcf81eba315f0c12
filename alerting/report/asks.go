package report

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

// actions counts the changes of the desired replicas, and those that undo the one before within an hour.
func (b *builder) actions(pool string) (n, takenBack int) {
	ticks := b.ticks[pool]
	up, from := false, (*tick)(nil) // the action before
	for i := 1; i < len(ticks); i++ {
		t, more := &ticks[i], ticks[i].desired > ticks[i-1].desired
		if t.desired == ticks[i-1].desired {
			continue
		}
		if !t.at.Before(b.from) {
			n++
			if from != nil && more != up && t.at.Sub(from.at) <= time.Hour {
				takenBack++
			}
		}
		up, from = more, t
	}
	return n, takenBack
}

// replicaRequest is a decision's request for one replica: the level-th of the pool.
type replicaRequest struct {
	level     int
	requested *tick
	ready     *tick // nil if it was not ready within its timeout
	ended     int   // the minute in which it was no longer requested; else the end of the period
	withdrawn bool  // ended within its timeout
	ignored   bool  // still requested at the end of its timeout
}

// timeout is how long a request waits for its replica: twice the lead time, at least an hour. A replica that is ready
// later has another cause: no autoscaler obeyed the request.
func (a *replicaRequest) timeout() time.Duration { return max(2*a.requested.lead, time.Hour) }

// update applies a later decision; it reports whether the request ended with it.
func (a *replicaRequest) update(t *tick) (ended bool) {
	if a.ready == nil && !a.ignored {
		if a.ignored = t.at.Sub(a.requested.at) > a.timeout(); !a.ignored && t.ready >= a.level {
			a.ready = t
		}
	}
	a.withdrawn = t.desired < a.level && !a.ignored
	return t.desired < a.level
}

// asks counts the requests of the period by result.
func (b *builder) asks(pool string, needs []int) (out Asks) {
	var toReady []float64
	for _, a := range b.replicaRequests(pool) {
		out.Replicas++
		crossing, known := b.firstNeeded(&a, needs)
		switch {
		case a.ready != nil:
			out.Ready++
			toReady = append(toReady, a.ready.at.Sub(a.requested.at).Minutes())
		case a.ignored:
			out.Ignored++
		case a.withdrawn:
			out.Withdrawn++
		default:
			out.Waiting++
		}
		switch {
		case crossing < 0 && known:
			out.Unneeded++
		case crossing < 0:
			out.Unknown++
		case a.ready != nil && b.index(a.ready.at) <= crossing:
			out.InTime++
		default:
			out.Late++
		}
	}
	out.EventToReady = spread(toReady)
	return out
}

// replicaRequests lists the replicas requested in the period, above those that were ready, pending, or requested before.
func (b *builder) replicaRequests(pool string) (all []replicaRequest) {
	ticks := b.ticks[pool]
	_, end := b.bounds()
	var open []*replicaRequest
	for i := range ticks {
		t := &ticks[i]
		open = slices.DeleteFunc(open, func(a *replicaRequest) bool {
			if !a.update(t) {
				return false
			}
			a.ended = b.index(t.at)
			all = append(all, *a)
			return true
		})
		if i == 0 || t.at.Before(b.from) {
			continue
		}
		for level := max(ticks[i-1].desired, t.ready+t.pending) + 1; level <= t.desired; level++ {
			if !slices.ContainsFunc(open, func(a *replicaRequest) bool { return a.level == level }) {
				open = append(open, &replicaRequest{level: level, requested: t, ended: end})
			}
		}
	}
	for _, a := range open {
		all = append(all, *a)
	}
	return all
}

// firstNeeded is the first minute, while a replica was requested, in which load and reserves needed it; -1 if none did.
// known is false if the load of a minute until then is unknown.
func (b *builder) firstNeeded(a *replicaRequest, needs []int) (minute int, known bool) {
	known = true
	for m := b.index(a.requested.at); m < min(a.ended, len(needs)); m++ {
		switch n := needs[m]; {
		case n == unknownNeed:
			known = false
		case n+a.requested.reserve >= a.level:
			return m, known
		}
	}
	return -1, known
}

// spread summarises values.
func spread(v []float64) Spread {
	slices.Sort(v)
	return Spread{Count: len(v), P50: quantile(v, .5), P90: quantile(v, .9)}
}

// quantile of ascending values, linear between them; unknown without values.
func quantile(v []float64, p float64) Number {
	if len(v) == 0 {
		return Number(math.NaN())
	}
	return Number(features.QuantileOf(v, p))
}
