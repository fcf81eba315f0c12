package ingest

import (
	"encoding/binary"
	"math/bits"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// texts makes strings of bytes that do not recur, hundreds to an allocation. A string stays valid for ever, and keeps the
// others of its chunk in memory as long as it is referenced.
type texts struct{ chunk strings.Builder }

// textChunk is what texts allocates at once, in bytes.
const textChunk = 16 << 10

func (t *texts) of(b []byte) string {
	if t.chunk.Cap()-t.chunk.Len() < len(b) {
		t.chunk = strings.Builder{}
		t.chunk.Grow(max(textChunk, len(b)))
	}
	start := t.chunk.Len()
	t.chunk.Write(b)
	return t.chunk.String()[start:]
}

// names makes strings of bytes that recur, as labels do: a string that was made lately is given again, which allocates
// nothing. It is a hash table with linear probing over at most nameProbes slots, where a name that finds no free one
// replaces another; so its cost is bounded whatever the names, and what it gives never depends on what was seen before.
//
// It grows with the names to nameSlots slots, 2 MiB and the names: some 40,000 of them are remembered together.
type names struct {
	slots []name
	used  int
}

// name is a string with what tells it from others at a glance. A short one is told by its first and last bytes and its
// length alone, so that its own bytes, which lie elsewhere in memory, need not be read.
type name struct {
	first, last uint64
	text        string // "" in a free slot
}

const (
	nameSlotsAtFirst = 1 << 8
	nameSlots        = 1 << 16 // powers of two
	nameProbes       = 16
	shortName        = 16
)

func (n *names) of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	first, last := nameEnds(b)
	h := hashName(first, last, len(b))
	mask := uint64(len(n.slots) - 1)
	for i := range uint64(min(nameProbes, len(n.slots))) {
		s := &n.slots[(h+i)&mask]
		if s.first == first && s.last == last && len(s.text) == len(b) && (len(b) <= shortName || s.text == string(b)) {
			return s.text
		}
		if s.text == "" {
			break
		}
	}
	if 2*n.used >= len(n.slots) && len(n.slots) < nameSlots {
		n.grow()
	}
	text := string(b)
	n.put(name{first, last, text})
	return text
}

// nameEnds are the first and the last bytes of a name, which are all of a short one; of a long one they are its hash.
func nameEnds(b []byte) (first, last uint64) {
	switch n := len(b); {
	case n > shortName:
		return xxhash.Sum64(b), 0
	case n >= 8:
		return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[n-4:]))
	default:
		return uint64(b[0])<<16 | uint64(b[n/2])<<8 | uint64(b[n-1]), 0
	}
}

// hashName mixes the ends of a name by one wide multiplication, as wyhash does. Collisions cost time, no more.
func hashName(first, last uint64, length int) uint64 {
	high, low := bits.Mul64(first^0x9e3779b97f4a7c15, last^0xbf58476d1ce4e5b9^uint64(length)<<56)
	h := (high ^ low) * 0x94d049bb133111eb
	return h ^ h>>32
}

// put takes the first free slot for s, or else the one of another name.
func (n *names) put(s name) {
	mask, h := uint64(len(n.slots)-1), hashName(s.first, s.last, len(s.text))
	for i := range uint64(nameProbes) {
		if slot := &n.slots[(h+i)&mask]; slot.text == "" {
			*slot = s
			n.used++
			return
		}
	}
	n.slots[(h+h>>40%nameProbes)&mask] = s
}

func (n *names) grow() {
	old := n.slots
	n.slots, n.used = make([]name, max(nameSlotsAtFirst, 2*len(old))), 0
	for _, s := range old {
		if s.text != "" {
			n.put(s)
		}
	}
}
