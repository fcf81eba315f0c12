package alerting

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Input is the input of one decision, besides the pool's State.
type Input struct {
	Projection forecaster.Projection
	Forecast   *forecaster.PoolForecast
	Pool       capacity.Pool
	Minute     features.PoolMinute
	Sequence   uint64
	Signals    Signals                         // of the newest minutes; nil if unknown
	Basis      *Basis                          // stored in the decision; may be nil
	Limits     []forecaster.ResourceProjection // of the whole pool; see forecaster.ProjectLimits
}

// State is the state of a pool between decisions. The zero value is a pool without a decision. Times are whole seconds,
// so that a snapshot keeps them exactly.
type State struct {
	Generation   int64     `cbor:"1,keyasint"` // starts at the Unix minute of the first decision; plus 1 per publication
	LastDesired  int       `cbor:"2,keyasint"` // of the newest decision; meaningless while LastTick is zero
	LastTick     time.Time `cbor:"3,keyasint"`
	LastScaleOut time.Time `cbor:"4,keyasint"`  // newest request for more replicas
	LastScaleIn  time.Time `cbor:"26,keyasint"` // newest request for fewer that autoscalers received
	// Delivered is how many replicas autoscalers were last asked for. It is nil if they never were, and in advisory mode.
	Delivered *int `cbor:"27,keyasint,omitempty"`

	LastPublished    time.Time `cbor:"6,keyasint"`
	PublishedDesired int       `cbor:"7,keyasint"`
	PublishedAction  Action    `cbor:"8,keyasint"`
	PublishedBinding string    `cbor:"9,keyasint"`
	PublishedToObey  bool      `cbor:"28,keyasint,omitempty"` // autoscalers could follow it
	FromZero         bool      `cbor:"29,keyasint,omitempty"` // of the newest decision
	Reported         int       `cbor:"30,keyasint,omitempty"` // ready and pending replicas in the newest reports
	Lost             int       `cbor:"31,keyasint,omitempty"`
	LostAt           time.Time `cbor:"32,keyasint,omitzero"`

	Short    bool        `cbor:"14,keyasint"` // the newest decision requested more than the supply
	Ready    int         `cbor:"11,keyasint"` // last reported or assumed
	Pending  []time.Time `cbor:"12,keyasint"` // request times, ascending
	KVTokens float64     `cbor:"13,keyasint"` // KV cache of a replica as last reported; 0 if never

	UsableSince time.Time `cbor:"15,keyasint"` // since when demand can be sized; zero if it cannot
	Keeps       []kept    `cbor:"16,keyasint"` // at the ticks of the last Cooldown, oldest first

	// The same for a disaggregated pool's prefill replicas.
	PrefillKnown     bool        `cbor:"21,keyasint,omitempty"` // false before their first decision
	Prefill          int         `cbor:"19,keyasint,omitempty"` // last requested
	PrefillKeeps     []kept      `cbor:"20,keyasint,omitempty"`
	PrefillPending   []time.Time `cbor:"22,keyasint,omitempty"` // request times, ascending
	PrefillAsked     time.Time   `cbor:"23,keyasint,omitzero"`  // newest request for more
	PublishedPrefill int         `cbor:"24,keyasint,omitempty"`

	Breach *Breach `cbor:"25,keyasint,omitempty"` // of latency objectives; nil without one; immutable
}

// kept is the minimum for scale-in at one tick.
type kept struct {
	At       int64 `cbor:"1,keyasint"` // Unix seconds
	Replicas int   `cbor:"2,keyasint"`
}

// Decide returns the decision for one pool at now, and the state for the next one. Pure. O(resources · horizon).
//
// Desired is a total. Pending replicas count as supply, so they are not requested twice. Desired is the largest need
// over all resources plus the reserves, and at least the reactive floor. The need is the demand quantile over the
// minutes until Lead + Hold (see provision). Prefill replicas follow the same rules, see roles.
//
// A removed replica takes a warm-up to get back. So the pool scales in only if the demand until Lead + Cooldown fits
// the smaller pool at the quantile Decision.KeepQuantile, if that was so at each tick of the last Cooldown (the forecast is
// noisy), and if no reason of whyStay applies. The minimum for scale-in is computed from demand, not from the current
// number of replicas. Stale, cold or unsized evidence never scales in. The pool's bounds come last and are named in
// Constraints.
func Decide(now time.Time, in Input, st State, cfg Config) (Decision, State) {
	p := newDraft(now, &in, &st, cfg)
	if p.forecastState != usable {
		st.UsableSince = time.Time{}
	} else if st.UsableSince.IsZero() {
		st.UsableSince = now.UTC()
	}
	d := &p.Decision
	d.Needed = p.target(&p.own)
	d.Desired, d.Limit, d.Constraints = p.bound(&p.own, d.Needed, p.prefill.current)
	p.addEvidence()
	p.roles()
	d.Action = p.action()
	st.Breach, st.FromZero = d.Breach, d.FromZero
	d.Admission = p.admission()
	if d.Action == ScaleOut {
		d.NeededBy = p.shortFrom()
		if p.own.floor > p.own.current {
			d.NeededBy = now
		}
	}

	withOverdue := p.own.supply.Ready + len(st.Pending)
	short := d.Desired > max(p.own.current, withOverdue)
	asks := d.delivered() || cfg.Mode == Advisory
	switch {
	case asks && (d.Desired > max(p.own.asked, p.own.current) || short && !st.Short): // also if a requested replica is lost
		st.LastScaleOut = now
	case d.delivered() && d.Desired < min(*cmp.Or(st.Delivered, &p.own.current), p.own.current):
		st.LastScaleIn = now
	}
	d.AskedAt = st.LastScaleOut.UTC() // a snapshot keeps the instant, not its zone
	st.Short = short && asks
	st.updateSupply(d, p.own.supply)
	st.LastDesired, st.LastTick = d.Desired, now
	st.setPublish(d, cfg)
	d.Reason = p.reason()
	return p.Decision, st
}

// target is the number of replicas of a role to request, before bounds. If demand cannot be sized, none is removed.
func (p *draft) target(s *side) int {
	there := max(s.current, s.asked)
	if p.forecastState != usable || len(s.rows) == 0 {
		*s.kept = nil
		return max(there, s.need)
	}
	old := p.Tick.Add(-p.cfg.Cooldown).Unix()
	keeps := slices.DeleteFunc(slices.Clone(*s.kept), func(k kept) bool { return k.At <= old })
	*s.kept = append(keeps, kept{p.Tick.Unix(), s.keep})
	if s.need >= there {
		return s.need
	}
	s.enough = slices.MaxFunc(*s.kept, func(a, b kept) int { return a.Replicas - b.Replicas }).Replicas
	if s.enough >= there {
		return there
	}
	if there <= p.in.Pool.BoundsOf(s.role).Min {
		return s.enough // bound raises it
	}
	if s.blockedBy = p.whyKeepRequest(s); s.blockedBy != "" {
		return there
	}
	if s.enough >= s.current {
		return s.enough // fewer are requested; no replica is removed
	}
	if s.blockedBy = p.whyStay(s.rows); s.blockedBy != "" {
		return s.current
	}
	if spread := p.consolidated(s); spread > s.enough {
		if spread >= s.current {
			use := percent(p.in.Minute.State.KVUsedMax)
			s.blockedBy = fmt.Sprintf("on fewer the fullest one's KV cache, %s full, would pass %s", use, percent(p.danger()))
			if s.current == 1 {
				s.blockedBy = fmt.Sprintf("a request may still run, because the KV cache is %s full", use)
			}
			return s.current
		}
		s.enough = spread
	}
	return s.enough
}

// whyKeepRequest returns why the request for replicas of s.askedAt is not withdrawn, although s.enough replicas would do;
// "" if it may be. A cancelled start costs money without use, so a request for replicas is kept for the warm-up plus
// decision.hold; while a replica is pending, for up to twice the warm-up. It is withdrawn earlier only if demand is
// clearly gone: no request for ten minutes, or more than a third of the ready replicas (at least two) not needed.
func (p *draft) whyKeepRequest(s *side) string {
	until := p.Lead + p.cfg.Hold
	if len(s.supply.Pending) > 0 {
		until = max(until, 2*p.Lead)
	}
	demandGone := p.withoutRequests() || s.supply.Ready-s.enough > max(1, s.supply.Ready/3)
	if demandGone || s.askedAt.IsZero() || p.Tick.Sub(s.askedAt) >= until {
		return ""
	}
	return fmt.Sprintf("the request for replicas of %s is kept until %s", clock(s.askedAt), clock(s.askedAt.Add(until)))
}

// consolidated is the fewest ready replicas that keep the fullest KV cache below danger; 0 if unknown. It assumes that
// the fullest cache grows like the mean, because load stays as uneven. With fewer, the reactive floor would scale out
// at once.
func (p *draft) consolidated(s *side) int {
	state := &p.in.Minute.State
	if s.role == capacity.PrefillRole || !state.Observed || len(s.supply.Pending) > 0 {
		return 0 // pending replicas are removed first, and have an empty cache
	}
	return ReplicasFor(float64(state.Ready)*min(finite(state.KVUsedMax), 1), p.danger())
}

// danger is the share of a replica's KV cache above which the floor scales out.
func (p *draft) danger() float64 { return max(kvDanger, p.in.Pool.KVTarget) }

// reportsAwaited is how long a pool whose replicas stopped reporting does not scale in. Then reports count as off.
const reportsAwaited = 24 * time.Hour

// whyStay returns why the replicas that serve rows are not reduced, although fewer would do; "" if they may be.
func (p *draft) whyStay(rows []resource) string {
	if left := max(p.cfg.Cooldown, minKnown) - p.Tick.Sub(p.st.UsableSince); left > 0 {
		return fmt.Sprintf("demand is watched for %s more", wholeMinutes(left))
	}
	s, faults := &p.in.Minute.State, p.in.Minute.Faults
	silent := slices.IndexFunc(faults, func(f features.ProducerFault) bool { return f.Kind == features.FaultSilent })
	switch {
	case !p.in.Minute.Covered:
		return "the last minute has no telemetry"
	case p.engineBusy() && p.requestless():
		return "the engines are busy, and no request is reported"
	case silent >= 0:
		return fmt.Sprintf("producer %s fell silent, so demand may be more than is seen", faults[silent].Producer)
	case !s.Observed && p.Tick.Sub(s.ReportedAt) < reportsAwaited:
		return fmt.Sprintf("no replica has reported since %s, so queues and caches are unknown", clock(s.ReportedAt))
	case s.Preemptions > 0:
		return "replicas are preempting requests"
	case s.WaitingPerReady >= 1:
		return "requests are waiting"
	}
	for i := range rows {
		if r := &rows[i]; r.now > 1 && r.evidence.Demand > burstTail*r.forecast.Minute[0].At(0.5) { // a fall that is forecast
			return fmt.Sprintf("a burst of %s is still draining", ResourceName(r.evidence.Dimension))
		}
	}
	return ""
}

// bound applies the bounds of the replicas of s to target: step, limit and minimum. It names those that changed it.
// most is the limit. The other role has others replicas, which share the budget.
func (p *draft) bound(s *side, target, others int) (desired, most int, constraints []Constraint) {
	bounds, keys := p.in.Pool.BoundsOf(s.role), "replicas."
	if s.role == capacity.PrefillRole {
		keys = "disaggregated.prefill_replicas."
	}
	most, mostKey := bounds.Max, keys+"max"
	if budget, ok := p.in.Pool.Budget(); ok && max(budget-others, bounds.Min) < most {
		most, mostKey = max(budget-others, bounds.Min), budgetKey
	}
	desired = target
	set := func(replicas int, key string, bound int) {
		constraints = append(constraints, Constraint{Key: key, Bound: bound, Wanted: desired})
		desired = replicas
	}
	if step := p.cfg.ScaleInStep; step > 0 && desired < s.current-step && bounds.Min < s.current-step {
		set(s.current-step, "scale_in_step", step)
	}
	if desired > most {
		set(most, mostKey, most)
	}
	if desired < bounds.Min {
		set(bounds.Min, keys+"min", bounds.Min)
	}
	for i := range s.rows {
		if e := &s.rows[i].evidence; e.Retries != nil && e.Retries.Refused > 0 {
			constraints = append(constraints, Constraint{Key: retriesKey, Bound: e.NeedReplicas, Wanted: e.NeedReplicas + e.Retries.Refused})
		}
	}
	return desired, most, constraints
}

// action compares Desired with the current replicas, and if equal, with the previous request for replicas: to withdraw
// that is an action, too. If demand cannot be sized, a bound may lower the number, but that is no ScaleIn.
func (p *draft) action() Action {
	switch by := cmp.Or(cmp.Compare(p.Desired, p.own.current), cmp.Compare(p.Desired, p.own.asked)); {
	case by > 0:
		return ScaleOut
	case by < 0 && p.forecastState == usable:
		return ScaleIn
	}
	return Hold
}

// setPublish sets d.Publish and gives d a new generation if it changes the published advice or renews it. The first
// generation is the Unix minute. There is at most one publication a minute, so a pool that lost its state starts above
// all earlier generations.
func (st *State) setPublish(d *Decision, cfg Config) {
	action := d.PoolAction()
	changed := d.Desired != st.PublishedDesired || d.PrefillReplicas() != st.PublishedPrefill || action != st.PublishedAction ||
		action != Hold && d.Binding != st.PublishedBinding || d.delivered() != st.PublishedToObey
	d.Publish = changed || st.LastPublished.IsZero() || d.Tick.Sub(st.LastPublished) >= cfg.Expiry*2/3
	if d.Publish {
		st.Generation++
		if st.LastPublished.IsZero() {
			st.Generation = max(st.Generation, d.Tick.Unix()/60)
		}
		st.LastPublished, st.PublishedDesired, st.PublishedPrefill = d.Tick, d.Desired, d.PrefillReplicas()
		st.PublishedAction, st.PublishedBinding, st.PublishedToObey = action, d.Binding, d.delivered()
	}
	d.Generation = st.Generation
}
