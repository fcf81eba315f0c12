package forecaster

import (
	"encoding/binary"
	"fmt"

	"github.com/forewarm/forewarm/features"
)

// snapshotVersion changes with the network, the targets, the levels or the meaning of a state below.
const snapshotVersion = 31

// VersionError means that a state has another version than this program reads.
type VersionError struct {
	Of             string // "pipeline" or "forecaster"
	Version, Reads int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the %s's state has version %d, this program reads %d", e.Of, e.Version, e.Reads)
}

// state is the first part of a Forecaster's state. The other parts are the totals and classes of its pools.
type state struct {
	Version int         `cbor:"1,keyasint"`
	Pools   []poolState `cbor:"2,keyasint"`
}

type poolState struct {
	Name    string              `cbor:"1,keyasint"`
	Classes int                 `cbor:"2,keyasint"` // number of classes, the total included
	Minute  features.PoolMinute `cbor:"4,keyasint"`

	Newest  int64   `cbor:"9,keyasint"`
	Retries retries `cbor:"11,keyasint"`
}

type classState struct {
	Class  string   `cbor:"1,keyasint"`
	Series [][]byte `cbor:"2,keyasint"` // see series.pack; nil until the dimension is known
	Shape  shape    `cbor:"3,keyasint"`
	Shown  bool     `cbor:"4,keyasint"`
	Began  bool     `cbor:"5,keyasint"`
	Weight float64  `cbor:"6,keyasint"`
}

// Parts calls put with each part of the state, in the order in which Restore reads them. Only one class's state is in
// memory at a time. Do not call Observe meanwhile.
func (f *Forecaster) Parts(put func(part any) error) error {
	st := state{Version: snapshotVersion}
	for _, p := range f.pools {
		st.Pools = append(st.Pools, poolState{
			Name: p.name, Classes: len(p.all()), Minute: p.minute,
			Newest: p.newest, Retries: p.retries,
		})
	}
	if err := put(&st); err != nil {
		return err
	}
	for _, p := range f.pools {
		for _, c := range p.all() {
			cs := classState{c.key.Class, make([][]byte, len(c.series)), c.shape, c.shown, c.began, c.weight}
			for d, s := range c.series {
				if s != nil {
					cs.Series[d] = s.pack()
				}
			}
			if err := put(&cs); err != nil {
				return err
			}
		}
	}
	return nil
}

// state has pointers to all that a snapshot keeps of a series: values of fixed size.
func (s *series) state() []any {
	return append(s.history.State(), &s.newest, &s.counted, &s.unit, s.origins, &s.corrections)
}

// pack writes a series in little-endian order: there may be tens of thousands, and CBOR takes longer.
func (s *series) pack() (b []byte) {
	for _, part := range s.state() {
		var err error
		if b, err = binary.Append(b, binary.LittleEndian, part); err != nil {
			panic(err) // the type has no fixed size
		}
	}
	return b
}

// unpack reads what pack wrote; false if it has another shape.
func (s *series) unpack(b []byte) bool {
	for _, part := range s.state() {
		n, err := binary.Decode(b, binary.LittleEndian, part)
		if err != nil {
			return false
		}
		b = b[n:]
	}
	return len(b) == 0 && s.history.Newest >= -1
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
		p.minute, p.newest, p.retries = ps.Minute, ps.Newest, ps.Retries
		for range ps.Classes {
			var cs classState
			if err := next(&cs); err != nil {
				return nil, fmt.Errorf("forecaster state of a class of %s: %w", ps.Name, err)
			}
			if err := p.restoreClass(&cs); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func (p *pool) restoreClass(cs *classState) error {
	c := p.class(cs.Class)
	c.shape, c.shown, c.began, c.weight = cs.Shape, cs.Shown, cs.Began, cs.Weight
	if len(cs.Series) != len(features.Forecast) {
		return fmt.Errorf("forecaster state of %s has %d dimensions, this program forecasts %d", c.key, len(cs.Series), len(features.Forecast))
	}
	for d, b := range cs.Series {
		if b != nil && !p.addSeries(c, d).unpack(b) {
			return fmt.Errorf("forecaster state of %s does not have this program's shape (was features.revise changed?)", c.key)
		}
	}
	return nil
}
