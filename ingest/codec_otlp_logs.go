package ingest

import (
	"bytes"
	"unicode/utf8"

	"github.com/buger/jsonparser"
)

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

// row decodes the row of a log record whose attributes are known, after those of its resource.
func (x *logs) row(schema, payload []byte) {
	d := x.decoder
	if x.spans++; x.spans > d.limits.BatchRecords {
		return
	}
	if string(schema) != dynamoSchema {
		d.batch.Ignored++
		return
	}
	d.meta, d.service, d.refusal = x.meta, "", Refusal{}
	x.attrs = x.resource
	for _, name := range [...]struct {
		field otlpField
		to    *string
	}{{otlpPool, &d.meta.Pool}, {otlpClass, &d.meta.Class}, {otlpService, &d.service}} {
		x.attribution(name.field, name.to)
	}
	d.record(payload, decodeDynamoRow)
}

// close ends the export.
func (x *logs) close() {
	if over := x.spans - x.limits.BatchRecords; over > 0 {
		x.refuse(nil, ReasonBatchTooLong, "%d log records beyond the limit of %d", over, x.limits.BatchRecords)
	}
	x.decoder.meta, x.decoder.service = x.meta, ""
}

// decodeOTLPLogs reads a LogsData, or the ExportLogsServiceRequest that has the same bytes. O(len(data)).
func decodeOTLPLogs(d *decoder, data []byte) {
	if !d.belongs() {
		return
	}
	x := logs{export: export{decoder: d}, meta: d.meta}
	resources := 0
	fault := eachMessage(data, 1, func(resource []byte) Reason { // resource_logs
		resources++
		x.resource = otlpAttrs{}
		fault := eachMessage(resource, 1, func(data []byte) Reason { return protoAttributes(data, message(1), &x.resource, ofResource) })
		if fault != "" {
			return fault
		}
		return eachMessage(resource, 2, func(scope []byte) Reason { return eachMessage(scope, 2, x.protoLog) }) // scope_logs, log_records
	})
	switch {
	case fault != "":
		d.refuse(nil, fault, "the export breaks within its %d bytes: what follows is lost", len(data))
	case resources == 0 && len(data) > 0:
		d.refuse(nil, ReasonUnknownFormat, "the message has no resource_logs: it is no OTLP logs export")
	}
	x.close()
}

// eachMessage calls f for the embedded messages with a field number, until one is at fault.
func eachMessage(data []byte, number uint64, f func(data []byte) Reason) Reason {
	w := wire{data: data}
	for w.more() {
		if tag := w.varint(); tag != message(number) {
			w.skip(tag)
		} else if inner := w.bytes(); w.fault == "" {
			w.adopt(f(inner))
		}
	}
	return w.fault
}

// protoLog reads a LogRecord. Its attributes have number 6.
func (x *logs) protoLog(data []byte) Reason {
	var schema, payload []byte
	fault := eachMessage(data, 6, func(attribute []byte) (fault Reason) {
		var key []byte
		var v otlpValue
		fault = eachMessage(attribute, 1, func(data []byte) Reason { key = data; return "" })
		if fault == "" {
			fault = eachMessage(attribute, 2, func(data []byte) (fault Reason) { v, fault = protoValue(data, false); return fault })
		}
		switch string(key) {
		case "schema":
			schema = v.text
		case "payload":
			payload = v.text
		}
		return fault
	})
	if fault == "" {
		x.row(schema, payload)
	}
	return fault
}

// decodeOTLPLogsJSON reads a LogsData in the JSON of OTLP. O(len(data)).
func decodeOTLPLogsJSON(d *decoder, data []byte) {
	if !d.belongs() {
		return
	}
	if reason, at := scan(data, otlpNesting*d.limits.Depth); reason != "" || !utf8.Valid(data) {
		if reason == "" {
			reason = ReasonInvalidUTF8
		}
		d.refuse(nil, reason, "at byte %d of %d", at, len(data))
		return
	}
	x := logs{export: export{decoder: d}, meta: d.meta}
	d.refusal = Refusal{}
	resources := 0
	x.members(value{key: []byte("the export"), raw: bytes.TrimSpace(data), typ: typeOf(data)}, func(v value) {
		if string(v.key) == "resourceLogs" || string(v.key) == "resource_logs" {
			resources++
			x.elements(v, x.jsonResourceLogs)
		}
	})
	if resources == 0 {
		x.fail(ReasonUnknownFormat, "the object has no resourceLogs: it is no OTLP logs export")
	}
	if x.refusal.Reason != "" {
		d.refuse(nil, x.refusal.Reason, "%s", x.refusal.Detail)
	}
	x.close()
}

// typeOf is the type of a JSON value that is an object or something else.
func typeOf(data []byte) jsonparser.ValueType {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return jsonparser.Object
	}
	return jsonparser.Unknown
}

func (x *logs) jsonResourceLogs(resource value) {
	x.jsonResourceAttributes(resource)
	x.members(resource, func(v value) {
		if string(v.key) == "scopeLogs" || string(v.key) == "scope_logs" {
			x.elements(v, func(scope value) {
				x.members(scope, func(v value) {
					if string(v.key) == "logRecords" || string(v.key) == "log_records" {
						x.elements(v, x.jsonLog)
					}
				})
			})
		}
	})
}

// jsonLog reads a LogRecord. A record that cannot be used refuses only itself.
func (x *logs) jsonLog(record value) {
	var schema, payload []byte
	outer := x.refusal
	x.refusal = Refusal{}
	x.members(record, func(v value) {
		if string(v.key) != "attributes" {
			return
		}
		x.elements(v, func(pair value) {
			var key string
			var content otlpValue
			x.members(pair, func(v value) {
				switch string(v.key) {
				case "key":
					key = string(v.raw)
				case "value":
					content = x.jsonValue(v, false)
				}
			})
			switch key {
			case "schema":
				schema = content.text
			case "payload":
				payload = content.text
			}
		})
	})
	if x.refusal.Reason != "" {
		x.refuse(nil, x.refusal.Reason, "%s", x.refusal.Detail)
	} else {
		x.row(schema, payload)
	}
	x.refusal = outer
}
