package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/forewarm/forewarm/ingest"
)

// value is one member of a record. Its bytes belong to the message. The zero value is a missing member.
type value struct {
	name   string  // for messages
	kind   byte    // of JSON: " 0 t f n { [
	raw    []byte  // a string without quotes, anything else as it is
	amount float64 // of a number that a scanner read; NaN if it cannot be parsed
}

// escaped is the kind of a string of which raw has the quotes and the escapes.
const escaped = '\\'

var kindNames = map[byte]string{'"': "a string", '0': "a number", 't': "a boolean", 'f': "a boolean", 'n': "null", '{': "an object", '[': "a list", 0: "nothing"}

// The last value of a repeated key counts. UTF-8 is checked for the whole text; half a surrogate pair becomes U+FFFD.
var jsonOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

const whiteSpace = " \t\r\n"

// scan begins to read data, which is one JSON object or list that nests at most depth levels.
func (d *Decoder) scan(data []byte, depth int) scanner {
	return scanner{decoder: d, text: data, depth: depth}
}

// finish refuses the record if what s has read is not all of one JSON object. A fault of the text replaces earlier faults.
// O(len(data)).
func (d *Decoder) finish(s *scanner, depth int) {
	if s.isAtEnd() {
		return
	}
	if reason, detail := jsonFault(s.text, depth); reason != "" {
		d.replace(reason, "%s", detail)
		return
	}
	d.fail(ingest.ReasonWrongType, "the record is no object (batches have one a line)")
}

// isValid reports whether text is one JSON value that nests at most depth levels.
func isValid(text []byte, depth int) bool {
	_, levels := valueEnd(text, 0)
	return levels <= depth && isText(text)
}

func isText(text []byte) bool {
	return jsontext.Value(text).IsValid(jsonOptions...) && utf8.Valid(text)
}

const emptyMessage = "the message has no content: see that the producer sends a body"

// jsonFault returns why data is not one JSON value that nests at most depth levels; "" if it is one.
func jsonFault(data []byte, depth int) (reason ingest.Reason, detail string) {
	if _, levels := valueEnd(data, 0); levels > depth {
		return ingest.ReasonTooDeep, fmt.Sprintf("it nests deeper than %d levels", depth)
	}
	if len(bytes.Trim(data, whiteSpace)) == 0 {
		return ingest.ReasonEmpty, emptyMessage
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(data), jsonOptions...)
	err := decoder.SkipValue()
	if err == nil {
		_, err = decoder.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && utf8.Valid(data):
			return "", ""
		case errors.Is(err, io.EOF):
			return ingest.ReasonInvalidUTF8, "a string is not valid UTF-8"
		}
	}
	at := decoder.InputOffset()
	if fault := (*jsontext.SyntacticError)(nil); errors.As(err, &fault) {
		at = fault.ByteOffset
	}
	reason = ingest.ReasonNotJSON
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		reason = ingest.ReasonTruncated
	}
	return reason, fmt.Sprintf("it stops being valid at byte %d of %d", at, len(data))
}

// isA refuses the record if a value is not of the wanted kind.
func (d *Decoder) isA(name string, kind, want byte) bool {
	if kind != want {
		d.fail(ingest.ReasonWrongType, "%s is %s, want %s", name, kindNames[kind], kindNames[want])
	}
	return kind == want
}

// scanner reads the values of objects and lists in one pass. After a fault it reads nothing.
type scanner struct {
	decoder *Decoder
	text    []byte
	at      int    // of the next byte
	depth   int    // levels that the next value may nest
	checked bool   // text is part of one that was checked
	first   bool   // the next value is the first of an object or a list
	bad     bool   // text is invalid, or nests too deep
	name    value  // key of the next value, as it is in the text
	key     []byte // the same, without escapes
}

// inside reads a text that is part of one that was checked.
func (d *Decoder) inside(text []byte) scanner { return scanner{decoder: d, text: text, checked: true} }

func (s *scanner) open(bracket byte) {
	s.first, s.depth = true, s.depth-1
	s.bad = s.bad || s.next() != bracket || s.depth < 0 && !s.checked
}

// more reads what is before the next value, its key included; false at the bracket end.
func (s *scanner) more(end byte) bool {
	c := s.next()
	switch {
	case s.bad:
		return false
	case c == end:
		s.first, s.depth = false, s.depth+1
		return false
	case c == 0 || !s.first && c != ',':
		s.bad = true
		return false
	case s.first:
		s.first = false
		s.at--
	}
	if end == '}' {
		if !s.value(&s.name) || s.name.kind != '"' && s.name.kind != escaped || s.next() != ':' {
			s.bad = true
			return false
		}
		s.key = s.decoder.text(&s.name)
	}
	return true
}

// next reads the next byte that is not white space; 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

// isAtEnd reports whether the text is valid, and nothing but white space follows.
func (s *scanner) isAtEnd() bool { return !s.bad && len(bytes.Trim(s.text[s.at:], whiteSpace)) == 0 }

// value reads the next value; false if it is invalid. It reads strings of printable ASCII without escapes, whole numbers
// and null itself: jsontext needs five times as long, and almost all members are such.
func (s *scanner) value(v *value) bool {
	first := s.next()
	from, rest := max(0, s.at-1), s.text[s.at:]
	switch {
	case first == '"':
		for i, c := range rest {
			if endsText[c] {
				if c != '"' {
					break
				}
				v.kind, v.raw = '"', rest[:i]
				s.at += i + 1
				return true
			}
		}
	case isDigit(first):
		n := int64(first - '0')
		for i, c := range rest[:min(18, len(rest))] { // no int64 overflows
			if !isDigit(c) {
				if c|' ' == 'e' || c == '.' || first == '0' && i > 0 {
					break
				}
				s.at += i
				v.kind, v.raw, v.amount = '0', s.text[from:s.at], float64(n)
				return true
			}
			n = n*10 + int64(c-'0')
		}
	case first == 'n' && bytes.HasPrefix(rest, []byte("ull")):
		s.at += len("ull")
		v.kind, v.raw = 'n', s.text[from:s.at]
		return true
	}
	end, levels := valueEnd(s.text, from)
	s.at = end
	switch v.raw = s.text[from:s.at]; first {
	case '"':
		v.kind = escaped
	case '{', '[', 't', 'f':
		v.kind = first
	default:
		v.kind, v.amount = '0', parseNumber(v.raw)
	}
	s.bad = s.bad || !s.checked && (levels > s.depth || !isText(v.raw))
	return !s.bad
}

// endsText marks the bytes that end a string of printable ASCII without escapes.
var endsText = func() (ends [256]bool) {
	for c := range ends {
		ends[c] = c < ' ' || c > '~' || c == '"' || c == '\\'
	}
	return ends
}()

// text returns the text of v, without the escapes of a string. It is valid until the message ends.
func (d *Decoder) text(v *value) []byte {
	if v.kind == escaped {
		d.unescape(v)
	}
	return v.raw
}

func (d *Decoder) unescape(v *value) {
	used := len(d.scratch)
	d.scratch, _ = jsontext.AppendUnquote(d.scratch, v.raw)
	v.kind, v.raw = '"', d.scratch[used:]
}

// valueEnd returns the end of the JSON value at text[at:], and how many levels it nests. Of an invalid one it is any end.
func valueEnd(text []byte, at int) (end, levels int) {
	for open := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			for at++; at < len(text) && text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
		case '{', '[':
			open++
			levels = max(levels, open)
		case '}', ']':
			open--
		}
		if open <= 0 && (at+1 >= len(text) || strings.IndexByte(",:]}"+whiteSpace, text[at+1]) >= 0) {
			return min(at+1, len(text)), levels
		}
	}
	return len(text), levels
}

// split calls record with every record of a message in a foreign JSON format: one object, an array of them, or one of
// either a line. A broken line is refused alone, and so is what follows a broken element of an array. O(len(data)).
func (d *Decoder) split(data []byte, record func(data []byte)) {
	if data = bytes.Trim(data, whiteSpace); len(data) == 0 {
		d.refuse(ingest.ReasonEmpty, "%s", emptyMessage)
		return
	}
	if bytes.Contains(data, []byte("NaN")) || bytes.Contains(data, []byte("Infinity")) {
		data = nonFinite.ReplaceAll(data, []byte("${1}null"))
	}
	hasLines := bytes.Contains(data, []byte("\n{")) || bytes.Contains(data, []byte("\n["))
	if !hasLines || arrayOfLines.Match(data) || isValid(data, d.limits.Depth+1) {
		d.elements(data, record)
		return
	}
	for line := range bytes.Lines(data) {
		if line = bytes.Trim(line, whiteSpace); len(line) > 0 {
			d.elements(line, record)
		}
	}
}

// arrayOfLines matches an array of which the first line has no element, or ends after the comma of one.
var arrayOfLines = regexp.MustCompile(`^\[[ \t]*(\{.*,)?[ \t\r]*\n`)

// nonFinite finds NaN, Infinity and -Infinity, which Python's json writes but which are not JSON. One in a string
// changes a text that is not kept.
var nonFinite = regexp.MustCompile(`([:\[,]\s*)(?:NaN|-?Infinity)\b`)

// elements calls record with each element of an array, and with any other value as it is.
func (d *Decoder) elements(data []byte, record func(data []byte)) {
	if data[0] != '[' {
		record(data)
		return
	}
	s := d.scan(data, d.limits.Depth+1)
	for s.open('['); s.more(']'); {
		var v value
		if !s.value(&v) {
			break
		}
		if v.kind == '"' {
			v.raw = []byte(`""`) // no object either
		}
		record(v.raw)
	}
	if !s.isAtEnd() {
		reason, detail := jsonFault(data, d.limits.Depth+1)
		d.refuse(reason, "the array breaks, and what follows is lost: %s", detail)
	}
}
