package alerting

import (
	"fmt"
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
}

// State is what a pool's decisions remember. The zero value is a pool never decided for. Times are whole seconds, so
// that a snapshot keeps them exactly.
type State struct {
	Generation   int64     `cbor:"1,keyasint"` // begins at the minute of the first decision, Unix time; then one more per publication
	LastDesired  int       `cbor:"2,keyasint"` // of the newest decision; meaningless while LastTick is zero
	LastTick     time.Time `cbor:"3,keyasint"`
	LastScaleOut time.Time `cbor:"4,keyasint"` // when more was last asked for
	LastScaleIn  time.Time `cbor:"5,keyasint"` // when less was last asked for

	LastPublished    time.Time `cbor:"6,keyasint"`
	PublishedDesired int       `cbor:"7,keyasint"`
	PublishedAction  Action    `cbor:"8,keyasint"`
	PublishedBinding string    `cbor:"9,keyasint"`

	Short       bool        `cbor:"14,keyasint"` // the newest decision asked for more than there was
	SupplyKnown bool        `cbor:"10,keyasint"`
	Ready       int         `cbor:"11,keyasint"` // last reported or believed
	Pending     []time.Time `cbor:"12,keyasint"` // when asked for, ascending
	KVTokens    float64     `cbor:"13,keyasint"` // KV cache of a replica as last reported; 0 when never
}

// Decide is the decision for one pool at now, and the state for its next one. It is pure; cost O(resources · horizon).
//
// Desired is a total: replicas on the way count as supply, so that waiting for them never asks for more. It is the
// largest, over resources and over the minutes until Lead + Hold, of demand at the quantile that cost makes optimal
// over the safe capacity of a replica, plus the reserves; never less than the reactive floor. Fewer replicas are asked
// for only when the whole window Lead + Cooldown fits them at ScaleInConfidence and nothing speaks against it (see
// whyStay), one step at a time. Stale, cold or unsized evidence never scales in. The pool's bounds come last and are
// named in Constraints.
func Decide(now time.Time, in Input, st State, cfg Config) (Decision, State) {
	p := newPlan(now, &in, &st, cfg)
	needed := p.target(&st, cfg)
	desired, constraints := p.clamp(needed, cfg)

	d := p.decision(cfg)
	d.Needed, d.Desired, d.Constraints = needed, desired, constraints
	d.Action = p.action(desired)
	if d.Action == ScaleOut {
		d.NeededBy = p.shortFrom(cfg)
		if p.floor.replicas > p.current {
			d.NeededBy = now
		}
	}

	asked := st.asked(p.current)
	short := desired > p.current
	switch {
	case desired > max(asked, p.current), short && !st.Short: // also when a replica is lost that had been asked for
		st.LastScaleOut = now
	case desired < min(asked, p.current):
		st.LastScaleIn = now
	}
	d.AskedAt = st.LastScaleOut.UTC() // a snapshot keeps the instant, not its zone
	st.Short = short
	st.believe(now, p.supply, p.observed, desired, cfg.Mode)
	st.KVTokens, st.LastDesired, st.LastTick = p.kvTokens, desired, now
	st.publish(&d, cfg)
	d.Reason = p.reason(&d, cfg)
	return d, st
}

// target is the number of replicas to ask for, before the pool's bounds.
func (p *plan) target(st *State, cfg Config) int {
	asked := st.asked(p.current)
	switch {
	case p.blind != sighted, p.need > max(p.current, asked):
		return max(p.current, asked, p.need)
	case asked > p.current:
		// More was asked for than there is. The ask stands for Hold, then shrinks to what must stay.
		if p.now.Sub(st.LastScaleOut) >= cfg.Hold {
			return max(p.current, min(asked, p.keep))
		}
		return asked
	case p.keep >= p.current:
		return p.current
	}
	if p.blockedBy = p.whyStay(st, asked, cfg); p.blockedBy != "" {
		return p.current
	}
	step := max(p.keep, p.current-cfg.ScaleInStep)
	if asked < p.current {
		step = max(step, asked) // the last step is still on its way
	}
	return step
}

// asked is what the previous decision asked for; current before there was one.
func (st *State) asked(current int) int {
	if st.LastTick.IsZero() {
		return current
	}
	return st.LastDesired
}

// whyStay is what speaks against fewer replicas although they would do; "" when nothing does.
func (p *plan) whyStay(st *State, asked int, cfg Config) string {
	if n := len(p.supply.Pending); n > 0 {
		return fmt.Sprintf("%d still warming up", n)
	}
	if left := cfg.Cooldown - p.now.Sub(st.LastScaleOut); !st.LastScaleOut.IsZero() && left > 0 {
		return fmt.Sprintf("cooling down for %s after the last scale-out", span(left))
	}
	if left := cfg.Hold - p.now.Sub(st.LastScaleIn); asked == p.current && !st.LastScaleIn.IsZero() && left > 0 {
		return fmt.Sprintf("the last step in was less than %s ago", span(cfg.Hold))
	}
	s := &p.in.Minute.State
	switch {
	case !p.in.Minute.Covered:
		return "the last minute has no telemetry"
	case p.partial() != "":
		return fmt.Sprintf("producer %s fell silent, so demand may be more than is seen", p.partial())
	case s.Preemptions > 0:
		return "replicas are preempting requests"
	case s.WaitingPerReady >= 1:
		return "requests are waiting"
	}
	for i := range p.rows {
		if p.rows[i].tail() {
			return fmt.Sprintf("a burst of %s is still draining", noun(p.rows[i].evidence.Dimension))
		}
	}
	return ""
}

// burstTail is how far current demand may exceed the median forecast of the next minute before it counts as a burst
// that has not drained.
const burstTail = 1.2

// tail says that the forecast expects a fall which has not come yet.
func (r *resource) tail() bool {
	return r.now > 1 && r.evidence.Demand > burstTail*r.forecast.Minute[0].At(0.5)
}

// clamp puts a target within the bounds of step, limit and minimum, and names those that changed it.
func (p *plan) clamp(target int, cfg Config) (desired int, constraints []string) {
	desired = target
	name := func(key string, bound int) {
		constraints = append(constraints, fmt.Sprintf("%s %d: %d wanted", key, bound, target))
	}
	if most := p.current + cfg.MaxStepOut; cfg.MaxStepOut > 0 && desired > most {
		desired = most
		name("max_step_out", cfg.MaxStepOut)
	}
	if most, key := p.in.Pool.Limit(); desired > most {
		desired = most
		name(key, most)
	}
	if least := p.in.Pool.Replicas.Min; desired < least {
		desired = least
		name("replicas.min", least)
	}
	return desired, constraints
}

// action compares what is asked for with what there is. Without sight a bound may lower the number, but no replica is
// given up for it.
func (p *plan) action(desired int) Action {
	switch {
	case desired > p.current:
		return ScaleOut
	case desired < p.current && p.blind == sighted:
		return ScaleIn
	}
	return Hold
}

// publish numbers d when it changes the published advice, or renews it. The first number is the Unix minute: there is at
// most one publication a minute, so numbers never overtake the clock, and a pool whose state was lost starts above all
// that it published before.
func (st *State) publish(d *Decision, cfg Config) {
	changed := d.Desired != st.PublishedDesired || d.Action != st.PublishedAction ||
		d.Action != Hold && d.Binding != st.PublishedBinding
	if d.Publish = changed || st.LastPublished.IsZero() || d.Tick.Sub(st.LastPublished) >= cfg.Renew; d.Publish {
		if st.Generation++; st.LastPublished.IsZero() {
			st.Generation = max(st.Generation, d.Tick.Unix()/60)
		}
		st.LastPublished = d.Tick
		st.PublishedDesired, st.PublishedAction, st.PublishedBinding = d.Desired, d.Action, d.Binding
	}
	d.Generation = st.Generation
}
