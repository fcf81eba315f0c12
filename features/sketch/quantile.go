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
// Add costs a few nanoseconds, and O(bins) for every 64th value. Memory is two bytes for each of the newest values, and
// six for each bin in use, at most 22 KiB. A bin counts up to 2³²−1 and stays there.
type Quantile struct {
	Total  float64  `cbor:"1,keyasint"`           // sum of the values
	N      uint64   `cbor:"2,keyasint"`           // number of values
	Recent []uint16 `cbor:"3,keyasint,omitempty"` // bins of the newest values: adding one touches little memory
	Bins   []uint16 `cbor:"4,keyasint,omitempty"` // of the other values, ascending
	Counts []uint32 `cbor:"5,keyasint,omitempty"` // of Bins
}

// maxRecent is the largest number of recent values.
const maxRecent = 64

// Add counts one value. It ignores NaN and negative values.
func (s *Quantile) Add(v float64) {
	if !(v >= 0) {
		return
	}
	v = min(v, MaxValue)
	s.Total, s.N = s.Total+v, s.N+1
	if s.Recent = append(s.Recent, binOf(v)); len(s.Recent) == maxRecent {
		s.count(s.Recent)
		s.Recent = s.Recent[:0]
	}
}

// Merge adds the values of o.
func (s *Quantile) Merge(o *Quantile) {
	if o.Count() == 0 {
		return
	}
	s.Total, s.N = s.Total+o.Total, s.N+o.N
	for i, bin := range o.Bins {
		s.add(bin, o.Counts[i])
	}
	s.count(o.Recent)
}

// count adds one value to each of some bins.
func (s *Quantile) count(bins []uint16) {
	for _, bin := range bins {
		s.add(bin, 1)
	}
}

// add counts a bin n times.
func (s *Quantile) add(bin uint16, n uint32) {
	i, ok := slices.BinarySearch(s.Bins, bin)
	if !ok {
		s.Bins, s.Counts = slices.Insert(s.Bins, i, bin), slices.Insert(s.Counts, i, 0)
	}
	s.Counts[i] += min(n, math.MaxUint32-s.Counts[i])
}

// Quantile is the value at rank q·(n−1), for q in 0..1; NaN when the sketch is empty or q is outside. O(bins).
func (s *Quantile) Quantile(q float64) float64 {
	if s.Count() == 0 || !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	var all Quantile // with the recent values in their bins
	all.Merge(s)
	rank, i := uint64(q*float64(s.N-1)), 0
	for last := len(all.Bins) - 1; i < last && rank >= uint64(all.Counts[i]); i++ {
		rank -= uint64(all.Counts[i])
	}
	return valueOf(int(all.Bins[i]))
}

// Count is the number of values.
func (s *Quantile) Count() float64 {
	return float64(s.N)
}

// Sum is the sum of the values, exact up to rounding.
func (s *Quantile) Sum() float64 {
	return s.Total
}

// Mean is Sum over Count; NaN when the sketch is empty.
func (s *Quantile) Mean() float64 { return s.Sum() / s.Count() }
