package codec

import "github.com/forewarm/forewarm/ingest"

// Responses of OpenAI's and similar APIs, or the usage object of one: chat completions, completions, embeddings, the
// Responses API, Anthropic's messages. A wrapper may add pool, class, tenant and times.
// Schemas: https://platform.openai.com/docs/api-reference, https://docs.anthropic.com/en/api/messages.
var openAI = &foreign{read: (*Decoder).openAIResponse, fields: newFieldTable(ownPaths.or(paths{
	fieldRoute:        {"route"},
	fieldRegion:       {"region"},
	fieldReplica:      {"replica"},
	fieldSession:      {"session", "session_id"},
	fieldAttempt:      {"attempt"},
	fieldID:           {"request_id"},
	fieldArrivedAt:    {"arrived_at", "start_time"},
	fieldStartedAt:    {"started_at"},
	fieldFirstTokenAt: {"first_token_at"},
	fieldFinishedAt:   {"finished_at", "end_time"},
	fieldLoggedAt:     {"timestamp", "time"},
	fieldDurationS:    {"duration_s"},
	fieldDurationMS:   {"duration_ms", "latency_ms"},
	fieldTTFTS:        {"ttft_s"},
	fieldTTFTMS:       {"ttft_ms"},
	fieldPromptTokens: {"prompt_tokens", "input_tokens"},
},
	responsePaths.or(usagePaths.below("usage.")).below("", "response.", "response.body.", "body."),
	usagePaths,
))}

var responsePaths = paths{
	fieldID:              {"id"},
	fieldModel:           {"model"},
	fieldTenant:          {"user"},
	fieldTier:            {"service_tier"},
	fieldSession:         {"conversation.id"},
	fieldStatus:          {"status"},
	fieldCode:            {"status_code", "error.code", "error.type", "last_error.code"},
	fieldArrivedAt:       {"created", "created_at"},
	fieldFinishedAt:      {"completed_at"},
	fieldMaxOutputTokens: {"max_output_tokens", "max_completion_tokens", "max_tokens"},
	fieldUsage:           {"usage"},
}

var usagePaths = paths{
	fieldPromptTokens: {"prompt_tokens", "input_tokens", "tokens.input_tokens"},
	fieldCachedTokens: {
		"prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens", "prompt_cache_hit_tokens",
		"cached_tokens",
	},
	fieldCacheReadTokens:  {"cache_read_input_tokens"},
	fieldCacheWriteTokens: {"cache_creation_input_tokens"},
	fieldOutputTokens:     {"completion_tokens", "output_tokens", "tokens.output_tokens"},
	fieldTotalTokens:      {"total_tokens"},
}

// openAIResponse reads a response or a usage object. created is the arrival, as vLLM and SGLang set it. A record without
// any time ended when the stream stored the message or a listener received it, because usage is published at the end of
// a request. Without that time too it is refused.
//
// Of a streamed response the event with the usage counts, which is the last one. Events with a usage of null and
// responses that are not done are ignored.
func (d *Decoder) openAIResponse(r *record) {
	pending := r.is(fieldStatus, "queued", "in_progress")
	if pending || r.has(fieldUsage) && !r.counted() && !r.has(fieldStatus) && !r.has(fieldCode) {
		d.skip()
		return
	}
	q := d.requestOf(r)
	d.inferTokens(r, &q, false)
	if q.ArrivedAt.IsZero() && q.FinishedAt.IsZero() {
		if q.FinishedAt = d.batch.ReceivedAt; q.FinishedAt.IsZero() {
			d.fail(ingest.ReasonMissingField, "created is missing, and so are arrived_at, finished_at and the time at which the message was stored: add one of them")
		}
	}
	d.accept(&q)
}
