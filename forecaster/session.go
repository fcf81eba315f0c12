package forecaster

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
)

// sessionsExpert is the place in models of what active sessions let expect.
var sessionsExpert = modelAt("sessions")

// sessionDimension is the dimension of model.Sessions that a forecast dimension is, by index into dimensions; −1 for none.
var sessionDimension = func() (at []int) {
	names := [model.SessionDimensions]string{
		model.SessionRequests: features.DimRequests, model.SessionPrefill: features.DimPrefill,
		model.SessionDecode: features.DimDecode, model.SessionKV: features.DimKV,
	}
	for _, d := range dimensions {
		at = append(at, slices.Index(names[:], d.Name))
	}
	return at
}()

// converse takes the sessions of a class at its newest minute, in which events multiplied its demand. A class that never
// had any has no model of them.
func (c *class) converse(minute int64, w *features.Window, multiplier float64) {
	if c.sessions == nil {
		if w.Sessions == nil {
			return
		}
		c.sessions = new(model.Sessions)
	}
	var x model.SessionMinute
	if s := w.Sessions; s != nil {
		x.Context, x.Begun = s.ContextSum, acts(&s.Begun)
		for g := range s.ByAge {
			a := &s.ByAge[g]
			x.Alive[g], x.Ended[g], x.Acts[g] = float64(a.Alive), float64(a.Ended), acts(&a.SessionActs)
		}
	}
	for d, k := range sessionDimension {
		if k >= 0 {
			x.Demand[k] = math.NaN()
			if now, ok := dimensions[d].Now(w); ok {
				x.Demand[k] = now.Mean
			}
		}
	}
	c.sessions.Observe(minute, &x)
	c.multiplier = multiplier
	c.expect()
}

func acts(a *features.SessionActs) model.SessionActs {
	return model.SessionActs{Woke: float64(a.Woke), Turns: float64(a.Turns), Prefill: float64(a.Prefill), Output: float64(a.Output)}
}

// expect works out what the sessions let expect.
func (c *class) expect() {
	c.ahead = nil
	if c.sessions == nil {
		return
	}
	if at, ok := c.sessions.Ahead(); ok {
		for d := range at {
			for h := range at[d] {
				at[d][h] /= c.multiplier
			}
		}
		c.ahead = &at
	}
}

// tell passes on to a series of the class what its sessions let expect.
func (c *class) tell(d int) {
	if k := sessionDimension[d]; k >= 0 && c.ahead != nil && c.light == nil && c.series[d] != nil {
		c.series[d].experts[sessionsExpert].(*model.Given).Tell(c.sessions.Minute, &c.ahead[k])
	}
}

// tellTotal adds up what the sessions of all classes let expect, and tells the pool's total. For a class without sessions
// its level of half an hour stands in.
func (p *pool) tellTotal(d int, total *series, minute int64) {
	k := sessionDimension[d]
	if k < 0 || !slices.ContainsFunc(p.classes, func(c *class) bool { return c.ahead != nil }) {
		return
	}
	var sum [model.SessionLeads]float64
	some := false
	for _, c := range p.classes {
		switch {
		case c.ahead != nil && c.sessions.Minute == minute:
			some = true
			for h, y := range c.ahead[k] {
				sum[h] += y
			}
		default:
			if s := c.follower(d); s != nil && s.past().Known > 0 {
				level := s.past().Level(model.Level30m)
				for h := range sum {
					sum[h] += level
				}
			}
		}
	}
	if some {
		total.experts[sessionsExpert].(*model.Given).Tell(minute, &sum)
	}
}

// retell says again, after a restore, what was said of the future.
func (p *pool) retell() {
	for _, c := range p.classes {
		c.expect()
		for d := range dimensions {
			c.tell(d)
		}
	}
	for d, s := range p.total {
		if s != nil {
			p.tellTotal(d, s, s.history.Newest)
		}
	}
}
