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

// jsonReader reads JSON in order without a copy. Its methods read one value each. After an error every call reads
// nothing.
type jsonReader struct {
	buffer  bytes.Buffer
	decoder jsontext.Decoder
	err     error
}

// The last value of a repeated key counts. UTF-8 is checked for the whole text; half a surrogate pair becomes U+FFFD.
var jsonOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

func (j *jsonReader) reset(data []byte) {
	j.buffer, j.err = *bytes.NewBuffer(data), nil
	j.decoder.Reset(&j.buffer, jsonOptions...)
}

func (j *jsonReader) raw() []byte {
	if j.err != nil {
		return nil
	}
	raw, err := j.decoder.ReadValue()
	j.err = err
	return raw
}

func (j *jsonReader) skip() {
	if j.err == nil {
		j.err = j.decoder.SkipValue()
	}
}

func (j *jsonReader) token() {
	if j.err == nil {
		_, j.err = j.decoder.ReadToken()
	}
}

// kind is the kind of the next value, 0 at the end or before an error.
func (j *jsonReader) kind() byte {
	if j.err != nil {
		return 0
	}
	return byte(j.decoder.PeekKind())
}

// end returns the error of the text and its offset, after the last read.
func (j *jsonReader) end() (reason ingest.Reason, at int64) {
	if j.err == nil {
		if _, j.err = j.decoder.ReadToken(); errors.Is(j.err, io.EOF) {
			return "", 0
		}
	}
	at = j.decoder.InputOffset()
	if fault := (*jsontext.SyntacticError)(nil); errors.As(j.err, &fault) {
		at = fault.ByteOffset
	}
	if errors.Is(j.err, io.EOF) || errors.Is(j.err, io.ErrUnexpectedEOF) {
		return ingest.ReasonTruncated, at
	}
	return ingest.ReasonNotJSON, at
}

// document reads data, one JSON text, with read, which must read all of it. An error of the text replaces a fault of a
// part. O(len(data)).
func (d *Decoder) document(data []byte, j *jsonReader, depth int, read func()) {
	if nestsDeeper(data, depth) {
		d.replace(ingest.ReasonTooDeep, "it nests deeper than %d levels", depth)
		return
	}
	j.reset(data)
	defer j.reset(nil) // it keeps no message
	if j.kind() == 'n' {
		d.fail(ingest.ReasonWrongType, "it is null, want an object")
	}
	read()
	if reason, at := j.end(); reason != "" {
		d.replace(reason, "the message stops being valid at byte %d of %d", at, len(data))
	} else if !utf8.Valid(data) {
		d.replace(ingest.ReasonInvalidUTF8, "a string is not valid UTF-8")
	}
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

// object calls member with each key of an object; member reads the value. null has no members. Other values are a fault
// of the record.
func (d *Decoder) object(j *jsonReader, name string, member func(key []byte)) {
	if kind := j.kind(); kind != '{' {
		if j.skip(); kind != 'n' {
			d.fail(ingest.ReasonWrongType, "%s is %s, want an object", name, kindNames[kind])
		}
		return
	}
	for j.token(); j.kind() == '"'; {
		if key := d.unquote(j.raw()); j.err == nil {
			member(key)
		}
	}
	j.token()
}

// list calls element before each element of a list; element reads it. null has no elements. Other values are a fault of
// the record.
func (d *Decoder) list(j *jsonReader, name string, element func()) {
	if kind := j.kind(); kind != '[' {
		if j.skip(); kind != 'n' {
			d.fail(ingest.ReasonWrongType, "%s is %s, want a list", name, kindNames[kind])
		}
		return
	}
	for j.token(); j.kind() != ']' && j.err == nil; {
		element()
	}
	j.token()
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
		return raw[min(1, len(raw)):max(0, len(raw)-1)]
	}
	used := len(d.scratch)
	d.scratch, _ = jsontext.AppendUnquote(d.scratch, raw) // half a surrogate pair becomes U+FFFD
	return d.scratch[used:]
}
