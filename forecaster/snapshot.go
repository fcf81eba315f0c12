package forecaster

import (
	"fmt"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
)

// snapshotVersion changes when the catalog, the targets, the levels or a state below changes meaning.
const snapshotVersion = 20

// VersionError says that a state is of another version than this program reads.
type VersionError struct {
	Of             string // "pipeline" or "forecaster"
	Version, Reads int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the %s's state has version %d, this program reads %d", e.Of, e.Version, e.Reads)
}

// state is the first part of a Forecaster at rest. The others are the classes of its pools.
type state struct {
	Version int         `cbor:"1,keyasint"`
	Pools   []poolState `cbor:"2,keyasint"`
}

type poolState struct {
	Name    string              `cbor:"1,keyasint"`
	Classes int                 `cbor:"2,keyasint"` // how many there are
	Total   []*seriesState      `cbor:"3,keyasint"`
	Minute  features.PoolMinute `cbor:"4,keyasint"`
	Shared  []*shared           `cbor:"8,keyasint"`

	Standings []standingState `cbor:"5,keyasint,omitempty"`
	Rest      span            `cbor:"6,keyasint"`
	Chosen    int64           `cbor:"7,keyasint,omitempty"`

	Newest  int64         `cbor:"9,keyasint"`
	Effects []effectState `cbor:"10,keyasint,omitempty"`
	Retries retries       `cbor:"11,keyasint"`
}

type standingState struct {
	Class  string  `cbor:"1,keyasint"`
	Weight float64 `cbor:"2,keyasint"`
	Newest int64   `cbor:"3,keyasint"`
	Tier   tier    `cbor:"4,keyasint"`
	Counts span    `cbor:"5,keyasint"`
}

type classState struct {
	Class  string         `cbor:"1,keyasint"`
	Series []*seriesState `cbor:"2,keyasint,omitempty"`
	Shape  shape          `cbor:"3,keyasint"`

	Light []*lightState `cbor:"4,keyasint,omitempty"`
	Shown bool          `cbor:"5,keyasint"`
}

type seriesState struct {
	History model.HistoryState  `cbor:"1,keyasint"`
	Experts [][]float64         `cbor:"2,keyasint"`
	Spread  spread              `cbor:"3,keyasint"`
	Mix     [numTargets]mixture `cbor:"4,keyasint"`
	Pending []pendingRow        `cbor:"5,keyasint"`
	Ranks   ranks               `cbor:"6,keyasint"`
	Anchor  anchor              `cbor:"7,keyasint"`
	Learned int64               `cbor:"8,keyasint,omitempty"`
	Covered [2]Covered          `cbor:"9,keyasint"`
	Shift   levelShift          `cbor:"10,keyasint"`
}

// Parts hands out the state in the parts that Restore takes up, in their order: what was learned of each class is put
// together when it is its turn. Nothing may be observed meanwhile.
func (f *Forecaster) Parts(put func(part any) error) error {
	st := state{Version: snapshotVersion}
	for _, p := range f.pools {
		ps := poolState{
			Name: p.name, Classes: len(p.classes), Total: seriesStates(p.total), Minute: p.minute, Rest: p.rest, Chosen: p.chosen, Shared: p.shared,
			Newest: p.newest, Effects: p.effectStates(), Retries: p.retries,
		}
		for _, s := range p.standings {
			ps.Standings = append(ps.Standings, standingState{s.name, s.weight, s.newest, s.tier, s.counts})
		}
		st.Pools = append(st.Pools, ps)
	}
	if err := put(&st); err != nil {
		return err
	}
	for _, p := range f.pools {
		for _, c := range p.classes {
			if err := put(&classState{c.key.Class, seriesStates(c.series), c.shape, lightStates(c.light), c.shown}); err != nil {
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
		st := &seriesState{History: s.history.State(), Spread: s.spread, Mix: s.mix, Pending: s.pending.rows, Ranks: s.ranks, Anchor: s.anchor, Learned: s.learned, Covered: s.covered, Shift: s.shift}
		for _, x := range s.experts {
			st.Experts = append(st.Experts, x.State())
		}
		out[i] = st
	}
	return out
}

// Restore makes a Forecaster that goes on where the one that was frozen did; next decodes the next of its parts into what
// it is given.
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
		if !ps.Retries.sound() {
			return nil, fmt.Errorf("forecaster state of %s has attempts out of order", ps.Name)
		}
		if err := p.restoreEffects(ps.Effects); err != nil {
			return nil, err
		}
		var err error
		if p.total, err = f.restoreAll(p, features.TotalClass, ps.Total); err != nil {
			return nil, err
		}
		if len(ps.Shared) != len(p.shared) {
			return nil, fmt.Errorf("forecaster state of %s has %d dimensions, this program forecasts %d", p.name, len(ps.Shared), len(p.shared))
		}
		p.shared = ps.Shared
		for range ps.Classes {
			var cs classState
			if err := next(&cs); err != nil {
				return nil, fmt.Errorf("forecaster state of a class of %s: %w", ps.Name, err)
			}
			if err := f.restoreClass(p, &cs); err != nil {
				return nil, err
			}
		}
		if err := p.restoreStandings(&ps, f.settleMinutes()); err != nil {
			return nil, err
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
		ok := s.history.Restore(st.History) && len(st.Experts) == numModels && len(st.Pending) == len(s.pending.rows) && st.Learned <= st.History.Newest
		for e := 0; ok && e < numModels; e++ {
			ok = s.experts[e].Restore(st.Experts[e])
		}
		if !ok {
			return nil, fmt.Errorf("forecaster state of %s does not have this program's shape (was features.revise changed?)", key)
		}
		s.spread, s.mix, s.ranks, s.anchor, s.learned = st.Spread, st.Mix, st.Ranks, st.Anchor, st.Learned
		s.pending.rows, s.covered, s.shift = st.Pending, st.Covered, st.Shift
		out[i] = s
	}
	return out, nil
}

func (f *Forecaster) restoreClass(p *pool, cs *classState) (err error) {
	c := p.class(features.Key{Pool: p.name, Class: cs.Class})
	c.shape, c.shown = cs.Shape, cs.Shown
	if cs.Light == nil {
		c.series, err = f.restoreAll(p, cs.Class, cs.Series)
		return err
	}
	c.series = nil
	c.light, err = p.restoreLight(c.key, cs.Light, f.settleMinutes())
	return err
}

// restoreStandings takes up how the classes stand.
func (p *pool) restoreStandings(ps *poolState, settle int) error {
	if !ps.Rest.fits(settle) {
		return fmt.Errorf("forecaster state of %s does not have this program's shape (was features.revise changed?)", p.name)
	}
	p.rest, p.chosen = ps.Rest, ps.Chosen
	own := 0
	for i := range ps.Standings {
		x := &ps.Standings[i]
		s := &standing{name: x.Class, weight: x.Weight, newest: x.Newest, counts: x.Counts}
		if !x.Counts.fits(settle) || i > 0 && ps.Standings[i-1].Class >= x.Class {
			return fmt.Errorf("forecaster state of %s/%s comes twice or does not have this program's shape", p.name, x.Class)
		}
		if c := p.find(x.Class); x.Tier != tierPooled && (c == nil || (c.light != nil) != (x.Tier == tierLight)) {
			return fmt.Errorf("forecaster state of %s/%s lacks its series", p.name, x.Class)
		} else if x.Tier != tierPooled {
			s.class = c
			own++
		}
		p.seat(s, x.Tier)
		p.standings = append(p.standings, s)
	}
	if p.find(features.OverflowClass) != nil {
		own++
	}
	if own != len(p.classes) {
		return fmt.Errorf("forecaster state of %s has series of %d classes, and %d that stand for some", p.name, len(p.classes), own)
	}
	return nil
}

// fits says whether a span that was read has the lengths that this program gives it.
func (s *span) fits(settle int) bool {
	return len(s.At) == 0 && len(s.Value) == 0 || len(s.At) == settle+2 && len(s.Value) == (settle+2)*len(dimensions)
}
