package ingest

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Deduper remembers which records were seen, by pool, id, attempt and phase, in at most a given number of entries: two
// generations of half of them each, of which the older is forgotten when the newer is full. So the latest capacity/2
// records are always remembered, and none older than capacity.
//
// Entries are 64-bit hashes with a fixed seed: a fresh record is taken for a duplicate with probability n/2⁶⁴ for n
// remembered ones, 5·10⁻¹⁴ for a million. About 20 bytes an entry; O(length of the id) a call.
type Deduper struct {
	half              int
	current, previous map[uint64]struct{}
	forgotten         uint64
	key               []byte
}

// NewDeduper makes a Deduper of at most capacity entries, at least two.
func NewDeduper(capacity int) *Deduper {
	return &Deduper{half: max(1, capacity/2), current: map[uint64]struct{}{}}
}

// Seen says whether this record was seen before, and remembers it. A record without an id is never a duplicate.
func (d *Deduper) Seen(pool, id string, attempt int, phase Phase) bool {
	if id == "" {
		return false
	}
	h := d.hash(pool, id, attempt, phase)
	if _, ok := d.current[h]; ok {
		return true
	}
	if _, ok := d.previous[h]; ok {
		return true
	}
	if len(d.current) >= d.half {
		d.forgotten += uint64(len(d.previous))
		d.previous, d.current = d.current, make(map[uint64]struct{}, d.half)
	}
	d.current[h] = struct{}{}
	return false
}

// hash frames each part by its length, so that no two records share their bytes.
func (d *Deduper) hash(pool, id string, attempt int, phase Phase) uint64 {
	key := binary.AppendUvarint(d.key[:0], uint64(len(pool)))
	key = append(key, pool...)
	key = binary.AppendUvarint(key, uint64(len(id)))
	key = append(key, id...)
	key = binary.AppendVarint(key, int64(attempt))
	key = append(key, byte(phase))
	d.key = key
	return xxhash.Sum64(key)
}

// Len is the number of records remembered.
func (d *Deduper) Len() int { return len(d.current) + len(d.previous) }

// Forgotten counts the records that had to be forgotten to stay within the capacity.
func (d *Deduper) Forgotten() uint64 { return d.forgotten }

// DeduperState is a Deduper as it is kept in a snapshot. Both generations are sorted, so that equal sets have equal bytes.
type DeduperState struct {
	Half              int
	Current, Previous []uint64
	Forgotten         uint64
}

// State copies what d remembers. O(n log n).
func (d *Deduper) State() DeduperState {
	return DeduperState{
		Half: d.half, Forgotten: d.forgotten,
		Current: slices.Sorted(maps.Keys(d.current)), Previous: slices.Sorted(maps.Keys(d.previous)),
	}
}

// RestoreDeduper makes the Deduper that s was taken from.
func RestoreDeduper(s DeduperState) *Deduper {
	return &Deduper{half: max(1, s.Half), current: setOf(s.Current), previous: setOf(s.Previous), forgotten: s.Forgotten}
}

func setOf(hashes []uint64) map[uint64]struct{} {
	set := make(map[uint64]struct{}, len(hashes))
	for _, h := range hashes {
		set[h] = struct{}{}
	}
	return set
}
