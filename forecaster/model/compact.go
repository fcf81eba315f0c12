package model

import (
	"encoding/binary"
	"math"
)

// A value that is not negative in 16 bits: 6 bits of exponent and 10 of mantissa, so that rounding changes it by at most
// one part in 2,048 (0.05 %) between 2⁻²⁴ and 2³⁹. Smaller values are zero from half of that on, larger ones are taken
// for the largest. All bits set: not known. The order of codes is the order of values.
const (
	compactDrop  = 13 // bits of a float32's mantissa that are left out
	compactBias  = (127 - 25) << 10
	compactMost  = 0xfffe
	compactNaN   = 0xffff
	compactBytes = 2
)

// compact is the code of y, rounded to the nearest, to the even one of two.
func compact(y float32) uint16 {
	if isNaN(y) {
		return compactNaN
	}
	bits := math.Float32bits(max(y, 0))
	bits += 1<<(compactDrop-1) - 1 + bits>>compactDrop&1
	code := int32(bits>>compactDrop) - compactBias
	return uint16(min(max(code, 0), compactMost))
}

// expand is the value of a code.
func expand(code uint16) float32 {
	switch code {
	case 0:
		return 0
	case compactNaN:
		return nan32
	}
	return math.Float32frombits((uint32(code) + compactBias) << compactDrop)
}

// compacts is a fixed number of values in 16 bits each, little-endian: bytes, so that they are as small in a snapshot.
type compacts []byte

func newCompacts(n int) compacts {
	c := make(compacts, n*compactBytes)
	for i := range c {
		c[i] = 0xff
	}
	return c
}

func (c compacts) at(i int64) float32 { return expand(binary.LittleEndian.Uint16(c[i*compactBytes:])) }

func (c compacts) set(i int64, y float32) {
	binary.LittleEndian.PutUint16(c[i*compactBytes:], compact(y))
}
