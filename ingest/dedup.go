package ingest

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Deduper remembers seen records by pool, id, attempt and phase. It has two generations of half its capacity. When the
// newer one is full, the older one is dropped. So it always has the latest capacity/2 records.
//
// Entries are 64-bit hashes with a fixed seed. A new record counts as a duplicate with probability n/2⁶⁴ for n entries,
// 5·10⁻¹⁴ for a million. An entry takes 18 to 38 bytes. The first generation is allocated at once, so that no record
// waits while it grows; from the third on they reuse memory. O(length of the id) a call.
type Deduper struct {
	Forgotten uint64 // records that were dropped to stay within the capacity

	half              int
	current, previous map[uint64]struct{}
	key               []byte
}

// NewDeduper makes a Deduper of at most capacity entries, at least two.
func NewDeduper(capacity int) *Deduper {
	return &Deduper{half: max(1, capacity/2), current: make(map[uint64]struct{}, capacity/2), previous: map[uint64]struct{}{}}
}

// Seen reports whether this record was seen before, and remembers it. A record without an id is never a duplicate.
func (d *Deduper) Seen(pool, id string, attempt int, phase Phase) bool {
	h := d.hash(pool, id, attempt, phase)
	if h == 0 {
		return false
	}
	if _, known := d.previous[h]; known {
		return true
	}
	before := len(d.current)
	if d.current[h] = struct{}{}; len(d.current) == before {
		return true
	}
	if len(d.current) == d.half {
		d.Forgotten += uint64(len(d.previous))
		d.previous, d.current = d.current, d.previous
		clear(d.current)
	}
	return false
}

// Known reports whether this record was seen before, without remembering it.
func (d *Deduper) Known(pool, id string, attempt int, phase Phase) bool {
	h := d.hash(pool, id, attempt, phase)
	_, now := d.current[h]
	_, before := d.previous[h]
	return now || before
}

// hash identifies a record; 0, which is no entry, when it has no id. It prefixes names with their lengths, so that
// records have different bytes.
func (d *Deduper) hash(pool, id string, attempt int, phase Phase) uint64 {
	if id == "" {
		return 0
	}
	d.key = binary.AppendUvarint(d.key[:0], uint64(len(pool)))
	d.key = append(d.key, pool...)
	d.key = binary.AppendUvarint(d.key, uint64(len(id)))
	d.key = append(d.key, id...)
	d.key = binary.AppendVarint(d.key, int64(attempt))
	d.key = append(d.key, byte(phase))
	return max(1, xxhash.Sum64(d.key))
}

// DeduperState is the saved state of a Deduper. Both generations are sorted, so that equal sets have equal bytes.
type DeduperState struct {
	Half              int
	Current, Previous []uint64
	Forgotten         uint64
}

// State copies the entries of d. O(n log n).
func (d *Deduper) State() DeduperState {
	return DeduperState{
		Half:      d.half,
		Current:   slices.Sorted(maps.Keys(d.current)),
		Previous:  slices.Sorted(maps.Keys(d.previous)),
		Forgotten: d.Forgotten,
	}
}

// RestoreDeduper makes a Deduper from its state.
func RestoreDeduper(s DeduperState) *Deduper {
	d := NewDeduper(2)
	d.half, d.Forgotten = max(1, s.Half), s.Forgotten
	for _, h := range s.Current {
		d.current[h] = struct{}{}
	}
	for _, h := range s.Previous {
		d.previous[h] = struct{}{}
	}
	return d
}
