package codec

import (
	"encoding/binary"
	"math/bits"

	"github.com/forewarm/forewarm/ingest"
)

// scan checks that data is exactly one JSON text (RFC 8259) nested no deeper than maxDepth, and says what is wrong with
// it otherwise: [ReasonTruncated] when it ends too early, [ReasonTooDeep], or [ReasonNotJSON]; "" when it is sound. at is
// the offset of the fault. Values accept what [encoding/json.Valid] accepts; whether strings are valid UTF-8 is left to
// the caller. One pass, no allocation, O(len(data)); recursion is bounded by maxDepth.
//
// The extractor reads only documents that passed here, so it never has to guess at malformed input.
func scan(data []byte, maxDepth int) (reason ingest.Reason, at int) {
	s := scanner{data: data, depth: maxDepth}
	s.space()
	if reason := s.value(); reason != "" {
		return reason, s.at
	}
	s.space()
	if s.at < len(data) {
		return ingest.ReasonNotJSON, s.at
	}
	return "", s.at
}

type scanner struct {
	data  []byte
	at    int
	depth int  // how many more levels may open
	high  bool // a string has bytes above U+007E: whether they are UTF-8 is not known
}

// fault names what is wrong at the current position: running out of bytes is truncation, anything else is not JSON.
func (s *scanner) fault() ingest.Reason {
	if s.at >= len(s.data) {
		return ingest.ReasonTruncated
	}
	return ingest.ReasonNotJSON
}

// next gives the byte at the current position, or 0, which is legal nowhere outside a string, at the end.
func (s *scanner) next() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for s.at < len(s.data) && isSpace(s.data[s.at]) {
		s.at++
	}
}

func (s *scanner) value() ingest.Reason {
	switch c := s.next(); c {
	case '{':
		return s.container('}', true)
	case '[':
		return s.container(']', false)
	case '"':
		return s.str()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || isDigit(c) {
			return s.number()
		}
		return s.fault()
	}
}

// container scans an object (keyed) or an array, from its opening bracket to its closing one.
func (s *scanner) container(closing byte, keyed bool) ingest.Reason {
	if s.depth == 0 {
		return ingest.ReasonTooDeep
	}
	s.depth--
	s.at++
	s.space()
	if s.next() == closing {
		s.at++
		s.depth++
		return ""
	}
	for {
		if keyed {
			if s.next() != '"' {
				return s.fault()
			}
			if reason := s.str(); reason != "" {
				return reason
			}
			s.space()
			if s.next() != ':' {
				return s.fault()
			}
			s.at++
			s.space()
		}
		if reason := s.value(); reason != "" {
			return reason
		}
		s.space()
		switch s.next() {
		case ',':
			s.at++
			s.space()
		case closing:
			s.at++
			s.depth++
			return ""
		default:
			return s.fault()
		}
	}
}

// str scans a string, from its opening quote past its closing one.
func (s *scanner) str() ingest.Reason {
	for s.at++; ; {
		s.at = plainEnd(s.data, s.at)
		if s.at == len(s.data) {
			return ingest.ReasonTruncated
		}
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return ""
		case c == '\\':
			s.at++
			if reason := s.escape(); reason != "" {
				return reason
			}
		case c < ' ':
			return ingest.ReasonNotJSON
		default:
			for s.at < len(s.data) && s.data[s.at] >= 0x7f {
				s.high = true
				s.at++
			}
		}
	}
}

// text scans a string as str does and gives what stands between the quotes. plain says that it is printable ASCII without
// an escape, as most strings are.
func (s *scanner) text() (raw []byte, plain bool, reason ingest.Reason) {
	start := s.at + 1
	for at := start; at+8 <= len(s.data); at += 8 {
		if found := special(binary.LittleEndian.Uint64(s.data[at:])); found != 0 {
			if at += bits.TrailingZeros64(found) / 8; s.data[at] == '"' {
				s.at = at + 1
				return s.data[start:at], true, ""
			}
			break
		}
	}
	return s.anyText()
}

// anyText does it for strings that are not plain, or stand at the end of the message.
func (s *scanner) anyText() (raw []byte, plain bool, reason ingest.Reason) {
	start := s.at + 1
	if reason = s.str(); reason != "" {
		return nil, false, reason
	}
	raw = s.data[start : s.at-1]
	return raw, plainEnd(raw, 0) == len(raw), ""
}

// plainEnd gives the offset of the first byte from at on that is a quote, a backslash, or not printable ASCII; len(data)
// when there is none.
func plainEnd(data []byte, at int) int {
	for ; at+8 <= len(data); at += 8 {
		if found := special(binary.LittleEndian.Uint64(data[at:])); found != 0 {
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for ; at < len(data); at++ {
		if c := data[at]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			break
		}
	}
	return at
}

const (
	eachByte = 0x0101010101010101 // times a byte: that byte eight times
	eachHigh = 0x80 * eachByte
)

// special sets the high bit of each of the eight bytes of w that is a quote, a backslash, or not printable ASCII; of bits
// above the lowest one it sets, some may be wrong. Where no byte has its high bit, a subtraction of each byte borrows from
// the next one only if the result is negative: of 0x20 if the byte is less, of 1 if it is 0 after the exclusive or.
func special(w uint64) uint64 {
	quote, backslash := w^'"'*eachByte, w^'\\'*eachByte
	return (w | (w - ' '*eachByte) | (w + eachByte) | (quote - eachByte) | (backslash - eachByte)) & eachHigh
}

// escape scans what follows a backslash.
func (s *scanner) escape() ingest.Reason {
	switch s.next() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at++
		return ""
	case 'u':
		s.at++
		for range 4 {
			if !isHex(s.next()) {
				return s.fault()
			}
			s.at++
		}
		return ""
	default:
		return s.fault()
	}
}

func (s *scanner) literal(word string) ingest.Reason {
	for i := range len(word) {
		if s.next() != word[i] {
			return s.fault()
		}
		s.at++
	}
	return ""
}

func (s *scanner) number() ingest.Reason {
	if s.next() == '-' {
		s.at++
	}
	if s.next() == '0' {
		s.at++
	} else if !s.digits() {
		return s.fault()
	}
	if s.next() == '.' {
		s.at++
		if !s.digits() {
			return s.fault()
		}
	}
	if c := s.next(); c == 'e' || c == 'E' {
		s.at++
		if c := s.next(); c == '+' || c == '-' {
			s.at++
		}
		if !s.digits() {
			return s.fault()
		}
	}
	return ""
}

// digits scans a run of digits, and says whether there was one.
func (s *scanner) digits() bool {
	start, at := s.at, s.at
	for at < len(s.data) && isDigit(s.data[at]) {
		at++
	}
	s.at = at
	return at > start
}

func isSpace(c byte) bool { return c <= ' ' && (c == ' ' || c == '\n' || c == '\t' || c == '\r') }

func isDigit(c byte) bool { return c-'0' <= 9 }

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
