package forewarm

import (
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// Resume has a Pipeline without a state, before it folds anything, go on after a decision that is journaled: advice keeps
// its numbers, cooldowns and replicas on their way count, and no tick up to it is decided again, though forecasts and what
// they were worth are learned from. Call it with all decisions of a day and more, in their order.
//
// from is where the log begins that will be folded: what replicas did after it will be learned from that; of what they did
// before, decisions say what the warm-up lag was believed to be. Decisions for pools that are not served are passed over.
func (p *Pipeline) Resume(d *alerting.Decision, from time.Time) {
	e := p.entry(d.Pool)
	if e == nil || !d.Tick.After(e.decision.LastTick) {
		return
	}
	was := e.decision.LastDesired
	e.decision = e.decision.Follow(d)
	e.remember(d)
	e.asks.decided(d, was)
	if d.Basis != nil && !d.Tick.After(from) {
		w := &d.Basis.Warmup
		e.warmup.Recall(seconds(w.P50), seconds(w.P90), w.Seen)
	}
}

// ResumeAlerts goes on with alerts that fire.
func (p *Pipeline) ResumeAlerts(firing []alerting.Alert) { p.board.Reopen(firing) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
