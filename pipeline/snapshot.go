package pipeline

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/ingest"
)

// snapshotVersion changes with the layout of state.
const snapshotVersion = 40

// state is the first part of a Pipeline's state. Then follow the parts of the Forecaster, the ids of seen requests, a
// poolEntry for each pool, and the parts of the Aggregator: a CBOR sequence (RFC 8742), so neither writer nor reader
// holds more than one part.
type state struct {
	Version  int                   `cbor:"1,keyasint"`
	Clock    Clock                 `cbor:"2,keyasint"`
	Sequence uint64                `cbor:"3,keyasint"`
	Time     timekeeper            `cbor:"4,keyasint"`
	Counters Counters              `cbor:"5,keyasint"`
	Calls    calls                 `cbor:"6,keyasint"`
	Pools    int                   `cbor:"9,keyasint"` // number of pools
	Alerts   alerting.AlertTracker `cbor:"10,keyasint"`

	Producers *features.Producers `cbor:"20,keyasint"`
}

// encoder is deterministic (RFC 8949 §4.2): equal states are equal bytes. decoder has bounds far above any valid state.
var encoder, decoder = func() (cbor.EncMode, cbor.DecMode) {
	options := cbor.CoreDetEncOptions()
	options.Time = cbor.TimeRFC3339Nano
	enc, err := options.EncMode()
	if err != nil {
		panic(err) // the options are constants
	}
	dec, err := cbor.DecOptions{MaxArrayElements: 1 << 24, MaxMapPairs: 1 << 20, MaxNestedLevels: 32}.DecMode()
	if err != nil {
		panic(err)
	}
	return enc, dec
}()

// Encode writes the state: the same bytes for the same state.
func (p *Pipeline) Encode(w io.Writer) error {
	put := encoder.NewEncoder(w).Encode
	p.state.Pools = len(p.pools)
	if err := put(&p.state); err != nil {
		return err
	}
	if err := p.forecaster.Parts(put); err != nil {
		return err
	}
	if err := put(p.dedup.State()); err != nil {
		return err
	}
	for _, e := range p.pools {
		if err := put(e); err != nil {
			return err
		}
	}
	return p.aggregator.Parts(put)
}

// ErrOtherClock means that a snapshot was taken with another clock than the configuration's.
var ErrOtherClock = errors.New("snapshot was taken on another clock")

// Restore creates a Pipeline from a snapshot. The configuration may have changed: pools that are no longer configured
// are not served, new ones start empty. Errors: [forecaster.VersionError] for another version, [ErrOtherClock], or that
// the snapshot does not decode.
func Restore(cfg Config, snapshot io.Reader) (*Pipeline, error) {
	next := decoder.NewDecoder(snapshot).Decode
	var s state
	if err := next(&s); err != nil {
		return nil, fmt.Errorf("snapshot does not decode: %w", err)
	}
	if s.Version != snapshotVersion {
		return nil, &forecaster.VersionError{Of: "pipeline", Version: s.Version, Reads: snapshotVersion}
	}
	if s.Clock != cfg.Clock {
		return nil, fmt.Errorf("%w: %[2]s, the configuration says %[3]s: set clock: %[2]s again, "+
			"or use another storage.dir, with nats.url another account of NATS", ErrOtherClock, s.Clock, cfg.Clock)
	}
	p := New(cfg)
	if err := p.restore(&s, next); err != nil {
		return nil, fmt.Errorf("snapshot does not decode: %w", err)
	}
	if err := next(new(cbor.RawMessage)); !errors.Is(err, io.EOF) {
		return nil, errors.New("snapshot does not decode: data follows the last part")
	}
	return p, nil
}

func (p *Pipeline) restore(s *state, next func(part any) error) (err error) {
	s.Time.clock, s.Time.lateness, s.Time.ahead = p.state.Time.clock, p.state.Time.lateness, p.state.Time.ahead
	s.Producers = features.NewProducers(p.cfg.Features, s.Clock == WallClock, s.Producers)
	if s.Counters.Refused == nil {
		s.Counters.Refused = map[ingest.Reason]uint64{}
	}
	p.state = *s
	if p.forecaster, err = forecaster.Restore(p.cfg.forecasterConfig(), next); err != nil {
		return err
	}
	var ids ingest.DeduperState
	if err := next(&ids); err != nil {
		return err
	}
	p.dedup.Restore(ids)
	for range s.Pools {
		var saved poolEntry
		if err := next(&saved); err != nil {
			return err
		}
		if e := p.resumePool(saved.Name, &saved.AfterDecision); e != nil {
			saved.pool, saved.AfterDecision = e.pool, e.AfterDecision
			*e = saved
		}
	}
	p.aggregator, err = features.Restore(p.cfg.Features, next)
	return err
}

// resumePool admits a pool and continues from its saved state. It returns nil if the pool is not served.
func (p *Pipeline) resumePool(pool string, s *AfterDecision) *poolEntry {
	e := p.admitPool(pool)
	if e != nil {
		e.AfterDecision = *s
		e.Warmup = e.pool.Warmup.With(s.Warmup)
	}
	return e
}

// DecisionState is the encoded state after a pool's newest decision. Store it with the decision for [Pipeline.Resume].
func (p *Pipeline) DecisionState(pool string) ([]byte, error) {
	e := p.byName[pool]
	if e == nil {
		return nil, fmt.Errorf("pool %q is not served", pool)
	}
	return encoder.Marshal(&e.AfterDecision)
}

// Resume continues after the newest decision of a pool, in a Pipeline that has applied nothing yet: generations,
// cooldowns and pending replicas go on. Ticks up to that decision do not decide again, but models learn from them. It
// skips a pool that is not served, or that was forgotten before the log's newest decision.
func (p *Pipeline) Resume(pool string, state []byte, newest time.Time) error {
	var s AfterDecision
	if err := decoder.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("state of pool %q: %w", pool, err)
	}
	if p.listed(pool) || newest.Sub(s.Decision.LastTick) <= p.cfg.Features.StaleAfter {
		p.resumePool(pool, &s)
	}
	return nil
}

// resuming reports whether a pool has decided on this part of the log before, which then has taught its warm-up lag.
func (p *Pipeline) resuming(e *poolEntry) bool { return p.state.Time.Last.Before(e.Decision.LastTick) }

// ResumeAlerts continues firing alerts.
func (p *Pipeline) ResumeAlerts(firing []alerting.Alert) { p.state.Alerts.Reopen(firing) }
