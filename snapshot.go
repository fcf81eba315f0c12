package forewarm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// snapshotVersion changes when the layout of state does.
const snapshotVersion = 1

type state struct {
	Version    int                 `cbor:"1,keyasint"`
	Clock      Clock               `cbor:"2,keyasint"`
	Sequence   uint64              `cbor:"3,keyasint"`
	Time       timekeeperState     `cbor:"4,keyasint"`
	Counters   Counters            `cbor:"5,keyasint"`
	Dedup      ingest.DeduperState `cbor:"6,keyasint"`
	Aggregator features.State      `cbor:"7,keyasint"`
	Forecaster forecaster.State    `cbor:"8,keyasint"`
	Pools      []poolState         `cbor:"9,keyasint"`
	Board      alerting.BoardState `cbor:"10,keyasint"`

	Producers *features.ProducersState `cbor:"20,keyasint,omitempty"`
	Adopted   ingest.DeduperState      `cbor:"40,keyasint"`

	Edge   *edgeState   `cbor:"50,keyasint,omitempty"` // nil where the state is no edge's
	Agents []agentState `cbor:"51,keyasint,omitempty"`
}

type poolState struct {
	Name     string               `cbor:"1,keyasint"`
	Warmup   capacity.WarmupState `cbor:"2,keyasint"`
	Decision alerting.State       `cbor:"3,keyasint"`
	Issued   []issue              `cbor:"4,keyasint"`
	Prefix   *prefixState         `cbor:"5,keyasint,omitempty"`

	Archetypes *features.ArchetypesState `cbor:"6,keyasint,omitempty"`
}

// codec encodes deterministically (RFC 8949 §4.2), so that equal states are equal bytes, and decodes within bounds that
// the largest honest state stays far below.
var encoder, decoder = func() (cbor.UserBufferEncMode, cbor.DecMode) {
	options := cbor.CoreDetEncOptions()
	options.Time = cbor.TimeRFC3339Nano
	enc, err := options.UserBufferEncMode()
	if err != nil {
		panic(err) // the options are constants
	}
	dec, err := cbor.DecOptions{MaxArrayElements: 1 << 24, MaxMapPairs: 1 << 20, MaxNestedLevels: 32}.DecMode()
	if err != nil {
		panic(err)
	}
	return enc, dec
}()

// Snapshot encodes the whole state. With thousands of classes that is a hundred megabytes and more, so that room is made
// for them once, by what the last one took.
func (p *Pipeline) Snapshot() ([]byte, error) {
	s := state{
		Version: snapshotVersion, Clock: p.cfg.Clock, Sequence: p.sequence, Time: p.time.timekeeperState, Counters: p.counters,
		Dedup: p.dedup.State(), Adopted: p.calls.adopted.State(), Aggregator: p.aggregator.State(), Forecaster: p.forecaster.State(), Board: p.board.State(),
		Producers: p.producers.State(),
	}
	s.Agents = p.agents.list
	if p.cfg.Agent != "" {
		s.Edge = &p.edge.edgeState
	}
	for _, e := range p.pools {
		ps := poolState{Name: e.pool.Name, Warmup: e.warmup.State(), Decision: e.decision, Issued: e.issued, Prefix: e.prefix.state()}
		if e.archetypes != nil {
			ps.Archetypes = e.archetypes.State()
		}
		s.Pools = append(s.Pools, ps)
	}
	b := bytes.NewBuffer(make([]byte, 0, p.snapshotBytes+p.snapshotBytes/8))
	err := encoder.MarshalToBuffer(s, b)
	p.snapshotBytes = b.Len()
	return b.Bytes(), err
}

// Digest names a state: the SHA-256 of its snapshot.
func Digest(snapshot []byte) string {
	sum := sha256.Sum256(snapshot)
	return hex.EncodeToString(sum[:])
}

// Restore makes a Pipeline that goes on from a snapshot, under a configuration that may have changed: pools that are no
// longer configured are forgotten, new ones start empty.
func Restore(cfg Config, snapshot []byte) (*Pipeline, error) {
	var s state
	if err := decoder.Unmarshal(snapshot, &s); err != nil {
		return nil, fmt.Errorf("snapshot does not decode: %w", err)
	}
	if s.Version != snapshotVersion {
		return nil, fmt.Errorf("snapshot has version %d, this program reads %d", s.Version, snapshotVersion)
	}
	if s.Clock != cfg.Clock {
		return nil, fmt.Errorf("snapshot was taken on the %s clock, the configuration says %s: use another storage.dir", s.Clock, cfg.Clock)
	}
	if (s.Edge != nil) != (cfg.Agent != "") {
		return nil, errors.New("snapshot was taken by the other of forewarm serve and forewarm agent: use another storage.dir")
	}
	p := New(cfg)
	var err error
	p.dedup = ingest.RestoreDeduper(s.Dedup)
	p.calls.restore(s.Adopted)
	if p.aggregator, err = features.Restore(p.cfg.Features, s.Aggregator); err != nil {
		return nil, err
	}
	if p.forecaster, err = forecaster.Restore(cfg.forecasterConfig(), s.Forecaster); err != nil {
		return nil, err
	}
	if p.producers, err = features.RestoreProducers(cfg.producers(), s.Producers); err != nil {
		return nil, err
	}
	p.board.Restore(s.Board)
	if p.agents.list = s.Agents; s.Edge != nil {
		p.edge.edgeState = *s.Edge
	}
	p.sequence, p.time.timekeeperState = s.Sequence, s.Time
	p.snapshotBytes = len(snapshot)
	p.counters = s.Counters
	if p.counters.Refused == nil {
		p.counters.Refused = map[ingest.Reason]uint64{}
	}
	for _, ps := range s.Pools {
		if e := p.entry(ps.Name); e != nil {
			e.warmup.Restore(ps.Warmup)
			e.decision, e.issued = ps.Decision, ps.Issued
			e.prefix.restore(ps.Prefix, cfg.PrefixBlocks)
			if e.archetypes != nil && ps.Archetypes != nil {
				if e.archetypes, err = features.RestoreArchetypes(cfg.Classify.Archetypes, ps.Archetypes); err != nil {
					return nil, fmt.Errorf("pool %q: %w", ps.Name, err)
				}
			}
		}
	}
	return p, nil
}
