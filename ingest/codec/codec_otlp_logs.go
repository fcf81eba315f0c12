package codec

import "github.com/forewarm/forewarm/ingest"

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
	d.meta, d.service, d.refusal = x.meta, "", ingest.Refusal{}
	x.attribution(otlpPool, &d.meta.Pool)
	x.attribution(otlpClass, &d.meta.Class)
	x.attribution(otlpService, &d.service)
	d.record(x.attrs[otlpPayload].text, decodeDynamoRow)
}

// close ends the export.
func (x *logs) close() {
	if over := x.spans - x.limits.BatchRecords; over > 0 {
		x.refuse(nil, ingest.ReasonBatchTooLong, "%d log records beyond the limit of %d", over, x.limits.BatchRecords)
	}
	x.decoder.meta, x.decoder.service = x.meta, ""
}

// decodeOTLPLogs reads a LogsData, or the ExportLogsServiceRequest that has the same bytes. O(len(data)).
func decodeOTLPLogs(d *decoder, data []byte) {
	if !d.belongs() {
		return
	}
	x := logs{export: export{decoder: d}, meta: d.meta}
	x.proto(data, "logs", func(scope []byte) ingest.Reason { return eachMessage(scope, 2, x.protoLog) })
	x.close()
}

// protoLog reads a LogRecord. Its attributes have number 6.
func (x *logs) protoLog(data []byte) ingest.Reason {
	x.attrs = x.resource
	fault := protoAttributes(data, 6, &x.attrs, 0)
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
	x := logs{export: export{decoder: d}, meta: d.meta}
	x.json(data, "Logs", func(scope value) { x.named(scope, "logRecords", "log_records", x.jsonLog) })
	x.close()
}

// jsonLog reads a LogRecord. A record that cannot be used refuses only itself.
func (x *logs) jsonLog(record value) {
	outer := x.refusal
	x.refusal, x.attrs = ingest.Refusal{}, x.resource
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
