package features

import "time"

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
// minutes get no first count.
//
// It costs O(classes × Revise in minutes).
func (a *Aggregator) Close(t time.Time) ([]Window, []PoolMinute) {
	next := unixTimeOf(t).minute()
	a.begin(next - 1)
	if next <= a.Open {
		return nil, nil
	}
	if next-1 > a.Open {
		a.advance(next - 1)
		for _, p := range a.pools {
			p.Lag.Gap = a.Open // skipped minutes have no first count, so no delay can be measured
		}
	}
	a.Closed = true
	a.windows, a.minutes = a.windows[:0], a.minutes[:0]
	states := make([]PoolState, len(a.pools))
	for i, p := range a.pools {
		states[i] = p.Fleet.state(startOf(next), a.cfg.ReplicaTTL)
		a.noteFleet(p, &states[i])
		for _, c := range p.classes {
			c.rankings = c.Accounts.rankings()
		}
	}
	a.nowcast()
	for m := a.oldest(); m <= a.Open; m++ {
		a.collect(m)
	}
	for i, p := range a.pools {
		a.minutes = append(a.minutes, PoolMinute{
			Pool: p.Name, Start: startOf(a.Open), Covered: a.covered(p, a.Open), QueueGrowing: a.growing(p, a.Open),
			KVRatio: p.Sharing.ratio(p.Expected.Cached.of()), State: states[i],
			LastEvent: p.LastEvent.time(), Attempts: a.attempts(p), Steady: a.steady(p), Latencies: a.latencies(p),
			Settled: startOf(a.oldest()), Served: &p.Coverage.at(a.oldest()).Served,
		})
	}
	a.advance(next)
	a.age()
	return a.windows, a.minutes
}

// collect appends the windows of one minute that are due.
func (a *Aggregator) collect(m int64) {
	settled := m == a.oldest()
	for _, p := range a.pools {
		covered, cov := a.covered(p, m), p.Coverage.at(m)
		censored := a.censored(p, m)
		due := settled || m == a.Open || covered != cov.Returned || censored != cov.Censored
		cov.Returned, cov.Censored = covered, censored
		var held heldMinute
		for _, c := range p.classes {
			at := c.Buckets.find(m)
			changed := c.Nowcasts.moved(a.Open-m) || at != nil && at.Dirty
			if !due && !changed || at == nil && c.Born > m {
				continue
			}
			if at != nil {
				at.Dirty = false
			}
			w := c.window(at, m, covered, censored, settled)
			if settled {
				held.add(&w)
				if at != nil && at.Pace.N > 0 && !censored && !a.censored(p, m+1) {
					c.Expected.learnPace(&at.Pace)
					p.Expected.learnPace(&at.Pace)
				}
			}
			w.Nowcast = c.Nowcasts.of(a.Open - m)
			a.windows = append(a.windows, w)
		}
		if settled && !censored { // with unknown start times, waiting requests would seem to hold tokens
			p.Sharing.learn(&held, float64(cov.Queue.Turned), &cov.Use)
		}
	}
}

// latencies has each minute of the open span that has begun.
func (a *Aggregator) latencies(p *pool) (out []Latency) {
	for m := a.oldest(); m <= a.Open; m++ {
		out = append(out, a.latency(p, m))
	}
	return out
}

// Unsettled returns the closed minutes that can still change, with the nowcasts of the last Close and without rankings.
// It has the order of Close and the same validity. A program that starts from a saved state shows them.
func (a *Aggregator) Unsettled() (out []Window) {
	for m := a.oldest(); a.Closed && m < a.Open; m++ {
		for _, p := range a.pools {
			for _, c := range p.classes {
				if at := c.Buckets.find(m); at != nil || c.Born <= m {
					w := c.window(at, m, a.covered(p, m), a.censored(p, m), false)
					w.Nowcast, w.Tenants, w.Features = c.Nowcasts.of(a.Open-1-m), nil, nil
					out = append(out, w)
				}
			}
		}
	}
	return out
}

// window is the window of a class in a minute; at is nil without records.
func (c *class) window(at *bucket, m int64, covered, censored, settled bool) Window {
	var w Window
	if at != nil {
		w = at.Window
	}
	w.Key, w.Start = Key{Pool: c.pool.Name, Class: c.Name}, startOf(m)
	w.Covered, w.Censored, w.Settled = covered, censored, settled
	w.Reports = c.Reports
	w.Tenants, w.Features = c.rankings[byTenant], c.rankings[byFeature]
	return w
}

// advance moves the open span, so that it begins Revise before the given minute.
func (a *Aggregator) advance(open int64) {
	a.Open = open
	for _, p := range a.pools {
		p.Settled = *p.Coverage.at(a.oldest() - 1)
		p.Coverage.keep(a.oldest(), a.end())
		for _, c := range p.classes {
			c.Buckets.keep(a.oldest(), a.end())
		}
	}
}
