// Package sketch has small summaries for windows: quantile sketches and heavy hitters. It is pure maths: no clock, no
// I/O.
//
// Invariants: merging the quantile sketches of two parts equals summarising the whole. Bounds: each type states its
// largest size. Exported fields are the state for snapshots.
package sketch

import (
	"math"
	"slices"
)

// The range and the precision of [Quantile].
const (
	MinValue = 0x1p-20 // about 10⁻⁶; smaller values count as zero
	MaxValue = 0x1p37  // about 10¹¹; larger values count as MaxValue

	// RelativeAccuracy bounds |estimate − value| / value for values in MinValue..MaxValue.
	RelativeAccuracy = 1.0 / (2*binsPerOctave + 1)
)

// Bin 0 counts zeros. The other bins divide every octave of MinValue..MaxValue into 2⁶ equal parts. So the bin of a
// value is the leading bits of its IEEE 754 form (the linearly interpolated mapping of DDSketch), the same on every
// machine.
const (
	binsPerOctave = 1 << binBits
	binBits       = 6
	binShift      = 52 - binBits
	binBase       = (1023-20)<<binBits - 1 // leading bits of MinValue, less one
)

// binOf is the bin of a value in 0..MaxValue.
func binOf(v float64) uint16 {
	if v < MinValue {
		return 0
	}
	return uint16(math.Float64bits(v)>>binShift - binBase)
}

// valueOf is the harmonic mean of a bin's ends. Its relative distance from both ends is equal.
func valueOf(bin int) float64 {
	if bin == 0 {
		return 0
	}
	low := math.Float64frombits(uint64(bin+binBase) << binShift)
	high := math.Float64frombits(uint64(bin+1+binBase) << binShift)
	return 2 * low * high / (low + high)
}

// Quantile is a mergeable quantile sketch of non-negative values. Its quantiles are within [RelativeAccuracy], less
// than 1 %, of the true ones (Masson, Rim and Lee 2019, DDSketch, section 2, doi:10.14778/3352063.3352135). Merging
// adds no error. The zero value is empty and ready for use. The fields are for snapshots.
//
// Add costs O(1), a few nanoseconds. Memory is two bytes a value, or four bytes for each bin between the smallest and
// the largest if that is less: 256 bytes for each factor of two, at most 15 KiB.
type Quantile struct {
	Total float64  `cbor:"1,keyasint"`           // sum of the values
	N     uint64   `cbor:"2,keyasint"`           // number of values
	List  []uint16 `cbor:"3,keyasint,omitempty"` // bins of the values, while that takes less memory than Dense
	Dense []uint32 `cbor:"4,keyasint,omitempty"` // counts of the bins Low..Low+len(Dense)−1
	Low   uint16   `cbor:"5,keyasint"`           // first and last bin of the octaves in use
	High  uint16   `cbor:"6,keyasint"`
}

// Add counts one value. It ignores NaN and negative values.
func (s *Quantile) Add(v float64) {
	if !(v >= 0) {
		return
	}
	v = min(v, MaxValue)
	s.Total += v
	s.add(binOf(v), 1)
}

// Merge adds the values of o.
func (s *Quantile) Merge(o *Quantile) {
	if o.Count() == 0 {
		return
	}
	s.Total += o.Total
	for _, bin := range o.List {
		s.add(bin, 1)
	}
	for i, n := range o.Dense {
		if n > 0 {
			s.add(o.Low+uint16(i), n)
		}
	}
}

// Quantile is the value at rank q·(n−1), for q in 0..1; NaN when the sketch is empty or q is outside. O(values) for few
// values, then O(bins).
func (s *Quantile) Quantile(q float64) float64 {
	if s.Count() == 0 || !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	rank := uint64(q * float64(s.N-1))
	if rank < uint64(len(s.List)) {
		var few [64]uint16 // short lists are sorted on the stack
		list := append(few[:0], s.List...)
		slices.Sort(list)
		return valueOf(int(list[rank]))
	}
	for i, n := range s.Dense {
		if rank < uint64(n) {
			return valueOf(int(s.Low) + i)
		}
		rank -= uint64(n)
	}
	return valueOf(int(s.High))
}

// Count is the number of values.
func (s *Quantile) Count() float64 { return float64(s.N) }

// Mean is the mean of the values, exact up to rounding; NaN when the sketch is empty.
func (s *Quantile) Mean() float64 { return s.Total / s.Count() }

// add counts a bin n times, n > 0.
func (s *Quantile) add(bin uint16, n uint32) {
	s.N += uint64(n)
	if i := int(bin) - int(s.Low); uint(i) < uint(len(s.Dense)) {
		s.Dense[i] += n
		return
	}
	if s.N == uint64(n) {
		s.Low, s.High = bin, bin
	}
	// The range grows by whole octaves, so that it is rarely copied.
	low, high := min(s.Low, bin)&^(binsPerOctave-1), max(s.High, bin)|(binsPerOctave-1)
	span := int(high) - int(low) + 1
	// A count takes four bytes, a listed value two: list values while that takes less memory.
	if len(s.Dense) == 0 && n == 1 && len(s.List) < 2*span {
		s.List = append(s.List, bin)
		s.Low, s.High = low, high
		return
	}
	s.spread(low, span)
	s.Dense[bin-s.Low] += n
}

// spread moves all counts into an array of span bins from low. These include the bins in use.
func (s *Quantile) spread(low uint16, span int) {
	dense := make([]uint32, span)
	copy(dense[s.Low-low:], s.Dense)
	for _, bin := range s.List {
		dense[bin-low]++
	}
	s.Dense, s.List = dense, nil
	s.Low, s.High = low, low+uint16(span-1)
}
