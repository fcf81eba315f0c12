package pipeline

import (
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// decided is what a decision leaves: all that the next one of its pool goes by, but for what models know.
type decided struct {
	Warmup   capacity.WarmupState `cbor:"1,keyasint"`
	Decision alerting.State       `cbor:"2,keyasint"`
	Issued   []issue              `cbor:"3,keyasint"`
	Answered time.Time            `cbor:"4,keyasint,omitzero"`
	Asks     asks                 `cbor:"5,keyasint"`
	Defined  *definition          `cbor:"6,keyasint,omitempty"`
}

// Decided is the state that the newest decision of a pool leaves, to be kept with it for [Pipeline.Resume].
func (p *Pipeline) Decided(pool string) ([]byte, error) {
	i, ok := p.findPool(pool)
	if !ok {
		return nil, fmt.Errorf("pool %q is not served", pool)
	}
	e := p.pools[i]
	return encoder.Marshal(decided{e.warmup.State(), e.decision, e.issued, e.answered, e.asks, e.defined})
}

// Resume has a Pipeline without a state, before it applies anything, go on after the newest decision of a pool: advice keeps its
// numbers, cooldowns and replicas on their way count, and no tick up to it is decided again, though forecasts and what they were
// worth are learned from. It says when that decision was; a pool that is not served is passed over.
func (p *Pipeline) Resume(pool string, state []byte) (tick time.Time, err error) {
	var s decided
	if err := cbor.Unmarshal(state, &s); err != nil {
		return time.Time{}, fmt.Errorf("state of pool %q: %w", pool, err)
	}
	e := p.restored(pool, s.Defined)
	if e == nil {
		return time.Time{}, nil
	}
	e.warmup.Restore(s.Warmup)
	e.decision, e.issued, e.answered, e.asks = s.Decision, s.Issued, s.Answered, s.Asks
	return e.decision.LastTick, nil
}

// resuming says that a pool already decided on this part of the log. Such a part teaches nothing of replicas a second time.
func (p *Pipeline) resuming(e *poolEntry) bool { return p.time.Last.Before(e.decision.LastTick) }

// ResumeAlerts goes on with alerts that fire.
func (p *Pipeline) ResumeAlerts(firing []alerting.Alert) { p.board.Reopen(firing) }
