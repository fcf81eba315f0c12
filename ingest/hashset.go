package ingest

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// hashSet is a set of 64-bit hashes other than 0, in a table of open addresses with linear probing that is at most three
// quarters full. Where an entry lies follows from a secret (multiplicative hashing: Knuth, The Art of Computer
// Programming 3, section 6.4), so that nobody can choose ids that all probe the same slots; what the set answers does not
// depend on it. The zero value lacks a secret. Expected O(1) an operation, 11 to 22 bytes an entry once there are many.
type hashSet struct {
	slots  []uint64 // a power of two of them; 0 is free
	used   int
	shift  int // 64 - log₂ len(slots)
	secret uint64
}

// hashSlotsAtFirst is the size of a table that is not empty.
const hashSlotsAtFirst = 1 << 10

// newSecret draws an odd number.
func newSecret() uint64 { return maphash.Comparable(maphash.MakeSeed(), 0) | 1 }

func (s *hashSet) has(h uint64) bool {
	if len(s.slots) == 0 {
		return false
	}
	return s.slots[s.find(h)] == h
}

// find gives the slot of h, or the free one where it would go. There must be a free slot.
func (s *hashSet) find(h uint64) int {
	mask := len(s.slots) - 1
	at := int(h * s.secret >> s.shift)
	for s.slots[at&mask] != h && s.slots[at&mask] != 0 {
		at++
	}
	return at & mask
}

// add says whether h was not there yet.
func (s *hashSet) add(h uint64) bool {
	if 4*s.used >= 3*len(s.slots) {
		s.resize(max(hashSlotsAtFirst, 2*len(s.slots)))
	}
	at := s.find(h)
	if s.slots[at] == h {
		return false
	}
	s.slots[at] = h
	s.used++
	return true
}

// addAll adds many at once.
func (s *hashSet) addAll(hashes []uint64) {
	if want := 4*len(hashes)/3 + 1; want > len(s.slots) {
		s.resize(max(hashSlotsAtFirst, 1<<bits.Len(uint(want-1))))
	}
	for _, h := range hashes {
		s.add(max(1, h))
	}
}

func (s *hashSet) resize(slots int) {
	old := s.slots
	s.slots, s.shift = make([]uint64, slots), 65-bits.Len(uint(slots))
	for _, h := range old {
		if h != 0 {
			s.slots[s.find(h)] = h
		}
	}
}

// clear empties the set; its memory stays.
func (s *hashSet) clear() {
	clear(s.slots)
	s.used = 0
}

// frozen is a copy to be listed.
func (s *hashSet) frozen() hashSet { return hashSet{slots: slices.Clone(s.slots), used: s.used} }

func (s *hashSet) sorted() []uint64 {
	all := make([]uint64, 0, s.used)
	for _, h := range s.slots {
		if h != 0 {
			all = append(all, h)
		}
	}
	slices.Sort(all)
	return all
}
