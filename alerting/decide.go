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
	Forecast   *forecaster.PoolForecast // nil before the first
	Pool       capacity.Pool
	Minute     features.PoolMinute
	Sequence   uint64
	Signals    Signals // of the newest minutes; nil if unknown
	Basis      *Basis  // stored in the decision; may be nil
}

// State is the state of a pool between decisions. The zero value is a pool without a decision. Times are whole seconds,
// so that a snapshot keeps them exactly.
type State struct {
	Generation   int64     `cbor:"1,keyasint"` // starts at the Unix minute of the first decision; plus 1 per publication
	LastDesired  int       `cbor:"2,keyasint"` // of the newest decision; meaningless while LastTick is zero
	LastTick     time.Time `cbor:"3,keyasint"`
	LastScaleOut time.Time `cbor:"4,keyasint"` // newest request for more replicas

	LastPublished    time.Time `cbor:"6,keyasint"`
	PublishedDesired int       `cbor:"7,keyasint"`
	PublishedAction  Action    `cbor:"8,keyasint"`
	PublishedBinding string    `cbor:"9,keyasint"`

	Short       bool        `cbor:"14,keyasint"` // the newest decision requested more than the supply
	SupplyKnown bool        `cbor:"10,keyasint"`
	Ready       int         `cbor:"11,keyasint"` // last reported or assumed
	Pending     []time.Time `cbor:"12,keyasint"` // request times, ascending
	KVTokens    float64     `cbor:"13,keyasint"` // KV cache of a replica as last reported; 0 if never

	UsableSince time.Time `cbor:"15,keyasint"` // since when demand can be sized; zero if it cannot
	Keeps       []kept    `cbor:"16,keyasint"` // at the ticks of the last Cooldown, oldest first
	ScaleOuts   []int64   `cbor:"17,keyasint"` // of the last day, Unix seconds, ascending
	ScaleIns    []int64   `cbor:"18,keyasint"` // likewise

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

// Decide returns the decision for one pool at now, and the state for the next one. It is pure; cost O(resources ·
// horizon).
//
// Desired is a total. Pending replicas count as supply, so they are not requested twice. Desired is the largest need
// over all resources plus the reserves, and at least the reactive floor. The need is the demand quantile over the
// minutes until Lead + Hold (see provision). Prefill replicas follow the same rules, see roles.
//
// A removed replica takes a warm-up to get back. So the pool scales in only if the demand until Lead + Cooldown fits
// the smaller pool at the quantile plan.confidence, if that was so at each tick of the last Cooldown (the forecast is
// noisy), and if no reason of whyStay applies. The minimum for scale-in is computed from demand, not from the current
// number of replicas. Stale, cold or unsized evidence never scales in. The pool's bounds come last and are named in
// Constraints.
func Decide(now time.Time, in Input, st State, cfg Config) (Decision, State) {
	p := newPlan(now, &in, &st, cfg)
	needed := p.target(&st, cfg)
	limits := bounds{
		role: capacity.AnyRole, there: p.current, least: in.Pool.Replicas.Min, leastKey: "replicas.min",
		mayShrink: len(st.ScaleIns) < cfg.MaxScaleIns || st.LastDesired < p.current,
	}
	limits.most, limits.mostKey = p.limit()
	desired, constraints := limits.clamp(needed, cfg)

	d := p.decision(cfg)
	d.Limit = limits.most
	d.Needed, d.Desired, d.Constraints = needed, desired, append(constraints, refusals(p.rows, "")...)
	p.roles(&d, &st, cfg)
	d.Action = p.action(desired)
	st.Breach = p.breach
	d.Admission = p.admission(&d, cfg)
	if d.Action == ScaleOut {
		d.NeededBy = p.shortFrom(cfg)
		if p.floor.replicas > p.current {
			d.NeededBy = now
		}
	}

	short := desired > max(p.current, p.supply.Ready+len(st.Pending)) // st.Pending also has requests that are overdue
	asks := d.delivered() || cfg.Mode == Advisory
	switch {
	case asks && (desired > max(p.asked, p.current) || short && !st.Short): // also if a requested replica is lost
		st.LastScaleOut = now
		st.ScaleOuts = append(slices.Clone(st.ScaleOuts), now.Unix())
	case desired < min(p.asked, p.current):
		st.ScaleIns = append(slices.Clone(st.ScaleIns), now.Unix())
	}
	d.ActionsPerDay = len(st.ScaleOuts) + len(st.ScaleIns)
	d.AskedAt = st.LastScaleOut.UTC() // a snapshot keeps the instant, not its zone
	st.Short = short && asks
	st.updateSupply(now, p.supply, p.observed, desired, d.delivered())
	st.KVTokens, st.LastDesired, st.LastTick = p.kvTokens, desired, now
	st.publish(&d, cfg)
	d.Reason = p.reason(&d, cfg)
	return d, st
}

// target is the number of replicas to request, before the pool's bounds.
func (p *plan) target(st *State, cfg Config) int {
	st.update(p, cfg)
	there := max(p.current, p.asked)
	if p.unusable != usable || p.need >= there {
		return max(there, p.need)
	}
	p.enough = maxKept(st.Keeps)
	enough := min(p.enough, there)
	if enough < there {
		if p.blockedBy = p.whyKeepRequest(st.LastScaleOut, p.supply, enough, cfg); p.blockedBy != "" {
			return there
		}
	}
	if enough >= p.current {
		return enough // only the request is reduced; no replica is removed
	}
	if p.blockedBy = p.whyStay(st, cfg, p.rows); p.blockedBy != "" {
		return p.current
	}
	if spread := p.consolidated(cfg); spread > enough {
		if spread >= p.current {
			p.blockedBy = fmt.Sprintf("on fewer the fullest one's KV cache, %s full, would pass %s", percent(p.in.Minute.State.KVUsedMax), percent(p.danger(cfg)))
			return p.current
		}
		p.enough = spread
	}
	return p.enough
}

// whyKeepRequest returns why the request made at asked is not withdrawn, although enough replicas would do; "" if it
// may be. A cancelled start costs money without use, so a request is kept for the warm-up plus decision.hold; while a
// replica is pending, for up to twice the warm-up. It is withdrawn earlier only if demand is clearly gone: no request
// for ten minutes, or more than a third of the ready replicas (and more than one) are not needed.
func (p *plan) whyKeepRequest(asked time.Time, supply forecaster.Supply, enough int, cfg Config) string {
	until := p.lead + cfg.Hold
	if len(supply.Pending) > 0 {
		until = max(until, 2*p.lead)
	}
	if asked.IsZero() || p.now.Sub(asked) >= until || supply.Ready-enough > max(1, supply.Ready/3) || p.withoutRequests() {
		return ""
	}
	return fmt.Sprintf("the request of %s is kept until %s", clock(asked), clock(asked.Add(until)))
}

// consolidated is the fewest ready replicas that keep the fullest KV cache below danger; 0 if unknown. It assumes that
// the fullest cache grows like the mean, because load stays as uneven. With fewer, the reactive floor would scale out
// at once.
func (p *plan) consolidated(cfg Config) int {
	s := &p.in.Minute.State
	if !s.Observed || len(p.supply.Pending) > 0 { // pending replicas are removed first, and have an empty cache
		return 0
	}
	return ReplicasFor(float64(s.Ready)*min(finite(s.KVUsedMax), 1), p.danger(cfg))
}

// danger is the share of a replica's KV cache above which the floor scales out: KVDanger, or the pool's own target.
func (p *plan) danger(cfg Config) float64 { return max(cfg.KVDanger, p.in.Pool.KVTarget) }

// update adds the minimum for scale-in of this tick, and deletes old entries.
func (st *State) update(p *plan, cfg Config) {
	day := p.now.Add(-24 * time.Hour).Unix()
	for _, actions := range []*[]int64{&st.ScaleOuts, &st.ScaleIns} {
		*actions = slices.DeleteFunc(slices.Clone(*actions), func(at int64) bool { return at <= day })
		*actions = (*actions)[max(0, len(*actions)-maxActions):]
	}
	if p.unusable != usable {
		st.UsableSince, st.Keeps = time.Time{}, nil
		return
	}
	if st.UsableSince.IsZero() {
		st.UsableSince = p.now.UTC()
	}
	st.Keeps = remember(st.Keeps, p.now, p.keep, cfg.Cooldown)
}

// maxActions bounds the stored actions of each kind: one a minute.
const maxActions = 24 * 60

// whyStay returns why the replicas that serve rows are not reduced, although fewer would do; "" if they may be. The
// limit on scale-ins per day is in [bounds.clamp].
func (p *plan) whyStay(st *State, cfg Config, rows []resource) string {
	if left := max(cfg.Cooldown, minKnown) - p.now.Sub(st.UsableSince); left > 0 {
		return fmt.Sprintf("demand is watched for %s more", span(left))
	}
	s := &p.in.Minute.State
	switch {
	case !p.in.Minute.Covered:
		return "the last minute has no telemetry"
	case p.engineBusy() && p.requestless():
		return "the engines are busy, and no request is reported"
	case p.silentProducer() != "":
		return fmt.Sprintf("producer %s fell silent, so demand may be more than is seen", p.silentProducer())
	case s.Preemptions > 0:
		return "replicas are preempting requests"
	case s.WaitingPerReady >= 1:
		return "requests are waiting"
	}
	for i := range rows {
		if rows[i].bursting() {
			return fmt.Sprintf("a burst of %s is still draining", ResourceName(rows[i].evidence.Dimension))
		}
	}
	return ""
}

// minKnown is how long demand must have been known without a gap before scale-in.
const minKnown = 5 * time.Minute

// burstTail is the ratio of current demand to the median forecast of the next minute above which a burst still drains.
const burstTail = 1.2

// bursting reports whether the forecast expects a fall that has not happened yet.
func (r *resource) bursting() bool {
	return r.now > 1 && r.evidence.Demand > burstTail*r.forecast.Minute[0].At(0.5)
}

// bounds are the bounds on the replicas of one role.
type bounds struct {
	role              capacity.Role // AnyRole for the pool's own
	there             int           // ready and pending
	least, most       int
	leastKey, mostKey string
	mayShrink         bool // max_scale_ins is not reached today
}

// clamp applies the bounds of step, limit and minimum to target, and names those that changed it.
func (b *bounds) clamp(target int, cfg Config) (desired int, constraints []string) {
	desired = target
	name := func(key string, bound int) {
		if b.role == capacity.PrefillRole && !ofPrefill(key) {
			key = prefillPrefix + key
		}
		constraints = append(constraints, fmt.Sprintf("%s %d: %d wanted", key, bound, target))
	}
	switch least := b.there - cfg.ScaleInStep; {
	case desired < b.there && !b.mayShrink:
		desired = b.there
		name("max_scale_ins", cfg.MaxScaleIns)
	case desired < least && cfg.ScaleInStep > 0:
		desired = least
		name("scale_in_step", cfg.ScaleInStep)
	}
	if most := b.there + cfg.MaxStepOut; cfg.MaxStepOut > 0 && desired > most {
		desired = most
		name("max_step_out", cfg.MaxStepOut)
	}
	if desired > b.most {
		desired = b.most
		name(b.mostKey, b.most)
	}
	if desired < b.least {
		desired = b.least
		name(b.leastKey, b.least)
	}
	return desired, constraints
}

// limit is the maximum number of replicas of the pool, and its configuration key. All roles share a budget, so the
// prefill replicas reduce it.
func (p *plan) limit() (replicas int, key string) {
	pool := &p.in.Pool
	replicas, key = pool.Limit()
	if most, ok := pool.Budget(); ok && pool.Disaggregated {
		if left := max(most-p.prefillSupply.Ready-len(p.prefillSupply.Pending), pool.Replicas.Min); left < replicas {
			return left, "budget_hour_usd"
		}
	}
	return replicas, key
}

// action compares desired with the current replicas, and if equal, with the previous request: to withdraw a request is
// an action, too. If demand cannot be sized, a bound may lower the number, but that is no ScaleIn.
func (p *plan) action(desired int) Action {
	switch by := cmp.Or(cmp.Compare(desired, p.current), cmp.Compare(desired, p.asked)); {
	case by > 0:
		return ScaleOut
	case by < 0 && p.unusable == usable:
		return ScaleIn
	}
	return Hold
}

// publish gives d a new generation if it changes the published advice or renews it. The first generation is the Unix
// minute. There is at most one publication a minute, so a pool that lost its state starts above all earlier
// generations.
func (st *State) publish(d *Decision, cfg Config) {
	changed := d.Desired != st.PublishedDesired || d.prefill() != st.PublishedPrefill || d.Action != st.PublishedAction ||
		d.Action != Hold && d.Binding != st.PublishedBinding
	if d.Publish = changed || st.LastPublished.IsZero() || d.Tick.Sub(st.LastPublished) >= cfg.Renew; d.Publish {
		if st.Generation++; st.LastPublished.IsZero() {
			st.Generation = max(st.Generation, d.Tick.Unix()/60)
		}
		st.LastPublished, st.PublishedDesired, st.PublishedPrefill = d.Tick, d.Desired, d.prefill()
		st.PublishedAction, st.PublishedBinding = d.Action, d.Binding
	}
	d.Generation = st.Generation
}
