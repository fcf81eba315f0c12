package codec

import (
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// The request traces of NVIDIA Dynamo, schema dynamo.request.trace.v1, as its NATS and file sinks write them: one row,
// one a line, or an array; a row may be the member event of another object. Rows of requests with session headers are
// complete. The others are compact: output, arrival, and the prompt's length.
var dynamo = &foreign{read: (*Decoder).dynamoRow, fields: newFieldTable(paths{
	fieldSchema:        {"schema"},
	fieldObject:        {"event_type"},
	fieldLoggedAt:      {"event_time_unix_ms"},
	fieldSession:       {"agent_context.session_id"},
	fieldID:            {"request.request_id"},
	fieldModel:         {"request.model"},
	fieldPromptTokens:  {"request.input_tokens"},
	fieldCachedTokens:  {"request.cached_tokens"},
	fieldOutputTokens:  {"request.output_tokens"},
	fieldArrivedAt:     {"request.request_received_ms"},
	fieldQueueMS:       {"request.prefill_wait_time_ms"},
	fieldTTFTMS:        {"request.ttft_ms"},
	fieldDurationMS:    {"request.total_time_ms"},
	fieldHitRate:       {"request.kv_hit_rate"},
	fieldBlockedTokens: {"request.replay.input_length"},
	fieldStatus: { // the engine's reason has values that the API's lacks
		"request.finish_reason_metadata.backend_finish_reason", "request.finish_reason_metadata.finish_reason",
	},
}.below("", "event."))}

const dynamoSchema = "dynamo.request.trace.v1"

// dynamoRow reads a row. It ignores other event types, such as request_payload, which holds prompts and answers. Cached
// tokens are those of the row, or else the router's hit rate times the prompt.
func (d *Decoder) dynamoRow(r *record) {
	m := &r.members
	switch {
	case !r.has(fieldObject):
		d.fail(ingest.ReasonMissingField, "event_type is missing")
		return
	case string(r.text(fieldObject)) != "request_end":
		d.skip()
		return
	case string(r.text(fieldSchema)) != dynamoSchema:
		d.fail(ingest.ReasonUnknownFormat, "schema is %s, want %s", quoted(r.text(fieldSchema)), dynamoSchema)
		return
	}
	ended := d.looseTime(m[fieldLoggedAt])
	q := d.requestOf(r)
	dropLate(&q)
	if q.FinishedAt.IsZero() && ended.After(q.ArrivedAt) { // with an unknown end, Dynamo uses the arrival as event time
		q.FinishedAt = ended
		if early := q.FirstTokenAt.Sub(ended); early > 0 && early < time.Millisecond { // event times are whole milliseconds
			q.FinishedAt = q.FirstTokenAt
		}
	}
	if length := d.looseCount(m[fieldBlockedTokens], d.limits.Tokens); q.PromptTokens <= 0 && length > q.PromptTokens {
		q.PromptTokens = length // Dynamo reports an input of 0 when it only knows the cached tokens
	}
	if rate, ok := d.looseNumber(m[fieldHitRate]); ok && q.CachedTokens == ingest.Unknown && q.PromptTokens >= 0 {
		d.ratio(m[fieldHitRate].name, rate, &rate)
		q.CachedTokens = int64(rate*float64(q.PromptTokens) + 0.5)
	}
	d.accept(&q)
}
