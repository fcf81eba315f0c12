package codec

import (
	"strings"

	"github.com/forewarm/forewarm/ingest"
)

// Responses of OpenAI's and similar APIs, or the usage object of one: chat completions, completions, embeddings, the
// Responses API, Anthropic's messages. A wrapper may add pool, class, tenant and times.
// Schemas: https://platform.openai.com/docs/api-reference, https://docs.anthropic.com/en/api/messages.
var openAIFields = newFieldTree(paths{
	fieldPool:         {"pool"},
	fieldClass:        {"class"},
	fieldTenant:       {"tenant"},
	fieldTier:         {"tier"},
	fieldFeature:      {"feature"},
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
}.or(
	responsePaths.or(usagePaths.below("usage.")).below("", "response.", "response.body.", "body."),
	usagePaths,
))

// responsePaths are the members of a response without the usage.
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

// usagePaths are the members of a usage object.
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

// decodeOpenAI reads responses and usage objects. created is the arrival, as vLLM and SGLang set it. A record without
// any time ended when the stream stored the message or a listener received it, because usage is published at the end of
// a request. Without that time too it is refused.
//
// Of a streamed response the event with the usage counts, which is the last one. Events with a usage of null and
// responses that are not done are ignored.
func decodeOpenAI(d *decoder, data []byte) {
	d.foreign(data, func(d *decoder, r *record) {
		pending := r.is(fieldStatus, "queued", "in_progress")
		if pending || r.has(fieldUsage) && !r.counted() && !r.has(fieldStatus) && !r.has(fieldCode) {
			d.skip()
			return
		}
		q := d.requestOf(r)
		d.inferTokens(r, &q)
		if q.ArrivedAt.IsZero() && q.FinishedAt.IsZero() {
			if q.FinishedAt = d.batch.ReceivedAt; q.FinishedAt.IsZero() {
				d.fail(ingest.ReasonMissingField, "created is missing, and so are arrived_at, finished_at and the time at which the message was stored: add one of them")
			}
		}
		d.accept(&q)
	})
}

// inferTokens adds cached tokens to the prompt count if they are missing, and derives the output from a total. The
// total includes the reasoning that xAI and Gemini leave out of the output. input_tokens beside cache_read_input_tokens
// or cache_creation_input_tokens, as in Anthropic's usage, excludes both: prompt = input + read + written.
func (d *decoder) inferTokens(r *record, q *ingest.Request) {
	count := func(f field) int64 { return d.looseCount(r.members[f], d.limits.Tokens) }
	total, read, written := count(fieldTotalTokens), count(fieldCacheReadTokens), count(fieldCacheWriteTokens)
	exclusive := strings.HasSuffix(r.members[fieldPromptTokens].name, "input_tokens") && q.CachedTokens == ingest.Unknown
	if total != ingest.Unknown && total == q.PromptTokens+max(q.OutputTokens, 0) {
		exclusive = false
	}
	if q.PromptTokens != ingest.Unknown && exclusive {
		d.addCached(q, max(read, 0)+max(written, 0))
	}
	if q.CachedTokens == ingest.Unknown {
		q.CachedTokens = read
	}
	switch {
	case total == ingest.Unknown:
	case q.PromptTokens != ingest.Unknown:
		q.OutputTokens = max(total-q.PromptTokens, q.OutputTokens, 0) // 0 for embeddings
	case q.OutputTokens != ingest.Unknown:
		q.PromptTokens = max(total-q.OutputTokens, 0)
	}
}

// addCached adds tokens read from a cache and written to it to a prompt count that leaves them out.
func (d *decoder) addCached(q *ingest.Request, tokens int64) {
	if q.PromptTokens += tokens; q.PromptTokens > d.limits.Tokens {
		d.fail(ingest.ReasonHugeCount, "the prompt and the cached tokens beside it are %d, the limit is %d", q.PromptTokens, d.limits.Tokens)
	}
}
