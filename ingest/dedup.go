package ingest

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Deduper remembers seen records by pool, id, attempt and phase. It has two generations of half its capacity. When the
// newer one is full, the older one is dropped. So it always has the latest capacity/2 records.
//
// Entries are 64-bit hashes with a fixed seed. A new record counts as a duplicate with probability n/2⁶⁴ for n entries,
// 5·10⁻¹⁴ for a million. An entry takes 10 to 20 bytes, allocated at once, so that no record waits while a map grows.
// O(length of the id) a call.
type Deduper struct {
	Forgotten uint64 // records that were dropped to stay within the capacity

	half              int
	current, previous map[entry]struct{}
}

// entry is the bytes of a hash. A map of uint64 takes 16 bytes for each, because Go aligns what follows a key.
type entry [8]byte

// NewDeduper makes a Deduper of at most capacity entries, at least two.
func NewDeduper(capacity int) *Deduper {
	half := max(1, capacity/2)
	return &Deduper{half: half, current: make(map[entry]struct{}, half), previous: make(map[entry]struct{}, half)}
}

// Seen reports whether this record was seen before, and remembers it. A record without an id is never a duplicate.
func (d *Deduper) Seen(pool, id string, attempt int, phase Phase) bool {
	if id == "" {
		return false
	}
	e := entryOf(pool, id, attempt, phase)
	if _, known := d.previous[e]; known {
		return true
	}
	before := len(d.current)
	if d.current[e] = struct{}{}; len(d.current) == before {
		return true
	}
	if len(d.current) >= d.half {
		d.Forgotten += uint64(len(d.previous))
		d.previous, d.current = d.current, d.previous
		clear(d.current)
	}
	return false
}

// Known reports whether this record was seen before, without remembering it.
func (d *Deduper) Known(pool, id string, attempt int, phase Phase) bool {
	e := entryOf(pool, id, attempt, phase)
	_, now := d.current[e]
	_, before := d.previous[e]
	return now || before
}

// entryOf hashes pool and id. The sum differs for each attempt and phase of a request.
func entryOf(pool, id string, attempt int, phase Phase) entry {
	h := xxhash.Sum64String(id) + bits.RotateLeft64(xxhash.Sum64String(pool), 1)
	return entryOfHash(h + uint64(attempt)<<8 + uint64(phase))
}

func entryOfHash(h uint64) (e entry) {
	binary.LittleEndian.PutUint64(e[:], h)
	return e
}

// DeduperState is the saved state of a Deduper. Both generations are sorted, so that equal sets have equal bytes.
type DeduperState struct {
	Current, Previous []uint64
	Forgotten         uint64
}

// State copies the entries of d. O(n log n).
func (d *Deduper) State() DeduperState {
	return DeduperState{
		Current:   sorted(d.current),
		Previous:  sorted(d.previous),
		Forgotten: d.Forgotten,
	}
}

func sorted(entries map[entry]struct{}) []uint64 {
	hashes := make([]uint64, 0, len(entries))
	for e := range entries {
		hashes = append(hashes, binary.LittleEndian.Uint64(e[:]))
	}
	slices.Sort(hashes)
	return hashes
}

// Restore adds a saved state to a new Deduper.
func (d *Deduper) Restore(s DeduperState) {
	d.Forgotten = s.Forgotten
	for _, h := range s.Current {
		d.current[entryOfHash(h)] = struct{}{}
	}
	for _, h := range s.Previous {
		d.previous[entryOfHash(h)] = struct{}{}
	}
}
