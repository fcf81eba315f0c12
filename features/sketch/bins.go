package sketch

import (
	"math"
	"slices"
)

// add counts a bin n times, n > 0.
func (s *Quantile) add(bin uint16, n uint32) {
	s.count += uint64(n)
	if i := int(bin) - int(s.low); uint(i) < uint(len(s.dense)) {
		s.dense[i] = saturating(s.dense[i], n)
		return
	}
	if s.count == uint64(n) {
		s.low, s.high = bin, bin
	}
	// The range grows by whole octaves, so that it is rarely copied.
	low, high := min(s.low, bin)&^(binsPerOctave-1), max(s.high, bin)|(binsPerOctave-1)
	span := int(high) - int(low) + 1
	// A count takes four bytes, a listed value two: list values while that takes less memory.
	if len(s.dense) == 0 && n == 1 && len(s.list) < 2*span {
		s.list = append(s.list, bin)
		s.low, s.high = low, high
		return
	}
	s.spread(low, span)
	s.dense[bin-s.low] = saturating(s.dense[bin-s.low], n)
}

// spread moves all counts into an array of span bins from low. These include the bins in use.
func (s *Quantile) spread(low uint16, span int) {
	used := s.dense
	if cap(s.dense) < span {
		s.dense = make([]uint32, span)
	}
	s.dense = s.dense[:span]
	at := copy(s.dense[s.low-low:], used) + int(s.low-low)
	clear(s.dense[:s.low-low])
	clear(s.dense[at:])
	for _, bin := range s.list {
		s.dense[bin-low]++
	}
	s.list = nil
	s.low, s.high = low, low+uint16(span-1)
}

func saturating(a, b uint32) uint32 {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxUint32
}

// each calls f for every bin in use, in ascending order.
func (s *Quantile) each(f func(bin int, count uint32)) {
	var few [64]uint16 // short lists are sorted on the stack
	list := append(few[:0], s.list...)
	slices.Sort(list)
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n] == list[0] {
			n++
		}
		f(int(list[0]), uint32(n))
		list = list[n:]
	}
	for i, n := range s.dense {
		if n > 0 {
			f(int(s.low)+i, n)
		}
	}
}
