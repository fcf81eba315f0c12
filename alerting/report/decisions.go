package report

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	rates "github.com/forewarm/forewarm/forecaster/capacity"
)

// tick is what the report needs of a decision.
type tick struct {
	at                      time.Time
	ready, pending, desired int
	needed                  int     // before bounds and steps
	waiting                 float64 // requests in queues; NaN when unknown
	reserve, least, limit   int
	reserves                []rates.Reserve // that add up to reserve
	probability             float64
	ahead, warnFrom         float64 // what warnings go by, and from which probability on; warnFrom is 0 where it is not known
	lead                    time.Duration
	lag                     time.Duration // median warm-up as it was believed; else what lead says of the 90th percentile
	action                  alerting.Action
	mode                    alerting.Mode
	generation              int64
	publish, stale, clamped bool
	assumed                 bool // supply is believed
	silent, faulty          bool // a producer fell silent; is faulty in any way
	capacities              []capacity
	roles                   bool       // the pool is disaggregated: prompts are computed on replicas of their own
	prompts                 []capacity // of these
	prompters               int        // how many were last asked for: none of them reports
}

// capacity is what one replica can take of one resource.
type capacity struct {
	dimension  string
	perReplica float64
	believed   float64 // demand, each call once
	retries    float64 // load of all attempts over that of calls
}

// asked is how many replicas are there, on the way, or wanted by a decision that is to be obeyed.
func (t *tick) asked() int {
	if t.mode == alerting.Active {
		return max(t.ready+t.pending, t.desired)
	}
	return t.ready + t.pending
}

func newTick(d *alerting.Decision) tick {
	t := tick{
		at: d.Tick, ready: d.Ready, pending: d.Pending, desired: d.Desired, probability: d.Risk(), lead: d.Lead, action: d.Action,
		mode: d.Mode, generation: d.Generation, publish: d.Publish, stale: d.Stale, clamped: len(d.Constraints) > 0,
		ahead: d.OwnAhead(), warnFrom: d.WarnFrom, needed: d.Needed, waiting: math.NaN(),
		reserve: d.Reserves.Total(), reserves: d.Reserves.Each(), limit: d.Limit, lag: d.Lead - features.Minute, assumed: d.SupplyAssumed,
	}
	if d.Waiting != nil {
		t.waiting = *d.Waiting
	}
	if d.Basis != nil {
		t.least = d.Basis.Least
		t.faulty = len(d.Basis.Faults) > 0
		t.silent = slices.ContainsFunc(d.Basis.Faults, func(f features.ProducerFault) bool { return f.Kind == features.FaultSilent })
		t.lag = time.Duration(d.Basis.Warmup.P50 * float64(time.Second)).Round(time.Second)
	}
	for _, r := range d.Resources {
		t.capacities = append(t.capacities, capacity{r.Dimension, r.PerReplica, r.Calls(), r.LoadFactor()})
	}
	if d.ByRole != nil {
		t.roles, t.prompters = true, d.ByRole.Prefill
	}
	for _, r := range d.Prompts {
		t.prompts = append(t.prompts, capacity{r.Dimension, r.PerReplica, r.Calls(), r.LoadFactor()})
	}
	return t
}

// eachMinute calls fn for every minute for which a decision of the pool stood, with the newest one: from its tick until
// the next tick, and for holdMost when none follows sooner.
func (b *builder) eachMinute(pool string, fn func(t *tick, minute int)) {
	ticks := b.ticks[pool]
	_, end := b.bounds()
	for i := range ticks {
		from := b.index(ticks[i].at)
		to := min(end, from+int(holdMost/features.Minute))
		if i+1 < len(ticks) {
			to = min(to, b.index(ticks[i+1].at))
		}
		for m := max(from, 0); m < to; m++ {
			fn(&ticks[i], m)
		}
	}
}

func (b *builder) decisions(pool string) Decisions {
	var out Decisions
	generation := int64(-1)
	for i := range b.ticks[pool] {
		t := &b.ticks[pool][i]
		changed := t.publish && t.generation != generation
		generation = t.generation
		if t.at.Before(b.from) {
			continue
		}
		out.Ticks++
		out.Mode = string(t.mode)
		switch t.action {
		case alerting.ScaleOut:
			out.ScaleOut++
		case alerting.ScaleIn:
			out.ScaleIn++
		default:
			out.Hold++
		}
		if changed {
			out.Events++
		}
		if t.stale {
			out.Stale++
		}
		if t.clamped {
			out.Clamped++
		}
		out.PeakReady, out.PeakDesired = max(out.PeakReady, t.ready), max(out.PeakDesired, t.desired)
	}
	first, _ := b.bounds()
	ready, desired := 0, 0 // replica-minutes
	b.eachMinute(pool, func(t *tick, minute int) {
		if minute >= first {
			ready, desired = ready+t.ready, desired+t.desired
		}
	})
	out.ReadyReplicaHours, out.DesiredReplicaHours = float64(ready)/60, float64(desired)/60
	needs := b.needs(pool)
	out.Actions, out.Thrash = b.actions(pool)
	out.Asks, out.Provision = b.asks(pool, needs), b.provision(pool, needs)
	return out
}
