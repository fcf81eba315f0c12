package sketch

import "math"

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
	maxBin        = (20+37)<<binBits + 1   // the bin of MaxValue
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
// adds no error. The zero value is empty and ready for use. Methods that read treat nil as empty.
//
// Add costs O(1), a few nanoseconds. Memory is two bytes a value, or four bytes for each bin between the smallest and
// the largest if that is less: 256 bytes for each factor of two, at most 15 KiB. A bin counts up to 2³²−1 and stays
// there.
type Quantile struct {
	sum       float64
	count     uint64
	list      []uint16 // bins of the values, while that takes less memory than dense
	dense     []uint32 // counts of the bins low..low+len(dense)−1
	low, high uint16   // first and last bin of the octaves in use
}

// Add counts one value. It ignores NaN and negative values.
func (s *Quantile) Add(v float64) {
	if !(v >= 0) {
		return
	}
	v = min(v, MaxValue)
	s.sum += v
	s.add(binOf(v), 1)
}

// Merge adds the values of o.
func (s *Quantile) Merge(o *Quantile) {
	if o.Count() == 0 {
		return
	}
	s.sum += o.sum
	for _, bin := range o.list {
		s.add(bin, 1)
	}
	for i, n := range o.dense {
		if n > 0 {
			s.add(o.low+uint16(i), n)
		}
	}
}

// Quantile is the value at rank q·(n−1), for q in 0..1; NaN when the sketch is empty or q is outside. O(values) for few
// values, then O(bins).
func (s *Quantile) Quantile(q float64) float64 {
	if s.Count() == 0 || !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	rank, value, found := uint64(q*float64(s.count-1)), 0.0, false
	s.each(func(bin int, n uint32) {
		if found {
			return
		}
		value, found = valueOf(bin), rank < uint64(n)
		rank -= uint64(n)
	})
	return value
}

// Count is the number of values.
func (s *Quantile) Count() float64 {
	if s == nil {
		return 0
	}
	return float64(s.count)
}

// Sum is the sum of the values, exact up to rounding.
func (s *Quantile) Sum() float64 {
	if s == nil {
		return 0
	}
	return s.sum
}

// Mean is Sum over Count; NaN when the sketch is empty.
func (s *Quantile) Mean() float64 { return s.Sum() / s.Count() }
