package ingest

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"
)

// These read values in the form that they usually have. Where ok is false, the scanner stands anywhere in the value.

// usualTime reads milliseconds or a date.
func (s *scanner) usualTime() (t time.Time, ok bool) {
	if s.next() != '"' {
		ms, ok := s.whole()
		return time.UnixMilli(ms).UTC(), ok
	}
	text, ok := s.plainText()
	if !ok {
		return t, false
	}
	return parseUsualRFC3339(text)
}

// plainText reads a string of printable ASCII without escapes.
func (s *scanner) plainText() (text []byte, ok bool) {
	if s.next() != '"' {
		return nil, false
	}
	text, plain, reason := s.text()
	return text, plain && reason == ""
}

// oneOf reads one of some names.
func (s *scanner) oneOf(names []string) (i int, ok bool) {
	text, ok := s.plainText()
	if ok {
		i = slices.Index(names, string(text))
	}
	return i, ok && i >= 0
}

// whole reads a number of at most 15 digits that is followed by a comma or a closing brace. The digits are read eight at
// a time.
func (s *scanner) whole() (n int64, ok bool) {
	if len(s.data)-s.at <= 16 {
		return s.shortWhole()
	}
	rest := s.data[s.at : s.at+17]
	first, count := digitsOf(binary.LittleEndian.Uint64(rest))
	n = eightDigits(first)
	if count == 8 {
		second, more := digitsOf(binary.LittleEndian.Uint64(rest[8:]))
		n = n*tens[more] + eightDigits(second)
		count += more
	}
	s.at += count
	return n, count > 0 && count < 16 && (rest[0] != '0' || count == 1) && ends(rest[count])
}

// shortWhole does it at the end of the data.
func (s *scanner) shortWhole() (n int64, ok bool) {
	start := s.at
	for ; isDigit(s.next()); s.at++ {
		n = n*10 + int64(s.data[s.at]-'0')
	}
	count := s.at - start
	return n, count > 0 && count < 16 && (s.data[start] != '0' || count == 1) && ends(s.next())
}

func ends(c byte) bool { return c == ',' || c == '}' }

var tens = [...]int64{1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000}

// digitsOf counts the digits at the start of eight bytes, and gives them as numbers, the last one in the highest byte and
// zeros before the first.
func digitsOf(w uint64) (digits uint64, count int) {
	w ^= '0' * eachByte
	count = bits.TrailingZeros64((w&^eachHigh+(0x80-10)*eachByte|w)&eachHigh) / 8
	return w << (64 - 8*count), count
}

// eightDigits is the number that eight digits make, the first one in the lowest byte: pairs, then pairs of pairs (D.
// Lemire, "Quickly parsing eight digits", 2018).
func eightDigits(w uint64) int64 {
	w = w*10 + w>>8
	w = ((w&0x000000ff000000ff)*(100+1_000_000<<32) + (w>>16&0x000000ff000000ff)*(1+10_000<<32)) >> 32
	return int64(w)
}

// hash reads a string of 16 hexadecimal digits.
func (s *scanner) hash() (hash uint64, ok bool) {
	const size = len(`"0123456789abcdef"`)
	if len(s.data)-s.at < size {
		return 0, false
	}
	text := s.data[s.at : s.at+size]
	bad := byte(0)
	for _, c := range text[1 : size-1] {
		nibble := nibbles[c]
		bad |= nibble
		hash = hash<<4 | uint64(nibble)
	}
	s.at += size
	return hash, bad < 16 && text[0] == '"' && text[size-1] == '"'
}

// nibbles are the values of hexadecimal digits, 16 of all else.
var nibbles = func() (all [256]byte) {
	for c := range all {
		if all[c] = 16; isHex(byte(c)) {
			all[c] = unhex(byte(c))
		}
	}
	return all
}()
