package features

import (
	"math"
	"slices"
	"time"
)

// fade is the decay factor of accounts and moments per minute.
var fade = math.Exp2(-float64(Minute) / float64(RankingHalfLife))

// Close ends the minute [t − 1 min, t); t is a minute boundary. It returns, ordered by minute and then by Key,
//
//   - the first count of that minute for every class of every pool;
//   - windows inside the revise span that have changed since they were last returned: their counts, Covered, Censored
//     or the nowcast;
//   - the final form of the minute that settles, [t − Revise − 1 min, t − Revise), for every class that is as old.
//
// Windows are Settled when they are final; with Config.Revise zero the first count is. A minute without telemetry of
// the pool is returned too, with Covered false, so that the gap is visible. The second result has one entry for each
// known pool, ordered by name.
//
// The results are valid until the next Close. The sketches in windows that are not settled change with the next Add.
// The caller calls Close for each minute in turn. A boundary that is not after the last one returns nothing. Skipped
// minutes are counted in Counters.SkippedMinutes and get no first count.
//
// It costs O(classes × Revise in minutes).
func (a *Aggregator) Close(t time.Time) ([]Window, []PoolMinute) {
	next := minuteOf(t)
	a.begin(next - 1)
	if next <= a.open {
		return nil, nil
	}
	if skipped := next - 1 - a.open; skipped > 0 {
		if a.closed {
			a.counters.SkippedMinutes += uint64(skipped)
		}
		a.advance(next - 1)
		for _, p := range a.pools {
			p.lag.Gap = a.open // skipped minutes have no first count, so no delay can be measured
		}
	}
	a.closed = true
	a.windows, a.minutes = a.windows[:0], a.minutes[:0]
	for _, p := range a.pools {
		for _, c := range p.classes {
			c.accounts.rank(a.cfg.MaxTenants)
		}
	}
	a.nowcast()
	for m := a.oldest(); m <= a.open; m++ {
		a.collect(m)
	}
	for _, p := range a.pools {
		a.minutes = append(a.minutes, PoolMinute{
			Pool: p.name, Start: startOf(a.open), Covered: a.covered(p, a.open), QueueGrowing: a.growing(p, a.open), KVSharing: p.sharing.summary(p.expected.Hits.of()),
			State: p.fleet.state(p.name, startOf(next), a.cfg.ReplicaTTL), LastEvent: p.lastEvent.time(), Attempts: a.attempts(p),
		})
	}
	a.advance(next)
	a.round, a.unseen = a.round+1, a.open
	a.age()
	return a.windows, a.minutes
}

// collect appends the windows of one minute that are due.
func (a *Aggregator) collect(m int64) {
	settled := m == a.oldest()
	for _, p := range a.pools {
		covered, cov := a.covered(p, m), &p.coverage[a.slot(m)]
		censored := a.censored(p, m)
		due := settled || m == a.open || covered != cov.returned || censored != cov.censored
		cov.returned, cov.censored = covered, censored
		var held heldMinute
		for _, c := range p.classes {
			at := a.find(c, m)
			due := due || c.nowcasts.moved(m)
			if at == nil && !(due && c.born <= m) || at != nil && !due && !a.dirty(at, m) {
				continue
			}
			w := c.window(at, m, covered, censored, settled)
			if settled {
				a.settle(p, c, at, &w)
				held.add(&w)
			}
			w.Nowcast = c.nowcasts.of(a, m)
			a.windows = append(a.windows, w)
		}
		if settled && !censored { // with unknown start times, waiting requests would seem to hold tokens
			p.sharing.learn(&held, float64(cov.queuePressure.Turned), &cov.use)
		}
	}
}

// settle completes the window of a minute that settles; at is nil without records.
func (a *Aggregator) settle(p *pool, c *class, at *bucket, w *Window) {
	if c.late != (Late{}) {
		late := c.late
		w.Late, c.late = &late, Late{}
	}
	if at != nil && at.pace.N > 0 && !w.Censored && !a.censored(p, a.oldest()+1) {
		c.expected.learnPace(&at.pace)
		p.expected.learnPace(&at.pace)
	}
}

// window is the window of a class in a minute; at is nil without records.
func (c *class) window(at *bucket, m int64, covered, censored, settled bool) Window {
	var w Window
	if at != nil {
		w = at.Window
		w.show(at.shapes)
	}
	w.Key, w.Start, w.Covered, w.Censored, w.Settled = c.key, startOf(m), covered, censored, settled
	w.Reports = c.reports
	for kind, r := range w.rankings() {
		*r = c.accounts[kind].ranking()
	}
	return w
}

// advance moves the open span, so that it begins Revise before the given minute.
func (a *Aggregator) advance(open int64) {
	for m := a.oldest(); m < min(open-a.revise, a.end()); m++ {
		i := a.slot(m)
		for _, p := range a.pools {
			p.settled, p.coverage[i] = p.coverage[i], coverage{}
			for _, c := range p.classes {
				a.release(c, i)
			}
		}
	}
	a.open = open
}

// age fades accounts and moments, and evicts silent replicas and classes.
func (a *Aggregator) age() {
	a.arrivals.forget(a.oldest())
	forgotten, evicted := max(minutes(a.cfg.ClassTTL), a.revise+a.ahead), a.counters.ClassesEvicted
	for _, p := range a.pools {
		p.fleet.forget(startOf(a.open).Add(-a.cfg.ReplicaTTL))
		p.classes = slices.DeleteFunc(p.classes, func(c *class) bool {
			if c.last+forgotten >= a.open {
				c.moments.Scale(fade)
				c.accounts.fade(fade)
				return false
			}
			a.evict(p, c)
			return true
		})
	}
	if a.counters.ClassesEvicted > evicted {
		a.arrivals.release()
	}
}

// evict releases the buckets of a class. The caller removes it from the pool's list.
func (a *Aggregator) evict(p *pool, c *class) {
	for i := range c.buckets {
		a.release(c, i)
	}
	c.evicted = true
	delete(p.byName, c.key.Class)
	if c.key.Class != OverflowClass {
		a.named--
	}
	a.counters.ClassesEvicted++
}

// Forget removes a pool and all of its classes. Earlier results of Close become invalid.
func (a *Aggregator) Forget(name string) {
	p := a.known(name)
	if p == nil {
		return
	}
	for _, c := range p.classes {
		a.evict(p, c)
	}
	a.arrivals.release()
	delete(a.byName, name)
	delete(a.cfg.Service, name)
	a.latest = nil
	a.pools = slices.DeleteFunc(a.pools, func(q *pool) bool { return q == p })
}

// SetService sets the service rates from which the KV occupancy of a pool's requests without times is computed.
func (a *Aggregator) SetService(pool string, s Service) {
	a.cfg.Service[pool] = s
	if p := a.known(pool); p != nil {
		p.service = a.cfg.service(pool)
	}
}
