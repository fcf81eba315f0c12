package sketch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// quantileFormat is the first byte of an encoded Quantile.
const quantileFormat = 2

// MarshalBinary encodes the sketch; sketches of the same values give equal bytes. The form is: format byte, sum as IEEE
// 754 bits, number of bins, then for each bin in ascending order its distance from the one before (the first: from 0)
// and its count. Integers are unsigned varints. It never fails.
func (s *Quantile) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// AppendBinary is MarshalBinary onto b.
func (s *Quantile) AppendBinary(b []byte) ([]byte, error) {
	if s.Count() > 0 {
		b = slices.Grow(b, 16+3*len(s.list))
	}
	b = append(b, quantileFormat)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.Sum()))
	if s.Count() == 0 {
		return append(b, 0), nil
	}
	start := len(b)
	b = append(b, 0, 0) // space for the number of bins, a varint of at most two bytes
	n, last := 0, 0
	s.each(func(bin int, count uint32) {
		b = binary.AppendUvarint(b, uint64(bin-last))
		b = binary.AppendUvarint(b, uint64(count))
		last = bin
		n++
	})
	used := binary.PutUvarint(b[start:start+2], uint64(n))
	return slices.Delete(b, start+used, start+2), nil
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
	sum := r.float()
	n := r.next()
	if r.short || n > maxBin+1 || !(sum >= 0) || math.IsInf(sum, 1) || n == 0 && sum != 0 {
		return errors.New("truncated, or a number of bins or a sum out of range")
	}
	bin := uint64(0)
	for i := range n {
		step, count := r.next(), r.next()
		if r.short || count == 0 || count > math.MaxUint32 || i > 0 && step == 0 || step > maxBin-bin {
			return fmt.Errorf("bin %d of %d is truncated or out of range", i, n)
		}
		bin += step
		s.restore(uint16(bin), uint32(count))
	}
	if len(r.rest) > 0 {
		return fmt.Errorf("%d bytes too many", len(r.rest))
	}
	s.sum = sum
	return nil
}

// restore counts a bin n times. The form in memory is the same as after n single values.
func (s *Quantile) restore(bin uint16, n uint32) {
	for ; n > 0 && len(s.dense) == 0; n-- {
		s.add(bin, 1)
	}
	if n > 0 {
		s.add(bin, n)
	}
}

// Equal reports whether two sketches have the same bytes; nil equals empty.
func (s *Quantile) Equal(o *Quantile) bool {
	a, _ := s.MarshalBinary()
	b, _ := o.MarshalBinary()
	return bytes.Equal(a, b)
}

// uvarints reads from rest; short is set when it ends too early.
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
