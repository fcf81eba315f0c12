package codec

import (
	"unicode/utf8"

	"github.com/buger/jsonparser"

	"github.com/forewarm/forewarm/ingest"
)

// object calls field for each member of the JSON object that data is, unless it is null, until the record is found
// unusable. It says whether the object was read to its end, without a fault: then all of data is sound JSON. One pass.
func (d *decoder) object(data []byte, field func(v value)) bool {
	s := scanner{data: data, depth: d.limits.Depth}
	if s.space(); s.next() != '{' {
		d.fail(ingest.ReasonWrongType, "a record is a JSON object; a batch is one object a line, as %s", ContentTypeNDJSON)
		return false
	}
	if reason := d.walk(&s, field); reason != "" {
		d.fail(reason, "at byte %d of %d", s.at, len(data))
	} else if s.space(); s.at < len(data) && d.refusal.Reason == "" {
		d.fail(ingest.ReasonNotJSON, "at byte %d of %d", s.at, len(data))
	} else if s.high && !utf8.Valid(data) {
		d.fail(ingest.ReasonInvalidUTF8, "a string is not valid UTF-8")
	}
	return d.refusal.Reason == ""
}

// walk walks over the members of an object, from its opening bracket past its closing one, and stops early when the
// record is found unusable.
func (d *decoder) walk(s *scanner, field func(v value)) (reason ingest.Reason) {
	if s.depth == 0 {
		return ingest.ReasonTooDeep
	}
	s.depth--
	s.at++
	if s.space(); s.next() == '}' {
		s.at++
		return ""
	}
	for {
		if reason = d.pair(s, field); reason != "" || d.refusal.Reason != "" {
			return reason
		}
		s.space()
		switch s.next() {
		case ',':
			s.at++
			s.space()
		case '}':
			s.at++
			return ""
		default:
			return s.fault()
		}
	}
}

// pair scans one member and hands it to field, unless it is null.
func (d *decoder) pair(s *scanner, field func(v value)) (reason ingest.Reason) {
	var v value
	if reason = d.key(s, &v); reason != "" {
		return reason
	}
	if reason = s.content(&v); reason == "" && v.typ != jsonparser.Null {
		field(v)
	}
	return reason
}

// key scans the name of a member and what comes before its value.
func (d *decoder) key(s *scanner, v *value) (reason ingest.Reason) {
	if s.next() != '"' {
		return s.fault()
	}
	if v.key, v.plain, reason = s.text(); reason != "" {
		return reason
	}
	if !v.plain {
		var err error
		if v.key, err = d.unescape(v.key); err != nil {
			return ingest.ReasonNotJSON
		}
	}
	if s.space(); s.next() != ':' {
		return s.fault()
	}
	s.at++
	s.space()
	return ""
}

// content scans one value and says in v what and where it is.
func (s *scanner) content(v *value) (reason ingest.Reason) {
	start := s.at
	switch c := s.next(); {
	case c == '"':
		v.typ = jsonparser.String
		v.raw, v.plain, reason = s.text()
		return reason
	case isDigit(c), c == '-':
		v.typ = jsonparser.Number
		reason = s.number()
	default:
		v.typ = containerOrLiteral(c)
		reason = s.value()
	}
	v.raw, v.plain = s.data[start:s.at], false
	return reason
}

// containerOrLiteral gives the type of the value that c begins.
func containerOrLiteral(c byte) jsonparser.ValueType {
	switch c {
	case '{':
		return jsonparser.Object
	case '[':
		return jsonparser.Array
	case 'n':
		return jsonparser.Null
	}
	return jsonparser.Boolean
}
