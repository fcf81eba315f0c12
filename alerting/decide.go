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

// Input is what one decision is made from, beside the pool's State.
type Input struct {
	Projection forecaster.Projection
	Forecast   *forecaster.PoolForecast // nil before the first
	Pool       capacity.Pool
	Minute     features.PoolMinute
	Sequence   uint64
	Signals    Signals // of the last hour; nil when nothing is known
	Basis      *Basis  // for the decision to keep; nil keeps none
	// WarnFrom is the probability from which on the pool is warned, FalsePerWeek how many warnings at it come to nothing: what
	// Line.At gives.
	WarnFrom, FalsePerWeek float64
}

// State is what a pool's decisions remember. The zero value is a pool never decided for. Times are whole seconds, so
// that a snapshot keeps them exactly.
type State struct {
	Generation   int64     `cbor:"1,keyasint"` // begins at the minute of the first decision, Unix time; then one more per publication
	LastDesired  int       `cbor:"2,keyasint"` // of the newest decision; meaningless while LastTick is zero
	LastTick     time.Time `cbor:"3,keyasint"`
	LastScaleOut time.Time `cbor:"4,keyasint"` // when more was last asked for

	LastPublished    time.Time `cbor:"6,keyasint"`
	PublishedDesired int       `cbor:"7,keyasint"`
	PublishedAction  Action    `cbor:"8,keyasint"`
	PublishedBinding string    `cbor:"9,keyasint"`

	Short       bool        `cbor:"14,keyasint"` // the newest decision asked for more than there was
	SupplyKnown bool        `cbor:"10,keyasint"`
	Ready       int         `cbor:"11,keyasint"` // last reported or believed
	Pending     []time.Time `cbor:"12,keyasint"` // when asked for, ascending
	KVTokens    float64     `cbor:"13,keyasint"` // KV cache of a replica as last reported; 0 when never

	Sighted   time.Time `cbor:"15,keyasint"` // since when demand could be sized; zero when it cannot
	Keeps     []kept    `cbor:"16,keyasint"` // what had to stay at the ticks of the last Cooldown, oldest first
	ScaleOuts []int64   `cbor:"17,keyasint"` // when more was asked for in the last day, Unix seconds, ascending
	ScaleIns  []int64   `cbor:"18,keyasint"` // when less was

	// Of a disaggregated pool's prefill replicas: those last asked for, what had to stay, which of them are taken to be on their
	// way, and when more were last asked for.
	PrefillKnown     bool        `cbor:"21,keyasint,omitempty"` // false before they were first decided for
	Prefill          int         `cbor:"19,keyasint,omitempty"`
	PrefillKeeps     []kept      `cbor:"20,keyasint,omitempty"`
	PrefillPending   []time.Time `cbor:"22,keyasint,omitempty"` // when asked for, ascending
	PrefillAsked     time.Time   `cbor:"23,keyasint,omitzero"`
	PublishedPrefill int         `cbor:"24,keyasint,omitempty"`

	Breach *Breach `cbor:"25,keyasint,omitempty"` // of latency objectives; nil while there is none, and never changed
}

// kept is how many replicas had to stay at one tick.
type kept struct {
	At       int64 `cbor:"1,keyasint"` // Unix seconds
	Replicas int   `cbor:"2,keyasint"`
}

// Decide is the decision for one pool at now, and the state for its next one. It is pure; cost O(resources · horizon).
//
// Desired is a total: replicas on the way count as supply, so that waiting for them never asks for more. It is the
// largest over resources of what leaves no more of the minutes until Lead + Hold short than cost makes optimal, on average
// (see provision), plus the reserves; never less than the reactive floor. Replicas that only compute prompts are decided by the
// same rules, see roles.
//
// A replica that is given up takes a warm-up to regain, so it may go when it is unlikely to be missed for that long: when
// the minutes until Lead + Cooldown fit the smaller pool at the quantile of plan.confidence, which leaves a third of the risk
// that asking for one takes; when that was so at each tick of the last Cooldown, so that the forecast's own unrest moves
// nothing; and when nothing else speaks against it (see whyStay). What must stay does not depend on what there is: giving
// up is as fast as demand falls, within ScaleInStep. Stale, cold or unsized evidence never scales in. The pool's bounds
// come last and are named in Constraints.
func Decide(now time.Time, in Input, st State, cfg Config) (Decision, State) {
	p := newPlan(now, &in, &st, cfg)
	needed := p.target(&st, cfg)
	desired, constraints := p.clamp(needed, &st, cfg)

	d := p.decision(cfg)
	d.Limit, _ = p.limit()
	d.Needed, d.Desired, d.Constraints = needed, desired, append(constraints, refusals(p.rows, "")...)
	p.roles(&d, &st, cfg)
	d.Action = p.action(desired)
	st.Breach = p.breach
	d.Admission, d.Queue = p.admission(&d, cfg), p.queue()
	if d.Action == ScaleOut {
		d.NeededBy = p.shortFrom(cfg)
		if p.floor.replicas > p.current {
			d.NeededBy = now
		}
	}

	short := desired > max(p.current, p.supply.Ready+len(st.Pending)) // of what was asked for, however long ago
	asks := d.delivered() || cfg.Mode == Advisory
	switch {
	case asks && (desired > max(p.asked, p.current) || short && !st.Short): // also when a replica is lost that had been asked for
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

// target is the number of replicas to ask for, before the pool's bounds.
func (p *plan) target(st *State, cfg Config) int {
	st.update(p, cfg)
	there := max(p.current, p.asked)
	if p.blind != sighted || p.need >= there {
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
		return enough // what was asked for and is not there yet may be less
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

// stands says why replicas of supply that were last asked for at asked are not taken back, although enough would do; ""
// when they may be. A start that is cancelled was paid for nothing, so an ask stands for the warm-up and decision.hold, and
// while a replica is on its way for up to twice the warm-up. It ends sooner only when demand is known to be gone: when there
// was none for ten minutes, or when more than a third of the replicas that are ready, and more than one, could be missed, too.
func (p *plan) whyKeepRequest(asked time.Time, supply forecaster.Supply, enough int, cfg Config) string {
	until := p.lead + cfg.Hold
	if len(supply.Pending) > 0 {
		until = max(until, 2*p.lead)
	}
	if asked.IsZero() || p.now.Sub(asked) >= until || supply.Ready-enough > max(1, supply.Ready/3) || p.silent() {
		return ""
	}
	return fmt.Sprintf("the ask of %s stands until %s", clock(asked), clock(asked.Add(until)))
}

// consolidated is the fewest ready replicas on which the fullest one's KV cache stays out of danger, when what it holds grows as
// the mean does: load is not spread evenly, and what is uneven on many replicas is so on fewer. 0 where that is not known. With
// fewer, the reactive floor would ask for more at once.
func (p *plan) consolidated(cfg Config) int {
	s := &p.in.Minute.State
	if !s.Observed || len(p.supply.Pending) > 0 { // those on their way go first, and hold nothing
		return 0
	}
	return replicasFor(float64(s.Ready)*min(finite(s.KVUsedMax), 1), p.danger(cfg))
}

// danger is the share of a replica's KV cache above which the floor asks for more: KVDanger, or what the pool fills by plan.
func (p *plan) danger(cfg Config) float64 { return max(cfg.KVDanger, p.in.Pool.KVTarget) }

// look takes in what must stay by the newest evidence, and forgets what is out of date.
func (st *State) update(p *plan, cfg Config) {
	day := p.now.Add(-24 * time.Hour).Unix()
	for _, actions := range []*[]int64{&st.ScaleOuts, &st.ScaleIns} {
		*actions = slices.DeleteFunc(slices.Clone(*actions), func(at int64) bool { return at <= day })
		*actions = (*actions)[max(0, len(*actions)-maxActions):]
	}
	if p.blind != sighted {
		st.Sighted, st.Keeps = time.Time{}, nil
		return
	}
	if st.Sighted.IsZero() {
		st.Sighted = p.now.UTC()
	}
	st.Keeps = remember(st.Keeps, p.now, p.keep, cfg.Cooldown)
}

// maxActions bounds the actions that are remembered of each kind: one a minute.
const maxActions = 24 * 60

// asked is what the previous decision asked for; current before there was one.
func (st *State) asked(current int) int {
	if st.LastTick.IsZero() {
		return current
	}
	return st.LastDesired
}

// whyStay is what speaks against fewer replicas, of those that carry rows, although they would do; "" when nothing does. How
// often the pool may shrink is not in it: see clamp.
func (p *plan) whyStay(st *State, cfg Config, rows []resource) string {
	if left := max(cfg.Cooldown, minSighted) - p.now.Sub(st.Sighted); left > 0 {
		return fmt.Sprintf("demand is watched for %s more", span(left))
	}
	s := &p.in.Minute.State
	switch {
	case !p.in.Minute.Covered:
		return "the last minute has no telemetry"
	case p.engineBusy() && p.requestless():
		return "the engines are busy, and no request is heard of"
	case p.partial() != "":
		return fmt.Sprintf("producer %s fell silent, so demand may be more than is seen", p.partial())
	case s.Preemptions > 0:
		return "replicas are preempting requests"
	case s.WaitingPerReady >= 1:
		return "requests are waiting"
	}
	for i := range rows {
		if rows[i].bursting() {
			return fmt.Sprintf("a burst of %s is still draining", noun(rows[i].evidence.Dimension))
		}
	}
	return ""
}

// watch is how long demand must have been seen without a gap before replicas are given up.
const minSighted = 5 * time.Minute

// burstTail is how far current demand may exceed the median forecast of the next minute before it counts as a burst
// that has not drained.
const burstTail = 1.2

// tail says that the forecast expects a fall which has not come yet.
func (r *resource) bursting() bool {
	return r.now > 1 && r.evidence.Demand > burstTail*r.forecast.Minute[0].At(0.5)
}

// clamp puts a target within the bounds of step, limit and minimum, and names those that changed it.
func (p *plan) clamp(target int, st *State, cfg Config) (desired int, constraints []string) {
	b := bounds{role: capacity.AnyRole, there: p.current, least: p.in.Pool.Replicas.Min, leastKey: "replicas.min", mayShrink: len(st.ScaleIns) < cfg.MaxScaleIns || st.LastDesired < p.current}
	b.most, b.mostKey = p.limit()
	return b.clamp(target, cfg)
}

// bounds are those of the replicas of one role.
type bounds struct {
	role              capacity.Role // AnyRole for the pool's own
	there             int           // ready and pending
	least, most       int
	leastKey, mostKey string
	mayShrink         bool // they were not given up too often today
}

// clamp is [plan.clamp] for one role.
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

// limit is the most replicas that the pool may have, and the key that says so. A budget is for all roles: what the prefill
// replicas take of it is not there for the others.
func (p *plan) limit() (replicas int, key string) {
	pool := &p.in.Pool
	replicas, key = pool.Limit()
	if most, ok := pool.Budget(); ok && pool.Disaggregated {
		if left := max(most-p.promptSupply.Ready-len(p.promptSupply.Pending), pool.Replicas.Min); left < replicas {
			return left, "budget_hour_usd"
		}
	}
	return replicas, key
}

// action compares what is asked for with what there is, or where that is as much, with what was asked for before: an ask that
// is taken back is an action, too. Without sight a bound may lower the number, but no replica is given up for it.
func (p *plan) action(desired int) Action {
	switch by := cmp.Or(cmp.Compare(desired, p.current), cmp.Compare(desired, p.asked)); {
	case by > 0:
		return ScaleOut
	case by < 0 && p.blind == sighted:
		return ScaleIn
	}
	return Hold
}

// publish numbers d when it changes the published advice, or renews it. The first number is the Unix minute: there is at
// most one publication a minute, so numbers never overtake the clock, and a pool whose state was lost starts above all
// that it published before.
func (st *State) publish(d *Decision, cfg Config) {
	changed := d.Desired != st.PublishedDesired || d.prefill() != st.PublishedPrefill || d.Action != st.PublishedAction ||
		d.Action != Hold && d.Binding != st.PublishedBinding
	if d.Publish = changed || st.LastPublished.IsZero() || d.Tick.Sub(st.LastPublished) >= cfg.Renew; d.Publish {
		if st.Generation++; st.LastPublished.IsZero() {
			st.Generation = max(st.Generation, d.Tick.Unix()/60)
		}
		st.published(d)
	}
	d.Generation = st.Generation
}

// published takes over what d published.
func (st *State) published(d *Decision) {
	st.LastPublished = d.Tick
	st.PublishedDesired, st.PublishedPrefill, st.PublishedAction, st.PublishedBinding = d.Desired, d.prefill(), d.Action, d.Binding
}
