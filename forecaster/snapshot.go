package forecaster

import (
	"encoding/binary"
	"fmt"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
)

// snapshotVersion changes with the network, the targets, the levels or the meaning of a state below.
const snapshotVersion = 26

// VersionError means that a state has another version than this program reads.
type VersionError struct {
	Of             string // "pipeline" or "forecaster"
	Version, Reads int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the %s's state has version %d, this program reads %d", e.Of, e.Version, e.Reads)
}

// state is the first part of a Forecaster's state. The other parts are the classes of its pools.
type state struct {
	Version int         `cbor:"1,keyasint"`
	Pools   []poolState `cbor:"2,keyasint"`
}

type poolState struct {
	Name    string              `cbor:"1,keyasint"`
	Classes int                 `cbor:"2,keyasint"` // number of classes
	Total   []*seriesState      `cbor:"3,keyasint"`
	Minute  features.PoolMinute `cbor:"4,keyasint"`

	Ranked  int64         `cbor:"7,keyasint,omitempty"`
	Newest  int64         `cbor:"9,keyasint"`
	Effects []effectState `cbor:"10,keyasint,omitempty"`
	Retries retries       `cbor:"11,keyasint"`
}

type classState struct {
	Class  string         `cbor:"1,keyasint"`
	Series []*seriesState `cbor:"2,keyasint,omitempty"`
	Shape  shape          `cbor:"3,keyasint"`
	Shown  bool           `cbor:"4,keyasint"`
	Began  bool           `cbor:"5,keyasint"`
	Weight float64        `cbor:"6,keyasint"`
}

type seriesState struct {
	History     model.HistoryState `cbor:"1,keyasint"`
	Anchor      nowcast            `cbor:"2,keyasint"`
	Learned     int64              `cbor:"3,keyasint,omitempty"`
	Unit        float64            `cbor:"4,keyasint"`
	Origins     []byte             `cbor:"5,keyasint"` // binary.Write format, for speed: there may be tens of thousands of series
	Corrections []byte             `cbor:"6,keyasint"`
}

// Parts calls put with each part of the state, in the order in which Restore reads them. Only one class's state is in
// memory at a time. Do not call Observe meanwhile.
func (f *Forecaster) Parts(put func(part any) error) error {
	st := state{Version: snapshotVersion}
	for _, p := range f.pools {
		ps := poolState{
			Name: p.name, Classes: len(p.classes), Total: seriesStates(p.total), Minute: p.minute, Ranked: p.ranked,
			Newest: p.newest, Effects: p.effectStates(), Retries: p.retries,
		}
		st.Pools = append(st.Pools, ps)
	}
	if err := put(&st); err != nil {
		return err
	}
	for _, p := range f.pools {
		for _, c := range p.classes {
			if err := put(&classState{c.key.Class, seriesStates(c.series), c.shape, c.shown, c.began, c.weight}); err != nil {
				return err
			}
		}
	}
	return nil
}

func seriesStates(all []*series) []*seriesState {
	out := make([]*seriesState, len(all))
	for i, s := range all {
		if s == nil {
			continue
		}
		st := &seriesState{History: s.history.State(), Anchor: s.nowcast, Learned: s.learned, Unit: s.unit}
		st.Origins, st.Corrections = pack(s.origins), pack(&s.corrections)
		out[i] = st
	}
	return out
}

// pack writes fixed-size values in little-endian order.
func pack(x any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, x)
	if err != nil {
		panic(err) // the type has no fixed size
	}
	return b
}

// unpack reads what pack wrote; false if the length differs.
func unpack(b []byte, x any) bool {
	n, err := binary.Decode(b, binary.LittleEndian, x)
	return err == nil && n == len(b)
}

// Restore creates a Forecaster from a state; next decodes the next part into its argument.
func Restore(cfg Config, next func(part any) error) (*Forecaster, error) {
	var st state
	if err := next(&st); err != nil {
		return nil, fmt.Errorf("forecaster state: %w", err)
	}
	if st.Version != snapshotVersion {
		return nil, &VersionError{"forecaster", st.Version, snapshotVersion}
	}
	f := New(cfg)
	for _, ps := range st.Pools {
		p := f.pool(ps.Name)
		p.minute, p.newest, p.ranked, p.retries = ps.Minute, ps.Newest, ps.Ranked, ps.Retries
		if !ps.Retries.ordered() {
			return nil, fmt.Errorf("forecaster state of %s has attempts out of order", ps.Name)
		}
		if err := p.restoreEffects(ps.Effects); err != nil {
			return nil, err
		}
		var err error
		if p.total, err = f.restoreAll(p, features.TotalClass, ps.Total); err != nil {
			return nil, err
		}
		for range ps.Classes {
			var cs classState
			if err := next(&cs); err != nil {
				return nil, fmt.Errorf("forecaster state of a class of %s: %w", ps.Name, err)
			}
			if err := f.restoreClass(p, &cs); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func (f *Forecaster) restoreAll(p *pool, class string, states []*seriesState) ([]*series, error) {
	key := features.Key{Pool: p.name, Class: class}
	if len(states) != len(dimensions) {
		return nil, fmt.Errorf("forecaster state of %s has %d dimensions, this program forecasts %d", key, len(states), len(dimensions))
	}
	out := make([]*series, len(states))
	for i, st := range states {
		if st == nil {
			continue
		}
		s := p.newSeries(key, f.settleMinutes())
		if !s.history.Restore(st.History) || !unpack(st.Origins, s.origins) || !unpack(st.Corrections, &s.corrections) || st.Learned > st.History.Newest {
			return nil, fmt.Errorf("forecaster state of %s does not have this program's shape (was features.revise changed?)", key)
		}
		s.nowcast, s.learned, s.unit = st.Anchor, st.Learned, st.Unit
		out[i] = s
	}
	return out, nil
}

func (f *Forecaster) restoreClass(p *pool, cs *classState) (err error) {
	c := p.class(features.Key{Pool: p.name, Class: cs.Class})
	c.shape, c.shown, c.began, c.weight = cs.Shape, cs.Shown, cs.Began, cs.Weight
	c.series, err = f.restoreAll(p, cs.Class, cs.Series)
	for _, s := range c.series {
		if s != nil {
			s.began = c.began
		}
	}
	return err
}
