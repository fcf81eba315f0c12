package sketch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// quantileFormat is the first byte of an encoded Quantile.
const quantileFormat = 1

// maxCount is the largest number of values up to which counts are exact.
const maxCount = 1 << 53

// The bins that values in MinValue..MaxValue fall into.
var minBin, maxBin = buckets.Index(MinValue), buckets.Index(MaxValue)

// MarshalBinary encodes the sketch; equal sketches give equal bytes. The form is: format byte, count of zeros, sum as
// IEEE 754 bits, number of bins, then for each bin in ascending order its distance from the one before (the first: from
// the lowest bin there is) and its count. Integers are unsigned varints. It never fails.
func (s *Quantile) MarshalBinary() ([]byte, error) {
	b := []byte{quantileFormat}
	if s.Count() == 0 {
		return append(b, make([]byte, 10)...), nil
	}
	b = binary.AppendUvarint(b, uint64(s.dd.GetZeroCount()))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.sum))
	bins, n, last := []byte(nil), uint64(0), minBin
	s.dd.GetPositiveValueStore().ForEach(func(index int, count float64) bool {
		bins = binary.AppendUvarint(bins, uint64(index-last))
		bins = binary.AppendUvarint(bins, uint64(count))
		n, last = n+1, index
		return false
	})
	return append(binary.AppendUvarint(b, n), bins...), nil
}

// UnmarshalBinary replaces the sketch by the encoded one. On an error the sketch is empty.
func (s *Quantile) UnmarshalBinary(data []byte) error {
	*s = Quantile{}
	if err := s.decode(data); err != nil {
		*s = Quantile{}
		return fmt.Errorf("quantile sketch: %w", err)
	}
	return nil
}

func (s *Quantile) decode(data []byte) error {
	if len(data) == 0 || data[0] != quantileFormat {
		return fmt.Errorf("the first byte must be %d, the only known format", quantileFormat)
	}
	r := uvarints{rest: data[1:]}
	zeros := r.next()
	sum := r.float()
	n := r.next()
	if r.short || zeros > maxCount || n > uint64(maxBin-minBin+1) || !(sum >= 0) || math.IsInf(sum, 1) {
		return errors.New("truncated, or a count or sum out of range")
	}
	if zeros > 0 {
		s.add(0, zeros)
	}
	total, index := zeros, minBin
	for i := range n {
		step, count := r.next(), r.next()
		total += min(count, maxCount)
		switch {
		case r.short, count == 0, total > maxCount, i > 0 && step == 0, step > uint64(maxBin-index):
			return fmt.Errorf("bin %d of %d is truncated or out of range", i, n)
		}
		index += int(step)
		s.sketch().GetPositiveValueStore().AddWithCount(index, float64(count))
	}
	if len(r.rest) > 0 {
		return fmt.Errorf("%d bytes too many", len(r.rest))
	}
	if total == 0 && sum != 0 {
		return errors.New("a sum without values")
	}
	s.sum = sum
	return nil
}

// Equal says that two sketches have the same bytes; nil equals empty.
func (s *Quantile) Equal(o *Quantile) bool {
	a, _ := s.MarshalBinary()
	b, _ := o.MarshalBinary()
	return bytes.Equal(a, b)
}

// uvarints reads from rest until it runs short.
type uvarints struct {
	rest  []byte
	short bool
}

func (u *uvarints) next() uint64 {
	v, n := binary.Uvarint(u.rest)
	if n <= 0 {
		u.short, u.rest = true, nil
		return 0
	}
	u.rest = u.rest[n:]
	return v
}

func (u *uvarints) float() float64 {
	if len(u.rest) < 8 {
		u.short, u.rest = true, nil
		return 0
	}
	v := binary.LittleEndian.Uint64(u.rest)
	u.rest = u.rest[8:]
	return math.Float64frombits(v)
}
