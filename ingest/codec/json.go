package codec

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/forewarm/forewarm/ingest"
)

// value is one member of a record. Its bytes belong to the message. The zero value is a missing member.
type value struct {
	name string // for messages
	kind byte   // of JSON: " 0 t f n { [
	raw  []byte // a string without quotes and escapes, anything else as it is
}

// kindNames are the kinds of values, for messages.
var kindNames = map[byte]string{'"': "a string", '0': "a number", 't': "a boolean", 'f': "a boolean", 'n': "null", '{': "an object", '[': "a list", 0: "nothing"}

// The last value of a repeated key counts. UTF-8 is checked for the whole text; half a surrogate pair becomes U+FFFD.
var jsonOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// document checks data, one JSON text, and calls read if it is an object. A fault of the text replaces earlier faults.
// O(len(data)).
func (d *Decoder) document(data []byte, depth int, read func(object []byte)) {
	data = bytes.Trim(data, " \t\r\n")
	switch {
	case nestsDeeper(data, depth):
		d.replace(ingest.ReasonTooDeep, "it nests deeper than %d levels", depth)
	case !jsontext.Value(data).IsValid(jsonOptions...):
		reason, at := jsonFault(data)
		d.replace(reason, "the message stops being valid at byte %d of %d", at, len(data))
	case !utf8.Valid(data):
		d.replace(ingest.ReasonInvalidUTF8, "a string is not valid UTF-8")
	case d.isA("the record (batches have one a line)", d.valueOf("", data).kind, '{'):
		read(data)
	}
}

// isValidJSON reports whether text is valid JSON within the limits.
func (d *Decoder) isValidJSON(text []byte) bool {
	return !nestsDeeper(text, d.limits.Depth) && jsontext.Value(text).IsValid(jsonOptions...)
}

// jsonFault returns why data is not one JSON text, and where; "" if it is one.
func jsonFault(data []byte) (reason ingest.Reason, at int64) {
	decoder := jsontext.NewDecoder(bytes.NewReader(data), jsonOptions...)
	err := decoder.SkipValue()
	if err == nil {
		if _, err = decoder.ReadToken(); errors.Is(err, io.EOF) {
			return "", 0
		}
	}
	at = decoder.InputOffset()
	if fault := (*jsontext.SyntacticError)(nil); errors.As(err, &fault) {
		at = fault.ByteOffset
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ingest.ReasonTruncated, at
	}
	return ingest.ReasonNotJSON, at
}

// nestsDeeper reports whether more than depth brackets are open at once.
func nestsDeeper(data []byte, depth int) bool {
	if bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= depth {
		return false
	}
	open := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
		case '{', '[':
			if open++; open > depth {
				return true
			}
		case '}', ']':
			open--
		}
	}
	return false
}

// isA refuses the record if a value is not of the wanted kind.
func (d *Decoder) isA(name string, kind, want byte) bool {
	if kind != want {
		d.fail(ingest.ReasonWrongType, "%s is %s, want %s", name, kindNames[kind], kindNames[want])
	}
	return kind == want
}

// each calls item with each element of a list, or with each key and value of an object. text is valid JSON.
func (d *Decoder) each(text []byte, item func(key, raw []byte)) {
	at := 1 // after the bracket
	next := func() []byte {
		for text[at] <= ' ' || text[at] == ',' || text[at] == ':' {
			at++
		}
		from := at
		at = valueEnd(text, at)
		return text[from:at]
	}
	for raw := next(); len(raw) > 0; raw = next() {
		if text[0] == '{' {
			item(d.unquote(raw), next())
		} else {
			item(nil, raw)
		}
	}
}

// valueEnd returns the end of the value at text[at:]; at itself before the end of a list or an object.
func valueEnd(text []byte, at int) int {
	switch text[at] {
	case '"':
		return stringEnd(text, at) + 1
	case '{', '[':
		for open := 0; ; at++ {
			switch text[at] {
			case '"':
				at = stringEnd(text, at)
			case '{', '[':
				open++
			case '}', ']':
				if open--; open == 0 {
					return at + 1
				}
			}
		}
	}
	for c := text[at]; c > ' ' && c != ',' && c != ']' && c != '}'; c = text[at] {
		at++
	}
	return at
}

// valueOf makes a value of raw.
func (d *Decoder) valueOf(name string, raw []byte) value {
	if len(raw) == 0 {
		return value{}
	}
	switch raw[0] {
	case '"':
		return value{name, '"', d.unquote(raw)}
	case '{', '[', 't', 'f', 'n':
		return value{name, raw[0], raw}
	}
	return value{name, '0', raw}
}

// unquote returns the text of a JSON string, valid until the message ends.
func (d *Decoder) unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	used := len(d.scratch)
	d.scratch, _ = jsontext.AppendUnquote(d.scratch, raw)
	return d.scratch[used:]
}
