package codec

import (
	"bytes"

	"github.com/forewarm/forewarm/ingest"
)

// split calls each for every record of a message in a foreign JSON format: one object, an array of them, or one of
// either a line. Only brackets separate records, so a record that is broken inside does not affect the others. Records
// beyond Limits.BatchRecords are refused together. O(len(data)).
//
// at is the shipper's time of the record, zero when there is none: Fluent Bit wraps each as [time, record].
func (d *decoder) split(data []byte, each func(record []byte, at value)) {
	s := splitter{d: d, each: each}
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		d.refuse(nil, ingest.ReasonTruncated, "the message is empty")
		return
	case d.hasRecordLines(data):
		for line := range bytes.Lines(data) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				s.value(line)
			}
		}
	default:
		s.value(data)
	}
	if s.over > 0 {
		d.refuse(nil, ingest.ReasonBatchTooLong, "%d records beyond the limit of %d", s.over, d.limits.BatchRecords)
	}
}

// hasRecordLines reports whether data has one record a line, and not one value on several lines. It also works on
// broken data: the lines of a formatted record are indented, and those of an array follow its bracket.
func (d *decoder) hasRecordLines(data []byte) bool {
	first, rest, many := bytes.Cut(data, newline)
	if !many {
		return false
	}
	alone := (data[0] == '{' || data[0] == '[') && valueEnd(data) <= len(first)
	if !alone && (data[0] == '[' || rest[0] != '{' && rest[0] != '[' && !bytes.Contains(rest, []byte("\n{")) && !bytes.Contains(rest, []byte("\n["))) {
		return false
	}
	return !d.isSound(data)
}

type splitter struct {
	d             *decoder
	each          func(record []byte, at value)
	records, over int
}

// value processes data, a record or an array of records without white space around it.
func (s *splitter) value(data []byte) {
	if data[0] != '[' || isText(data) {
		s.record(data, value{})
		return
	}
	rest := data[1:]
	for {
		rest = bytes.TrimLeft(rest, " \t\r\n,")
		if len(rest) == 0 {
			s.refuse(data[len(data):], ingest.ReasonTruncated, "the array has no end: records may be missing")
			return
		}
		if rest[0] == ']' {
			if tail := bytes.TrimSpace(rest[1:]); len(tail) > 0 {
				s.refuse(tail, ingest.ReasonNotJSON, "%d bytes follow the array", len(tail))
			}
			return
		}
		end := valueEnd(rest)
		element := bytes.TrimSpace(rest[:end])
		if rest = rest[end:]; element[0] == '[' {
			s.shipped(element)
		} else {
			s.record(element, value{})
		}
	}
}

// isText reports whether data is a line of text that begins with a bracket, as in Envoy's own log, and no array.
func isText(data []byte) bool {
	first := bytes.TrimLeft(data[1:], " \t\r\n,")
	return len(first) > 0 && bytes.IndexByte([]byte("{[]"), first[0]) < 0 && valueEnd(data) < len(data)
}

// shipped reads Fluent Bit's pair of a time and a record. In its newer form the time is a list of the time and
// metadata.
func (s *splitter) shipped(pair []byte) {
	at, rest := firstElement(pair)
	if len(at) > 0 && at[0] == '[' {
		at, _ = firstElement(at)
	}
	record := bytes.TrimLeft(rest, " \t\r\n,")
	if len(at) == 0 || !isDigit(at[0]) || len(record) == 0 || record[0] != '{' {
		s.record(pair, value{})
		return
	}
	s.record(record[:valueEnd(record)], value{"the shipper's time", '0', at})
}

// firstElement returns the first element of an array and the rest.
func firstElement(array []byte) (element, rest []byte) {
	rest = bytes.TrimLeft(array[1:], " \t\r\n")
	end := valueEnd(rest)
	return rest[:end], rest[end:]
}

func (s *splitter) record(data []byte, at value) {
	if s.full() {
		return
	}
	s.each(withoutNonFinite(data), at)
}

// withoutNonFinite replaces NaN, Infinity and -Infinity by null. Python's json writes them, but they are not JSON. A
// record without them is returned unchanged. O(len(data)).
func withoutNonFinite(data []byte) []byte {
	if !bytes.Contains(data, []byte("NaN")) && !bytes.Contains(data, []byte("Infinity")) {
		return data
	}
	out := make([]byte, 0, len(data)+16)
	for i := 0; i < len(data); {
		end := i + 1
		switch c := data[i]; {
		case c == '"':
			end = min(stringEnd(data, i)+1, len(data))
		case c == 'N', c == 'I', c == '-':
			for _, word := range [...]string{"NaN", "Infinity", "-Infinity"} {
				if bytes.HasPrefix(data[i:], []byte(word)) {
					out = append(out, "null"...)
					end = i + len(word)
				}
			}
		}
		if end == i+1 || data[i] == '"' {
			out = append(out, data[i:end]...)
		}
		i = end
	}
	return out
}

func (s *splitter) refuse(data []byte, reason ingest.Reason, detail string, args ...any) {
	if !s.full() {
		s.d.refuse(data, reason, detail, args...)
	}
}

func (s *splitter) full() bool {
	if s.records == s.d.limits.BatchRecords {
		s.over++
		return true
	}
	s.records++
	return false
}

// valueEnd returns the length of the JSON value at the start of data, by its brackets and quotes alone: at least 1, and
// len(data) when it has no end. A closing bracket also closes unclosed inner ones. One without an opening bracket ends
// the value before it. A bare word ends before a comma, a bracket or white space. O(length of the value).
func valueEnd(data []byte) int {
	lists, depth := uint64(0), 0 // open brackets: bit i is set if the one at depth i is of a list
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '"':
			if i = stringEnd(data, i); depth == 0 {
				return min(i+1, len(data))
			}
		case '{', '[':
			lists &^= 1 << depth
			if c == '[' {
				lists |= 1 << depth
			}
			depth++
		case '}', ']':
			for depth > 0 && depth <= 64 && (lists>>(depth-1)&1 == 1) != (c == ']') {
				depth--
			}
			if depth == 0 {
				return max(i, 1)
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 && i > 0 {
				return i
			}
		}
	}
	return len(data)
}

// stringEnd returns the offset of the closing quote of the string with its opening quote at i; len(data) without one.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(data)
}
