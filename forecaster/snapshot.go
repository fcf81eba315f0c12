package forecaster

import (
	"encoding/binary"
	"fmt"

	"github.com/forewarm/forewarm/features"
)

// snapshotVersion changes with the network, the targets, the levels or the meaning of a state below.
const snapshotVersion = 34

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
	Classes int                 `cbor:"2,keyasint"` // number of classes, the total included; of a snapshot
	Minute  features.PoolMinute `cbor:"4,keyasint"`
	Retries retries             `cbor:"11,keyasint"`
}

type classPart struct {
	Class  string   `cbor:"1,keyasint"`
	Series [][]byte `cbor:"2,keyasint"` // see series.pack; nil until the dimension is known
	classState
}

type classState struct {
	Shape  shape   `cbor:"3,keyasint"`
	Shown  bool    `cbor:"4,keyasint"` // in the output
	Began  bool    `cbor:"5,keyasint"` // while the pool was observed
	Weight float64 `cbor:"6,keyasint"` // tokens with decay, as of Shape.Newest
}

// Parts calls put with each part of the state, in the order in which Restore reads them. Only one class's state is in
// memory at a time. Do not call Observe meanwhile.
func (f *Forecaster) Parts(put func(part any) error) error {
	st := state{Version: snapshotVersion}
	for _, p := range f.pools {
		p.Classes = len(p.all())
		st.Pools = append(st.Pools, p.poolState)
	}
	if err := put(&st); err != nil {
		return err
	}
	for _, p := range f.pools {
		for _, c := range p.all() {
			part := classPart{c.key.Class, make([][]byte, len(c.series)), c.classState}
			for d, s := range c.series {
				if s != nil {
					part.Series[d] = s.pack()
				}
			}
			if err := put(&part); err != nil {
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
		p.poolState = ps
		for range ps.Classes {
			var part classPart
			if err := next(&part); err != nil {
				return nil, fmt.Errorf("forecaster state of a class of %s: %w", ps.Name, err)
			}
			if err := p.restoreClass(&part); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func (p *pool) restoreClass(part *classPart) error {
	c := p.class(part.Class)
	c.classState = part.classState
	if len(part.Series) != len(features.Forecast) {
		return fmt.Errorf("forecaster state of %s has %d dimensions, this program forecasts %d", c.key, len(part.Series), len(features.Forecast))
	}
	for d, b := range part.Series {
		if b != nil && !p.addSeries(c, d).unpack(b) {
			return fmt.Errorf("forecaster state of %s does not have this program's shape (was features.revise changed?)", c.key)
		}
	}
	return nil
}
