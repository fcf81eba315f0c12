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

// row decodes the row of the log record at hand.
func (x *logs) row() {
	d := x.decoder
	if x.spans++; x.spans > d.limits.BatchRecords {
		return
	}
	if string(x.attrs[otlpSchema].text) != dynamoSchema {
		d.batch.Ignored++
		return
	}
	d.meta, d.service, d.refusal = x.meta, "", Refusal{}
	x.attribution(otlpPool, &d.meta.Pool)
	x.attribution(otlpClass, &d.meta.Class)
	x.attribution(otlpService, &d.service)
	d.record(x.attrs[otlpPayload].text, decodeDynamoRow)
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
	x.attrs = x.resource
	fault := protoAttributes(data, message(6), &x.attrs, 0)
	if fault == "" {
		x.row()
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
	outer := x.refusal
	x.refusal, x.attrs = Refusal{}, x.resource
	x.members(record, func(v value) {
		if string(v.key) == "attributes" {
			x.jsonAttributes(v, &x.attrs, 0)
		}
	})
	if x.refusal.Reason != "" {
		x.refuse(nil, x.refusal.Reason, "%s", x.refusal.Detail)
	} else {
		x.row()
	}
	x.refusal = outer
}
