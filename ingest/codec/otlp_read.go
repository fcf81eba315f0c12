package codec

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math"
	"strconv"

	"github.com/forewarm/forewarm/ingest"
)

// The reader of OTLP in its two encodings. Numbers are those of opentelemetry/proto/trace/v1/trace.proto,
// logs/v1/logs.proto and common/v1/common.proto. Prompts, answers, events and links are skipped without being read.

// decodeOTLP makes the decoder of exports of spans or of log records in one of the encodings: TracesData or LogsData, or
// the requests that have the same bytes. JSON has ids in hexadecimal, 64-bit integers as strings or numbers, and names in
// lowerCamelCase. The collector's file exporter writes one export of spans a line; they count as one. O(len(data)).
func decodeOTLP(json, logs bool) func(d *Decoder, data []byte) {
	return func(d *Decoder, data []byte) {
		x := export{Decoder: d}
		d.foreign = otlp
		message, item := tracesMessage, x.readSpan
		if logs {
			message, item, d.foreign = logsMessage, x.readLog, dynamo
		}
		read := func(data []byte) { x.read(part{json: json, value: value{kind: '{', raw: data}}, message, item) }
		if json && !logs {
			d.split(data, read)
		} else {
			read(data)
		}
		x.endSpans()
		d.service = ""
	}
}

// part is a message of OTLP, or a member of one.
type part struct {
	json   bool
	value         // in JSON; in protobuf raw has the content of a field with a length
	number uint64 // value of any other protobuf field
}

// otlpMessage maps the names of members in lowerCamelCase to their numbers.
type otlpMessage map[string]uint32

// The members that are read. TracesData and LogsData differ in names only.
var (
	tracesMessage         = otlpMessage{"resourceSpans": 1}
	logsMessage           = otlpMessage{"resourceLogs": 1}
	resourceScopesMessage = otlpMessage{"resource": 1, "scopeSpans": 2, "scopeLogs": 2}
	resourceMessage       = otlpMessage{"attributes": 1}
	scopeMessage          = otlpMessage{"spans": 2, "logRecords": 2}
	logMessage            = otlpMessage{"attributes": 6}
	spanMessage           = otlpMessage{"traceId": 1, "spanId": 2, "parentSpanId": 4, "startTimeUnixNano": 7, "endTimeUnixNano": 8, "attributes": 9, "status": 15}
	statusMessage         = otlpMessage{"code": 3}
	attributeMessage      = otlpMessage{"key": 1, "value": 2}
	valueMessage          = otlpMessage{"stringValue": 1, "boolValue": 2, "intValue": 3, "doubleValue": 4, "arrayValue": 5, "kvlistValue": 6, "bytesValue": 7}
	listMessage           = otlpMessage{"values": 1}
)

// members calls f with each known member of a message, and with each element of a repeated one.
func (x *export) members(p part, m otlpMessage, f func(number uint32, member part)) {
	if !p.json {
		w := wire{rest: p.raw}
		for w.next() {
			content, _ := w.Bytes()
			varint, _ := w.Uint64()
			fixed, _ := w.Fixed64()
			f(w.FieldNum, part{value: value{raw: content}, number: varint | fixed}) // one of the two is zero
		}
		if w.fault != "" {
			x.fail(w.fault, "it breaks within its %d bytes", len(p.raw))
		}
		return
	}
	if !x.isA("a message of the export", p.kind, '{') {
		return
	}
	s := x.inside(p.raw)
	for s.open('{'); s.more('}'); {
		var v value
		number := m[string(s.key)]
		s.value(&v)
		elements := x.inside(v.raw)
		switch {
		case number == 0 || v.kind == 'n':
		case v.kind != '[':
			f(number, part{json: true, value: v})
		default:
			for elements.open('['); elements.more(']'); {
				if elements.value(&v); v.kind != 'n' {
					f(number, part{json: true, value: v})
				}
			}
		}
	}
}

func (x *export) only(p part, m otlpMessage, number uint32, f func(member part)) {
	x.members(p, m, func(n uint32, member part) {
		if n == number {
			f(member)
		}
	})
}

// read calls item with each span or log record of an export. Their resource may come after them, so it is read first.
func (x *export) read(p part, export otlpMessage, item func(p part)) {
	x.refusal = ingest.Refusal{}
	if p.json { // check all before any part counts
		s := x.scan(p.raw, otlpNesting*x.limits.Depth)
		for s.open('{'); s.more('}') && s.value(new(value)); {
		}
		x.finish(&s, otlpNesting*x.limits.Depth)
	}
	resources, before := 0, x.records
	if x.refusal.Reason == "" {
		x.only(p, export, 1, func(resource part) {
			resources++
			x.readResource(resource, item)
		})
	}
	if x.records == before { // an export without items is a record too, so that their number is bounded
		x.records++
	}
	isEmpty := len(p.raw) == 0 || p.json && len(bytes.Trim(p.raw, " {}\t\r\n")) == 0
	if resources == 0 && !isEmpty && (x.refusal.Reason == "" || x.refusal.Reason == ingest.ReasonWrongType) {
		x.replace(ingest.ReasonUnknownFormat, "there is no resourceSpans, or in logs no resourceLogs: it is no OTLP export of them")
	}
	if x.refusal.Reason != "" {
		x.refuse(x.refusal.Reason, "the export of %d bytes: %s", len(p.raw), x.refusal.Detail)
	}
}

// otlpNesting is the number of JSON levels per level of an attribute (value, arrayValue, values), plus one for the
// export around it.
const otlpNesting = 4

func (x *export) readResource(p part, item func(p part)) {
	x.resource = record{}
	x.only(p, resourceScopesMessage, 1, func(resource part) {
		x.only(resource, resourceMessage, 1, func(attribute part) { x.readAttribute(attribute, &x.resource, ofResource) })
	})
	x.only(p, resourceScopesMessage, 2, func(scope part) { x.readScope(scope, item) })
}

// readScope reads a ScopeSpans or ScopeLogs. An item that cannot be used refuses itself only.
func (x *export) readScope(p part, item func(p part)) {
	x.only(p, scopeMessage, 2, func(p part) {
		if x.within() {
			outer := x.refusal
			x.refusal, x.attrs = ingest.Refusal{}, x.resource
			item(p)
			x.refusal = outer
		}
	})
}

func (x *export) readSpan(p part) {
	x.span, x.failed = otlpSpan{}, false
	x.members(p, spanMessage, func(number uint32, member part) {
		switch number {
		case 1:
			readID(x.span.key.trace[:], member)
		case 2:
			readID(x.span.key.id[:], member)
		case 4:
			readID(x.span.parent.id[:], member)
		case 7:
			x.attrs.keep(fieldArrivedAt, x.integer("start_time_unix_nano", member), 1)
		case 8:
			x.attrs.keep(fieldFinishedAt, x.integer("end_time_unix_nano", member), 1)
		case 9:
			x.readAttribute(member, &x.attrs, 0)
		case 15:
			x.only(member, statusMessage, 3, func(code part) { x.failed = string(x.integer("code", code).raw) == "2" })
		}
	})
	x.span.parent.trace = x.span.key.trace
	x.endSpan()
}

// readID reads an id of the right length, in JSON a hexadecimal string. It ignores others.
func readID(to []byte, p part) {
	switch {
	case !p.json && len(p.raw) == len(to):
		copy(to, p.raw)
	case p.json && len(p.raw) == 2*len(to):
		if _, err := hex.Decode(to, p.raw); err != nil {
			clear(to)
		}
	}
}

func (x *export) readAttribute(p part, to *record, later uint16) {
	var key []byte
	var content part
	x.members(p, attributeMessage, func(number uint32, member part) {
		switch number {
		case 1:
			key = x.string("", member).raw
		case 2:
			content = member
		}
	})
	if at := otlp.fields.places[string(key)]; at.rank > 0 && content.raw != nil {
		to.keep(at.field, x.anyValue(content, at.path, true), at.rank+later)
	}
}

// anyValue reads an AnyValue. A list counts as its first value. Lists in lists are ignored, so recursion is bounded.
func (x *export) anyValue(p part, name string, inLists bool) (v value) {
	x.members(p, valueMessage, func(number uint32, member part) {
		v = value{name: name, kind: '{'}
		switch {
		case number == 1, number == 2 && p.json:
			v = x.string(name, member)
		case number == 2:
			v = value{name: name, kind: 't', raw: strconv.AppendBool(nil, member.number != 0)}
		case number == 3, number == 4 && p.json:
			v = x.integer(name, member)
		case number == 4:
			v = value{name: name, kind: '0', raw: x.print(strconv.AppendFloat(nil, math.Float64frombits(member.number), 'g', -1, 64))}
		case number == 5 && inLists:
			first := true
			x.only(member, listMessage, 1, func(element part) {
				if first {
					v, first = x.anyValue(element, name, false), false
				}
			})
		}
	})
	return v
}

func (x *export) string(name string, p part) value {
	p.name = name
	if !p.json {
		p.kind = '"'
	}
	x.text(&p.value)
	return p.value
}

// integer reads a number; JSON may have it in quotes.
func (x *export) integer(name string, p part) value {
	if !p.json {
		return value{name: name, kind: '0', raw: x.print(strconv.AppendInt(nil, int64(p.number), 10))}
	}
	v := x.string(name, p)
	if v.kind == '"' {
		v.kind = '0'
	}
	return v
}

// print stores digits until the message ends.
func (d *Decoder) print(digits []byte) []byte {
	d.scratch = append(d.scratch, digits...)
	return d.scratch[len(d.scratch)-len(digits):]
}

// An OTLP logs export may have the request traces that NVIDIA Dynamo writes with DYN_REQUEST_TRACE_SINKS=otel: log
// records with the attributes schema and payload, the row (see dynamoRow). Other log records are ignored.
//
// The pool is the resource's forewarm.pool, else that of the subject or URL, else the row's model, else service.name.

// The content types of OTLP logs exports, LogsData in the schema.
const (
	ContentTypeOTLPLogs     = "application/vnd.forewarm.otlp-logs+protobuf"
	ContentTypeOTLPLogsJSON = "application/vnd.forewarm.otlp-logs+json"
)

// readLog reads a LogRecord, and the row in it.
func (x *export) readLog(p part) {
	x.only(p, logMessage, 6, func(attribute part) { x.readAttribute(attribute, &x.attrs, 0) })
	a := &x.attrs.members
	switch {
	case x.refused():
	case string(x.attrs.text(fieldSchema)) != dynamoSchema:
		x.skip()
	default:
		outer := x.meta
		x.meta.Pool = cmp.Or(x.attribute(a[fieldPool]), outer.Pool)
		x.meta.Class = cmp.Or(x.attribute(a[fieldClass]), outer.Class)
		x.service = x.attribute(a[fieldService])
		x.foreignRecord(a[fieldPayload].raw)
		x.meta = outer
	}
}
