package report

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

// actions counts the changes of what was asked for, and those that undo the one before within an hour.
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

// ask is one replica that was asked for: the level-th of the pool.
type ask struct {
	level   int
	asked   *tick
	ready   *tick // nil when it did not come within its patience
	ended   int   // the minute in which it was no longer asked for; the end of the period when it always was
	gaveUp  bool  // before its patience was over
	ignored bool  // it was still asked for when its patience was over
}

// patience is how long an ask waits for its replica: twice the lead time, an hour at least. What is ready later came for
// another reason, and nobody obeyed the ask.
func (a *ask) patience() time.Duration { return max(2*a.asked.lead, time.Hour) }

// see takes note of a later decision; it says whether the ask has ended with it.
func (a *ask) see(t *tick) (ended bool) {
	if a.ready == nil && !a.ignored {
		if a.ignored = t.at.Sub(a.asked.at) > a.patience(); !a.ignored && t.ready >= a.level {
			a.ready = t
		}
	}
	a.gaveUp = t.desired < a.level && !a.ignored
	return t.desired < a.level
}

// asks follows the replicas that were asked for in the period to its end.
func (b *builder) asks(pool string, needs []int) (out Asks) {
	var toReady []float64
	for _, a := range b.replicasAsked(pool) {
		out.Replicas++
		crossing, known := b.crossed(&a, needs)
		switch {
		case a.ready != nil:
			out.Ready++
			toReady = append(toReady, a.ready.at.Sub(a.asked.at).Minutes())
		case a.ignored:
			out.Ignored++
		case a.gaveUp:
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

// replicasAsked lists the replicas asked for in the period beyond those that were there, on the way, or asked for before.
func (b *builder) replicasAsked(pool string) (all []ask) {
	ticks := b.ticks[pool]
	_, end := b.bounds()
	var open []*ask
	for i := range ticks {
		t := &ticks[i]
		open = slices.DeleteFunc(open, func(a *ask) bool {
			if !a.see(t) {
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
			if !slices.ContainsFunc(open, func(a *ask) bool { return a.level == level }) {
				open = append(open, &ask{level: level, asked: t, ended: end})
			}
		}
	}
	for _, a := range open {
		all = append(all, *a)
	}
	return all
}

// crossed is the first minute, while a replica was asked for, in which demand and the reserves took it; -1 when none did.
// known says that demand was known until then.
func (b *builder) crossed(a *ask, needs []int) (minute int, known bool) {
	known = true
	for m := b.index(a.asked.at); m < min(a.ended, len(needs)); m++ {
		switch n := needs[m]; {
		case n == unknownNeed:
			known = false
		case n+a.asked.reserve >= a.level:
			return m, known
		}
	}
	return -1, known
}

// spread summarises values.
func spread(v []float64) Spread {
	slices.Sort(v)
	return Spread{Count: len(v), P50: between(v, .5), P90: between(v, .9)}
}

// between is the quantile of ascending values, linear between them; unknown without any.
func between(v []float64, p float64) Number {
	if len(v) == 0 {
		return Number(math.NaN())
	}
	return Number(features.QuantileOf(v, p))
}
