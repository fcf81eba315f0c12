package model

import "math"

// A non-negative value in 16 bits: 6 bits of exponent and 10 of mantissa. The rounding error is at most one part in 2,048
// (0.05 %) between 2⁻²⁴ and 2³⁹. Smaller values round to zero or 2⁻²⁴, larger ones become the largest. All bits set: not
// known. Codes have the order of values.
const (
	compactDrop = 13 // dropped bits of a float32's mantissa
	compactBias = (127 - 25) << 10
	compactMost = 0xfffe
	compactNaN  = 0xffff
)

// compact is the code of y, rounded to nearest, ties to even.
func compact(y float32) uint16 {
	if math.IsNaN(float64(y)) {
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
