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
// remembered ones, 5·10⁻¹⁴ for a million. 18 to 38 bytes an entry, taken as they come and used again from then on;
// O(length of the id) a call.
type Deduper struct {
	half              int
	current, previous map[uint64]struct{}
	forgotten         uint64
	key               []byte
}

// NewDeduper makes a Deduper of at most capacity entries, at least two.
func NewDeduper(capacity int) *Deduper {
	return &Deduper{half: max(1, capacity/2), current: map[uint64]struct{}{}, previous: map[uint64]struct{}{}}
}

// Seen says whether this record was seen before, and remembers it. A record without an id is never a duplicate.
func (d *Deduper) Seen(pool, id string, attempt int, phase Phase) bool {
	return d.seen(d.hash(pool, id, attempt, phase))
}

// hash identifies a record; 0 when it has no id.
func (d *Deduper) hash(pool, id string, attempt int, phase Phase) (h uint64) {
	h, d.key = hashRecord(d.key, pool, id, attempt, phase)
	return h
}

func (d *Deduper) seen(h uint64) bool {
	if h == 0 {
		return false
	}
	if d.known(h) {
		return true
	}
	if len(d.current) >= d.half {
		d.forgotten += uint64(len(d.previous))
		d.previous, d.current = d.current, d.previous
		clear(d.current)
	}
	d.current[h] = struct{}{}
	return false
}

func (d *Deduper) known(h uint64) bool {
	_, now := d.current[h]
	_, before := d.previous[h]
	return now || before
}

// Known says whether this record was seen before, and remembers nothing.
func (d *Deduper) Known(pool, id string, attempt int, phase Phase) bool {
	if id == "" {
		return false
	}
	return d.known(d.hash(pool, id, attempt, phase))
}

// hashRecord frames each part by its length, so that no two records share their bytes. It gives key back for the next.
func hashRecord(key []byte, pool, id string, attempt int, phase Phase) (uint64, []byte) {
	if id == "" {
		return 0, key
	}
	key = binary.AppendUvarint(key[:0], uint64(len(pool)))
	key = append(key, pool...)
	key = binary.AppendUvarint(key, uint64(len(id)))
	key = append(key, id...)
	key = binary.AppendVarint(key, int64(attempt))
	key = append(key, byte(phase))
	return max(1, xxhash.Sum64(key)), key
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
	return DeduperState{Half: d.half, Forgotten: d.forgotten, Current: slices.Sorted(maps.Keys(d.current)), Previous: slices.Sorted(maps.Keys(d.previous))}
}

// RestoreDeduper makes the Deduper that s was taken from.
func RestoreDeduper(s DeduperState) *Deduper {
	d := NewDeduper(2)
	d.half, d.forgotten = max(1, s.Half), s.Forgotten
	for _, h := range s.Current {
		d.current[h] = struct{}{}
	}
	for _, h := range s.Previous {
		d.previous[h] = struct{}{}
	}
	return d
}
