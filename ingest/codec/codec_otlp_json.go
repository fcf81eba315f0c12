package codec

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/buger/jsonparser"

	"github.com/forewarm/forewarm/ingest"
)

// otlpNesting is how many levels of JSON an attribute takes for each of its own (value, arrayValue, values), and one more
// for the export around it.
const otlpNesting = 4

// decodeOTLPJSON reads a TracesData in the JSON of OTLP: ids in hexadecimal, 64-bit integers as strings or numbers, names
// in lowerCamelCase, or as the schema has them. The collector's file exporter writes one a line; their spans count as
// those of one export. O(len(data)).
func decodeOTLPJSON(d *decoder, data []byte) {
	if !d.belongs() {
		return
	}
	x := export{decoder: d}
	d.split(data, func(_ *decoder, data []byte, _ found) { x.json(data, "Spans", x.jsonScope) })
	x.close()
}

// json reads one TracesData or LogsData, and calls scope with each ScopeSpans or ScopeLogs. Their resource may stand behind them, so it
// is looked for first.
func (x *export) json(data []byte, kind string, scope func(scope value)) {
	d := x.decoder
	if reason, at := scan(data, otlpNesting*d.limits.Depth); reason != "" {
		d.refuse(nil, reason, "at byte %d of %d", at, len(data))
		return
	}
	if !utf8.Valid(data) {
		d.refuse(nil, ingest.ReasonInvalidUTF8, "a string is not valid UTF-8")
		return
	}
	d.refusal = ingest.Refusal{}
	top := value{key: []byte("the export"), raw: bytes.TrimSpace(data), typ: jsonparser.Object}
	if top.raw[0] != '{' {
		d.refuse(nil, ingest.ReasonUnknownFormat, "an OTLP export is a JSON object with resource%s", kind)
		return
	}
	snake := "_" + strings.ToLower(kind)
	resources, members := x.named(top, "resource"+kind, "resource"+snake, func(resource value) {
		x.jsonResourceAttributes(resource)
		x.named(resource, "scope"+kind, "scope"+snake, scope)
	})
	if resources == 0 && members > 0 {
		x.fail(ingest.ReasonUnknownFormat, "the object has no resource%s: it is no OTLP export of them", kind)
	}
	if x.refusal.Reason != "" {
		d.refuse(nil, x.refusal.Reason, "%s", x.refusal.Detail)
	}
}

// named calls f for each element of the lists that an object holds under a name, and counts these lists and its members.
func (d *decoder) named(object value, camel, snake string, f func(v value)) (lists, members int) {
	d.members(object, func(v value) {
		if members++; string(v.key) == camel || string(v.key) == snake {
			lists++
			d.elements(v, f)
		}
	})
	return lists, members
}

// members calls f for each member of an object that is not null; what is no object is a fault.
func (d *decoder) members(object value, f func(v value)) {
	if object.typ != jsonparser.Object {
		d.wrongType(object, "an object")
		return
	}
	_ = jsonparser.ObjectEach(object.raw, func(key, raw []byte, typ jsonparser.ValueType, _ int) error { // it passed scan
		if typ != jsonparser.Null {
			f(value{key: key, raw: raw, typ: typ})
		}
		return nil
	})
}

// elements calls f for each element of a list that is not null; what is no list is a fault.
func (d *decoder) elements(list value, f func(v value)) {
	if list.typ != jsonparser.Array {
		d.wrongType(list, "a list")
		return
	}
	_, _ = jsonparser.ArrayEach(list.raw, func(raw []byte, typ jsonparser.ValueType, _ int, _ error) { // it passed scan
		if typ != jsonparser.Null {
			f(value{key: list.key, raw: raw, typ: typ})
		}
	})
}

// jsonResourceAttributes reads the attributes of the resource of a ResourceSpans or ResourceLogs.
func (x *export) jsonResourceAttributes(of value) {
	x.resource = otlpAttrs{}
	x.members(of, func(v value) {
		if string(v.key) == "resource" {
			x.members(v, func(v value) {
				if string(v.key) == "attributes" {
					x.jsonAttributes(v, &x.resource, ofResource)
				}
			})
		}
	})
}

// jsonScope reads a ScopeSpans. A span that cannot be used refuses itself only.
func (x *export) jsonScope(scope value) {
	x.scope, _, _, _ = jsonparser.Get(scope.raw, "scope", "name") // it passed scan
	x.version, _, _, _ = jsonparser.Get(scope.raw, "scope", "version")
	x.named(scope, "spans", "spans", func(span value) {
		outer := x.refusal
		if x.begin() {
			x.jsonSpan(span)
			x.end()
		}
		x.refusal = outer
	})
}

// jsonSpan reads a Span.
func (x *export) jsonSpan(span value) {
	s := &x.span
	x.members(span, func(v value) {
		switch string(v.key) {
		case "traceId", "trace_id":
			jsonID(s.trace[:], v)
		case "spanId", "span_id":
			jsonID(s.id[:], v)
		case "parentSpanId", "parent_span_id":
			jsonID(s.parent[:], v)
		case "startTimeUnixNano", "start_time_unix_nano":
			x.nanoseconds(v, &s.start)
		case "endTimeUnixNano", "end_time_unix_nano":
			x.nanoseconds(v, &s.end)
		case "attributes":
			x.jsonAttributes(v, &x.attrs, 0)
		case "status":
			x.members(v, func(v value) {
				if string(v.key) == "code" {
					s.failed = string(v.raw) == strconv.Itoa(statusError) || string(v.raw) == "STATUS_CODE_ERROR"
				}
			})
		}
	})
}

// jsonID takes a hexadecimal id of the right length; another is none.
func jsonID(to []byte, v value) {
	if len(v.raw) == 2*len(to) {
		if _, err := hex.Decode(to, v.raw); err != nil {
			clear(to)
		}
	}
}

// nanoseconds reads a time in whole Unix nanoseconds.
func (d *decoder) nanoseconds(v value, to *uint64) {
	n, err := strconv.ParseUint(string(v.raw), 10, 64)
	if err != nil {
		d.fail(ingest.ReasonBadTime, "%s is not whole Unix nanoseconds", v.key)
		return
	}
	*to = n
}

// jsonAttributes reads a list of KeyValue.
func (x *export) jsonAttributes(list value, to *otlpAttrs, rank uint8) {
	x.elements(list, func(pair value) {
		var name otlpName
		var known bool
		var content value
		x.members(pair, func(v value) {
			switch string(v.key) {
			case "key":
				name, known = otlpNames[string(v.raw)]
			case "value":
				content = v
			}
		})
		if known && content.raw != nil {
			to.set(name.field, rank+name.rank, x.jsonValue(content, true))
		}
	})
}

// jsonValue reads an AnyValue; within a list only if inLists, so that it recurs once at most.
func (x *export) jsonValue(v value, inLists bool) (out otlpValue) {
	x.members(v, func(v value) {
		switch string(v.key) {
		case "stringValue", "string_value":
			if text, ok := x.text(v); ok {
				out = otlpValue{kind: otlpText, text: text}
			}
		case "intValue", "int_value":
			n, err := strconv.ParseInt(string(v.raw), 10, 64)
			if out = (otlpValue{kind: otlpInteger, integer: n}); err != nil {
				out = jsonDouble(v) // 5.0 is a whole number too
			}
		case "doubleValue", "double_value":
			out = jsonDouble(v)
		case "arrayValue", "array_value":
			if out = (otlpValue{kind: otlpOther}); inLists {
				out = x.jsonFirst(v)
			}
		default:
			out = otlpValue{kind: otlpOther}
		}
	})
	return out
}

func jsonDouble(v value) otlpValue {
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil {
		return otlpValue{kind: otlpOther}
	}
	return otlpValue{kind: otlpDouble, double: f}
}

// jsonFirst reads the first value of an ArrayValue.
func (x *export) jsonFirst(array value) (out otlpValue) {
	first := true
	x.members(array, func(v value) {
		if string(v.key) == "values" {
			x.elements(v, func(v value) {
				if first {
					out, first = x.jsonValue(v, false), false
				}
			})
		}
	})
	return out
}
