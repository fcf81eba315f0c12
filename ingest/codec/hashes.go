package codec

import (
	"math"

	"github.com/buger/jsonparser"

	"github.com/forewarm/forewarm/ingest"
)

// hashes reads at most most unsigned 64-bit numbers of an array. They never pass through a float64, and
// may stand in quotes, as writers do that know of readers that would.
func (d *decoder) hashes(v value, most int64) []uint64 {
	if v.typ != jsonparser.Array {
		d.wrongType(v, "an array of hashes")
		return nil
	}
	blocks := make([]uint64, 0, min(most, int64(len(v.raw)/2))) // a digit and a comma each, at least
	for at := 1; int64(len(blocks)) < most; {                   // past the bracket
		for at < len(v.raw) && !isDigit(v.raw[at]) {
			switch v.raw[at] {
			case ',', '"', ']', ' ', '\t', '\r', '\n':
				at++
			default:
				d.fail(ingest.ReasonWrongType, "%s holds what is no unsigned integer", v.key)
				return nil
			}
		}
		if at >= len(v.raw) {
			break
		}
		hash, digits, ok := leadingUint(v.raw[at:])
		if !ok {
			d.fail(ingest.ReasonHugeCount, "%s holds a number beyond 64 bits", v.key)
			return nil
		}
		blocks = append(blocks, hash)
		at += digits
	}
	return blocks
}

// leadingUint parses the digits that b begins with, and counts them; ok is false when the number has more than 64 bits.
func leadingUint(b []byte) (n uint64, digits int, ok bool) {
	for digits < min(len(b), 19) && isDigit(b[digits]) { // nineteen always fit
		n = n*10 + uint64(b[digits]-'0')
		digits++
	}
	for digits < len(b) && isDigit(b[digits]) {
		digit := uint64(b[digits] - '0')
		if n > (math.MaxUint64-digit)/10 {
			return 0, digits, false
		}
		n = n*10 + digit
		digits++
	}
	return n, digits, true
}
