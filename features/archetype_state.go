package features

import (
	"errors"
	"math"
	"slices"
)

// ArchetypesState is an Archetypes at rest. Equal ones have equal states.
type ArchetypesState struct {
	Unit    float64     `cbor:"1,keyasint"`
	Total   float64     `cbor:"2,keyasint"`
	Cells   []uint16    `cbor:"3,keyasint"` // of the grid, ascending, where something was seen
	Seen    []float64   `cbor:"4,keyasint"` // in them
	Live    []Archetype `cbor:"5,keyasint"`
	Retired []Archetype `cbor:"6,keyasint"`
	Next    int         `cbor:"7,keyasint"`
	ByBoth  []byte      `cbor:"8,keyasint"`
	ByFirst []byte      `cbor:"9,keyasint"`
	Drawn   float64     `cbor:"10,keyasint"`
	Minutes int         `cbor:"11,keyasint"`
}

// State is a copy of what was learned.
func (a *Archetypes) State() *ArchetypesState {
	s := &ArchetypesState{
		Unit: a.unit, Total: a.total, Live: slices.Clone(a.live), Retired: slices.Clone(a.retired), Next: a.next,
		ByBoth: slices.Clone(a.byBoth[:]), ByFirst: slices.Clone(a.byFirst[:]), Drawn: a.drawn, Minutes: a.minutes,
	}
	for cell, v := range a.seen {
		if v > 0 {
			s.Cells, s.Seen = append(s.Cells, uint16(cell)), append(s.Seen, v)
		}
	}
	return s
}

// RestoreArchetypes goes on from a state. With fewer archetypes than there are now, the next drawing takes some away.
func RestoreArchetypes(most int, s *ArchetypesState) (*Archetypes, error) {
	a := NewArchetypes(most)
	if len(s.Cells) != len(s.Seen) || len(s.ByBoth) != gridCells || len(s.ByFirst) != promptBins ||
		len(s.Live) == 0 || len(s.Live) > MaxArchetypes || len(s.Retired) > maxRetired || !(s.Unit > 0) || s.Unit > 1 {
		return nil, errors.New("restore archetypes: a part is missing or too long")
	}
	for i, cell := range s.Cells {
		if int(cell) >= gridCells || !(s.Seen[i] > 0) || math.IsInf(s.Seen[i], 1) {
			return nil, errors.New("restore archetypes: a cell is out of range")
		}
		a.seen[cell] = s.Seen[i]
	}
	if int(max(slices.Max(s.ByBoth), slices.Max(s.ByFirst))) >= len(s.Live) {
		return nil, errors.New("restore archetypes: a border is that of no archetype")
	}
	copy(a.byBoth[:], s.ByBoth)
	copy(a.byFirst[:], s.ByFirst)
	a.unit, a.total, a.drawn, a.minutes = s.Unit, s.Total, s.Drawn, s.Minutes
	a.live, a.retired, a.next = slices.Clone(s.Live), slices.Clone(s.Retired), s.Next
	return a, nil
}
