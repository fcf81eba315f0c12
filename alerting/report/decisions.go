package report

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
)

// tick is the part of a decision that the report needs.
type tick struct {
	at                      time.Time
	ready, pending, desired int
	reserve, least, limit   int
	probability             float64
	ahead, warnFrom         float64 // probability and threshold of warnings; warnFrom is 0 if unknown
	lead                    time.Duration
	lag                     time.Duration // median warm-up lag that the decision used; without it the lead less a minute
	mode                    alerting.Mode
	stale                   bool
	cause                   string
	capacities              []capacity
	prompts                 []capacity // of a disaggregated pool's prefill replicas
}

// capacity of one replica for one resource.
type capacity struct {
	dimension  string
	perReplica float64
	retries    float64 // load of all attempts over that of calls
}

func newTick(d *alerting.Decision) tick {
	t := tick{
		at: d.Tick, ready: d.Ready, pending: d.Pending, desired: d.Desired, probability: d.Risk(), lead: d.Lead,
		mode: d.Mode, stale: d.Stale, cause: d.Cause(),
		ahead: d.Ahead(), warnFrom: d.WarnFrom,
		reserve: d.Reserves.Total(), limit: d.Limit, lag: d.Lead - features.Minute,
	}
	if d.Basis != nil {
		t.least = d.Basis.Least
		t.lag = time.Duration(d.Basis.Warmup.P50 * float64(time.Second)).Round(time.Second)
	}
	for _, r := range d.Resources {
		t.capacities = append(t.capacities, capacity{r.Dimension, r.PerReplica, r.LoadFactor()})
	}
	for _, r := range d.Prompts {
		t.prompts = append(t.prompts, capacity{r.Dimension, r.PerReplica, r.LoadFactor()})
	}
	return t
}

// eachMinute calls fn for every minute from start on with a decision of the pool in force, with the newest one: until
// the next tick, at most maxHold.
func (b *builder) eachMinute(pool string, start int, fn func(t *tick, minute int)) {
	ticks := b.ticks[pool]
	for i := range ticks {
		from := b.index(ticks[i].at)
		to := min(b.end, from+int(maxHold/features.Minute))
		if i+1 < len(ticks) {
			to = min(to, b.index(ticks[i+1].at))
		}
		for m := max(from, start); m < to; m++ {
			fn(&ticks[i], m)
		}
	}
}

func (b *builder) decisions(pool string) Decisions {
	var out Decisions
	for i := range b.ticks[pool] {
		if t := &b.ticks[pool][i]; !t.at.Before(b.from) {
			out.Mode = string(t.mode)
			out.PeakReady, out.PeakDesired = max(out.PeakReady, t.ready), max(out.PeakDesired, t.desired)
		}
	}
	out.Actions, out.TakenBack = b.actions(pool)
	out.Provision = b.provision(pool)
	return out
}

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

// totalOf is the series of a pool's total in one dimension.
func totalOf(pool, dimension string) seriesKey {
	return seriesKey{features.Key{Pool: pool, Class: features.TotalClass}, dimension}
}

// setLoadFactors sets, for each minute, the load factor of the first decision after it. Minutes after the last decision
// have its factor. A decision covers at most maxHold.
func (b *builder) setLoadFactors(pool string) {
	ticks, most := b.ticks[pool], int(maxHold/features.Minute)
	from := 0
	for i := range ticks {
		at := b.index(ticks[i].at)
		to := at
		if i == len(ticks)-1 {
			to += most
		}
		for _, c := range slices.Concat(ticks[i].capacities, ticks[i].prompts) {
			key := totalOf(pool, c.dimension)
			for m := max(from, at-most, 0); m < min(to, b.end) && c.retries > 1; m++ {
				if b.retries[key] == nil {
					b.retries[key] = slices.Repeat([]float64{1}, b.end)
				}
				b.retries[key][m] = c.retries
			}
		}
		from = at
	}
}

// loadFactor is the load of all attempts over that of calls, of a pool in a minute.
func (b *builder) loadFactor(key seriesKey, minute int) float64 {
	if all := b.retries[key]; minute >= 0 && minute < len(all) {
		return all[minute]
	}
	return 1
}

// loadOf is the load of a pool's replicas in a minute: all attempts.
func (b *builder) loadOf(pool, resource string, minute int) float64 {
	key := totalOf(pool, resource)
	return demandAt(b.observed[key], minute) * b.loadFactor(key, minute)
}

func zeroIfUnknown(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}
