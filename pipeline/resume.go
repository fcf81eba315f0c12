package pipeline

import (
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// decisionState is the state after a decision that the next one of its pool needs, without that of models.
type decisionState struct {
	Warmup       capacity.WarmupState `cbor:"1,keyasint"`
	Decision     alerting.State       `cbor:"2,keyasint"`
	Issued       []issue              `cbor:"3,keyasint"`
	LastReadyAck time.Time            `cbor:"4,keyasint,omitzero"`
	Asks         asks                 `cbor:"5,keyasint"`
	Defined      *definition          `cbor:"6,keyasint,omitempty"`
}

// DecisionState is the encoded state after the newest decision of a pool. Store it with the decision for
// [Pipeline.Resume].
func (p *Pipeline) DecisionState(pool string) ([]byte, error) {
	i, ok := p.findPool(pool)
	if !ok {
		return nil, fmt.Errorf("pool %q is not served", pool)
	}
	e := p.pools[i]
	return encoder.Marshal(decisionState{e.warmup.State(), e.decision, e.issued, e.lastReadyAck, e.asks, e.defined})
}

// Resume continues after the newest decision of a pool, in a Pipeline that has applied nothing yet: generations,
// cooldowns and pending replicas go on. Ticks up to that decision do not decide again, but models learn from them. It
// returns the tick of that decision. A pool that is not served is skipped.
func (p *Pipeline) Resume(pool string, state []byte) (tick time.Time, err error) {
	var s decisionState
	if err := cbor.Unmarshal(state, &s); err != nil {
		return time.Time{}, fmt.Errorf("state of pool %q: %w", pool, err)
	}
	e := p.restored(pool, s.Defined)
	if e == nil {
		return time.Time{}, nil
	}
	e.warmup.Restore(s.Warmup)
	e.decision, e.issued, e.lastReadyAck, e.asks = s.Decision, s.Issued, s.LastReadyAck, s.Asks
	return e.decision.LastTick, nil
}

// resuming reports whether a pool already decided on this part of the log, which then teaches no warm-up lag again.
func (p *Pipeline) resuming(e *poolEntry) bool { return p.time.Last.Before(e.decision.LastTick) }

// ResumeAlerts continues firing alerts.
func (p *Pipeline) ResumeAlerts(firing []alerting.Alert) { p.board.Reopen(firing) }
