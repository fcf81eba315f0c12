package codec

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/forewarm/forewarm/ingest"
)

// The readers of OTLP in its two encodings. Numbers are those of opentelemetry/proto/trace/v1/trace.proto, logs/v1/logs.proto
// and common/v1/common.proto. Prompts, answers, events and links are skipped over without being looked into.

// statusError is the code of a span that failed.
const statusError = 2

// otlpNesting is how many levels of JSON an attribute takes for each of its own (value, arrayValue, values), and one more
// for the export around it.
const otlpNesting = 4

// decodeOTLP reads a TracesData, or the ExportTraceServiceRequest that has the same bytes. O(len(data)).
func decodeOTLP(d *decoder, data []byte) {
	if d.belongs() {
		x := export{decoder: d}
		x.protoExport(data, "spans", x.protoScope)
		x.close()
	}
}

// decodeOTLPJSON reads a TracesData in the JSON of OTLP: ids in hexadecimal, 64-bit integers as strings or numbers, names
// in lowerCamelCase, or as the schema has them. The collector's file exporter writes one a line; their spans count as
// those of one export. O(len(data)).
func decodeOTLPJSON(d *decoder, data []byte) {
	if d.belongs() {
		x := export{decoder: d}
		d.split(data, func(data []byte, _ value) { x.jsonExport(data, "Spans", x.jsonScope) })
		x.close()
	}
}

// decodeOTLPLogs reads a LogsData, or the ExportLogsServiceRequest that has the same bytes. O(len(data)).
func decodeOTLPLogs(d *decoder, data []byte) {
	if d.belongs() {
		x := logs{export: export{decoder: d}, meta: d.meta}
		x.protoExport(data, "logs", func(scope []byte) ingest.Reason { return messages(scope, 2, x.protoLog) })
		x.close()
	}
}

// decodeOTLPLogsJSON reads a LogsData in the JSON of OTLP. O(len(data)).
func decodeOTLPLogsJSON(d *decoder, data []byte) {
	if d.belongs() {
		x := logs{export: export{decoder: d}, meta: d.meta}
		x.jsonExport(data, "Logs", func(j *jsonReader) {
			x.object(j, "scopeLogs", func(key []byte) {
				if isNamed(key, "logRecords") {
					x.list(j, "logRecords", func() { x.jsonLog(j) })
				} else {
					j.skip()
				}
			})
		})
		x.close()
	}
}

// messages calls f for the embedded messages with a field number, until one is at fault.
func messages(data []byte, number uint32, f func(message []byte) ingest.Reason) ingest.Reason {
	w := wire{rest: data}
	for w.next() {
		if message, ok := w.Bytes(); ok && w.FieldNum == number {
			w.fault = f(message)
		}
	}
	return w.fault
}

// protoExport calls scope with each ScopeSpans or ScopeLogs. Their resource may stand behind them, so it is looked for first.
func (x *export) protoExport(data []byte, kind string, scope func(data []byte) ingest.Reason) {
	resources := 0
	fault := messages(data, 1, func(resource []byte) ingest.Reason {
		resources++
		x.resource = record{}
		fault := messages(resource, 1, func(data []byte) ingest.Reason {
			return messages(data, 1, func(attribute []byte) ingest.Reason {
				return x.protoAttribute(attribute, &x.resource, ofResource)
			})
		})
		if fault != "" {
			return fault
		}
		return messages(resource, 2, scope)
	})
	switch {
	case fault != "":
		x.refuse(nil, fault, "the export breaks within its %d bytes: what follows is lost", len(data))
	case resources == 0 && len(data) > 0:
		x.refuse(nil, ingest.ReasonUnknownFormat, "the message has no resource_%s: it is no OTLP export of %s", kind, kind)
	}
}

// protoScope reads a ScopeSpans. A span that cannot be used refuses itself only.
func (x *export) protoScope(data []byte) ingest.Reason {
	x.scope, x.version = nil, nil
	fault := messages(data, 1, func(scope []byte) ingest.Reason {
		w := wire{rest: scope}
		for w.next() {
			switch text, _ := w.Bytes(); w.FieldNum {
			case 1:
				x.scope = text
			case 2:
				x.version = text
			}
		}
		return w.fault
	})
	if fault != "" {
		return fault
	}
	return messages(data, 2, func(span []byte) ingest.Reason {
		if x.begin() {
			if fault := x.protoSpan(span); fault != "" {
				x.fail(fault, "it breaks within its %d bytes", len(span))
			}
			x.end()
		}
		return ""
	})
}

// protoSpan reads a Span.
func (x *export) protoSpan(data []byte) ingest.Reason {
	w := wire{rest: data}
	for w.next() {
		content, _ := w.Bytes()
		time, _ := w.Fixed64()
		switch w.FieldNum {
		case 1:
			copyID(x.span.trace[:], content)
		case 2:
			copyID(x.span.id[:], content)
		case 4:
			copyID(x.span.parent[:], content)
		case 7:
			x.attrs.keep(fieldArrivedAt, value{"start_time_unix_nano", '0', x.print(strconv.AppendUint(nil, time, 10))}, 1)
		case 8:
			x.attrs.keep(fieldFinishedAt, value{"end_time_unix_nano", '0', x.print(strconv.AppendUint(nil, time, 10))}, 1)
		case 9:
			w.fault = x.protoAttribute(content, &x.attrs, 0)
		case 15:
			w.fault = x.protoStatus(content)
		}
	}
	return w.fault
}

// print keeps digits until the message ends.
func (d *decoder) print(digits []byte) []byte {
	d.scratch = append(d.scratch, digits...)
	return d.scratch[len(d.scratch)-len(digits):]
}

// copyID takes an id of the right length; another is none.
func copyID(to, id []byte) {
	if len(id) == len(to) {
		copy(to, id)
	}
}

func (x *export) protoStatus(data []byte) ingest.Reason {
	w := wire{rest: data}
	for w.next() {
		if code, ok := w.Int64(); ok && w.FieldNum == 3 {
			x.failed = code == statusError
		}
	}
	return w.fault
}

// protoAttribute reads a KeyValue.
func (x *export) protoAttribute(data []byte, to *record, rank uint16) (fault ingest.Reason) {
	var key, content []byte
	w := wire{rest: data}
	for w.next() {
		switch text, _ := w.Bytes(); w.FieldNum {
		case 1:
			key = text
		case 2:
			content = text
		}
	}
	node := otlpFields.at(key)
	if w.fault != "" || node == nil || !node.leaf {
		return w.fault
	}
	v, fault := x.protoValue(content, node.path, true)
	to.keep(node.field, v, rank+node.rank)
	return fault
}

// protoValue reads an AnyValue. A list counts as its first value; within a list there is none, so that it recurs once at most.
func (x *export) protoValue(data []byte, name string, inLists bool) (v value, fault ingest.Reason) {
	w := wire{rest: data}
	for w.next() {
		content, isMessage := w.Bytes()
		whole, isVarint := w.Int64()
		double, isDouble := w.Double()
		v = value{name, '{', nil}
		switch {
		case w.FieldNum == 1 && isMessage:
			v = value{name, '"', content}
		case w.FieldNum == 2 && isVarint:
			v = value{name, 't', strconv.AppendBool(nil, whole != 0)}
		case w.FieldNum == 3 && isVarint:
			v = value{name, '0', x.print(strconv.AppendInt(nil, whole, 10))}
		case w.FieldNum == 4 && isDouble:
			v = value{name, '0', x.print(strconv.AppendFloat(nil, double, 'g', -1, 64))}
		case w.FieldNum == 5 && isMessage && inLists:
			first := true
			w.fault = messages(content, 1, func(element []byte) (fault ingest.Reason) {
				if first {
					v, fault = x.protoValue(element, name, false)
				}
				first = false
				return fault
			})
		}
	}
	return v, w.fault
}

// isNamed says whether key is a name in lowerCamelCase, or as the schema has it.
func isNamed(key []byte, camel string) bool {
	return string(key) == camel || strings.EqualFold(strings.ReplaceAll(string(key), "_", ""), camel)
}

// jsonExport reads one TracesData or LogsData that is sound, and calls scope before each ScopeSpans or ScopeLogs. Their resource may
// stand behind them, so it is read first.
func (x *export) jsonExport(data []byte, kind string, scope func(j *jsonReader)) {
	x.refusal = ingest.Refusal{}
	var j jsonReader
	x.document(data, &j, otlpNesting*x.limits.Depth, j.skip)
	resources, members := 0, 0
	if x.refusal.Reason == "" {
		if j.reset(data); j.kind() != '{' {
			x.fail(ingest.ReasonUnknownFormat, "an OTLP export is a JSON object with resource%s", kind)
			j.skip()
		}
		x.object(&j, "the export", func(key []byte) {
			if members++; !isNamed(key, "resource"+kind) {
				j.skip()
				return
			}
			resources++
			x.list(&j, "resource"+kind, func() { x.jsonResource(&j, "scope"+kind, scope) })
		})
	}
	if resources == 0 && members > 0 {
		x.fail(ingest.ReasonUnknownFormat, "the object has no resource%s: it is no OTLP export of them", kind)
	}
	if x.refusal.Reason != "" {
		x.refuse(nil, x.refusal.Reason, "%s", x.refusal.Detail)
	}
}

// jsonResource reads a ResourceSpans or ResourceLogs.
func (x *export) jsonResource(j *jsonReader, scopes string, scope func(j *jsonReader)) {
	x.resource = record{}
	var behind jsonReader
	x.object(j, "a resource", func(key []byte) {
		switch {
		case string(key) == "resource":
			x.object(j, "resource", func(key []byte) {
				if string(key) == "attributes" {
					x.jsonAttributes(j, &x.resource, ofResource)
				} else {
					j.skip()
				}
			})
		case isNamed(key, scopes):
			behind.reset(j.raw())
		default:
			j.skip()
		}
	})
	if behind.kind() != 0 {
		x.list(&behind, scopes, func() { scope(&behind) })
	}
}

// jsonScope reads a ScopeSpans. A span that cannot be used refuses itself only.
func (x *export) jsonScope(j *jsonReader) {
	x.scope, x.version = nil, nil
	var behind jsonReader
	x.object(j, "scopeSpans", func(key []byte) {
		switch string(key) {
		case "scope":
			x.object(j, "scope", func(key []byte) {
				switch v := j.raw(); string(key) {
				case "name":
					x.scope = x.valueOf("", v).raw
				case "version":
					x.version = x.valueOf("", v).raw
				}
			})
		case "spans":
			behind.reset(j.raw())
		default:
			j.skip()
		}
	})
	if behind.kind() == 0 {
		return
	}
	x.list(&behind, "spans", func() {
		outer := x.refusal
		if x.begin() {
			x.jsonSpan(&behind)
			x.end()
		} else {
			behind.skip()
		}
		x.refusal = outer
	})
}

// jsonSpan reads a Span.
func (x *export) jsonSpan(j *jsonReader) {
	s := &x.span
	x.object(j, "the span", func(key []byte) {
		switch {
		case isNamed(key, "traceId"):
			jsonID(s.trace[:], j.raw())
		case isNamed(key, "spanId"):
			jsonID(s.id[:], j.raw())
		case isNamed(key, "parentSpanId"):
			jsonID(s.parent[:], j.raw())
		case isNamed(key, "startTimeUnixNano"):
			x.attrs.keep(fieldArrivedAt, x.value(j, "start_time_unix_nano"), 1)
		case isNamed(key, "endTimeUnixNano"):
			x.attrs.keep(fieldFinishedAt, x.value(j, "end_time_unix_nano"), 1)
		case string(key) == "attributes":
			x.jsonAttributes(j, &x.attrs, 0)
		case string(key) == "status":
			x.object(j, "status", func(key []byte) {
				if code := j.raw(); string(key) == "code" {
					x.failed = string(code) == strconv.Itoa(statusError) || string(code) == `"STATUS_CODE_ERROR"`
				}
			})
		default:
			j.skip()
		}
	})
}

// jsonID takes a hexadecimal id of the right length, in quotes; another is none.
func jsonID(to, quoted []byte) {
	if len(quoted) == 2*len(to)+2 {
		if _, err := hex.Decode(to, quoted[1:len(quoted)-1]); err != nil {
			clear(to)
		}
	}
}

// jsonAttributes reads a list of KeyValue.
func (x *export) jsonAttributes(j *jsonReader, to *record, rank uint16) {
	x.list(j, "attributes", func() {
		var node *fieldTree
		var content []byte
		x.object(j, "an attribute", func(key []byte) {
			switch raw := j.raw(); string(key) {
			case "key":
				node = otlpFields.at(x.valueOf("", raw).raw)
			case "value":
				content = raw
			}
		})
		if node != nil && node.leaf && content != nil {
			x.inner.reset(content)
			to.keep(node.field, x.jsonValue(&x.inner, node.path, true), rank+node.rank)
		}
	})
}

// jsonValue reads an AnyValue as protoValue does.
func (x *export) jsonValue(j *jsonReader, name string, inLists bool) (v value) {
	x.object(j, name, func(key []byte) {
		switch {
		case isNamed(key, "stringValue"), isNamed(key, "boolValue"):
			v = x.value(j, name)
		case isNamed(key, "intValue"), isNamed(key, "doubleValue"):
			if v = x.value(j, name); v.kind == '"' {
				v.kind = '0'
			}
		case isNamed(key, "arrayValue") && inLists:
			v = value{name, '{', nil}
			x.object(j, name, func(key []byte) {
				if string(key) != "values" {
					j.skip()
					return
				}
				first := true
				x.list(j, name, func() {
					if first {
						v, first = x.jsonValue(j, name, false), false
					} else {
						j.skip()
					}
				})
			})
		default:
			v = value{name, '{', nil}
			j.skip()
		}
	})
	return v
}

// An OTLP logs export is read for the request traces that NVIDIA Dynamo writes with DYN_REQUEST_TRACE_SINKS=otel: each is a log
// record whose attributes schema and payload hold the schema and the row (see decodeDynamo). Other log records are passed over.
//
// The pool is the resource's forewarm.pool, else that of the subject or URL, else the row's model, else the resource's service.name.

// The content types of OTLP logs exports, LogsData in the schema.
const (
	ContentTypeOTLPLogs     = "application/vnd.forewarm.otlp-logs+protobuf"
	ContentTypeOTLPLogsJSON = "application/vnd.forewarm.otlp-logs+json"
)

// logs is the state of decoding one export.
type logs struct {
	export
	meta Meta // of the message
}

// row decodes the row of the log record at hand.
func (x *logs) row() {
	d := x.decoder
	if x.spans++; x.spans > d.limits.BatchRecords {
		return
	}
	if string(x.attrs.text(fieldSchema)) != dynamoSchema {
		d.skip()
		return
	}
	a := &x.attrs.members
	d.meta, d.fields, d.service = x.meta, dynamoFields, d.attribute(a[fieldService])
	if pool := d.attribute(a[fieldPool]); pool != "" {
		d.meta.Pool = pool
	}
	if class := d.attribute(a[fieldClass]); class != "" {
		d.meta.Class = class
	}
	d.foreignRecord(a[fieldPayload].raw, d.dynamoRow)
}

// close ends the export.
func (x *logs) close() {
	if over := x.spans - x.limits.BatchRecords; over > 0 {
		x.refuse(nil, ingest.ReasonBatchTooLong, "%d log records beyond the limit of %d", over, x.limits.BatchRecords)
	}
	x.decoder.meta, x.service = x.meta, ""
}

// protoLog reads a LogRecord. Its attributes have number 6.
func (x *logs) protoLog(data []byte) ingest.Reason {
	x.attrs = x.resource
	fault := messages(data, 6, func(attribute []byte) ingest.Reason { return x.protoAttribute(attribute, &x.attrs, 0) })
	if fault == "" {
		x.row()
	}
	return fault
}

// jsonLog reads a LogRecord. A record that cannot be used refuses only itself.
func (x *logs) jsonLog(j *jsonReader) {
	outer := x.refusal
	x.refusal, x.attrs = ingest.Refusal{}, x.resource
	x.object(j, "the log record", func(key []byte) {
		if string(key) == "attributes" {
			x.jsonAttributes(j, &x.attrs, 0)
		} else {
			j.skip()
		}
	})
	if x.refusal.Reason != "" {
		x.refuse(nil, x.refusal.Reason, "%s", x.refusal.Detail)
	} else {
		x.row()
	}
	x.refusal = outer
}
