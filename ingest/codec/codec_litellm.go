package codec

import (
	"bytes"
	"strings"
	"time"

	"github.com/buger/jsonparser"

	"github.com/forewarm/forewarm/ingest"
)

// LiteLLM's standard logging payload, as its generic_api callback posts it: an array, lines or single objects, of calls
// that succeeded or failed.
// Schema: https://docs.litellm.ai/docs/proxy/logging_spec, .../docs/observability/generic_api.
var liteLLMFields = newFieldTree([]source{
	{fieldID, "id"},
	{fieldID, "litellm_call_id"},
	{fieldPool, "pool"},
	{fieldPool, "metadata.pool"},
	{fieldPool, "metadata.requester_metadata.pool"},
	{fieldPool, "metadata.spend_logs_metadata.pool"},
	{fieldClass, "class"},
	{fieldClass, "metadata.class"},
	{fieldClass, "metadata.requester_metadata.class"},
	{fieldClass, "metadata.spend_logs_metadata.class"},
	{fieldModel, "model_group"},
	{fieldModel, "model"},
	{fieldTenant, "tenant"},
	{fieldTenant, "metadata.user_api_key_team_alias"},
	{fieldTenant, "metadata.user_api_key_team_id"},
	{fieldTenant, "metadata.user_api_key_alias"},
	{fieldTenant, "metadata.user_api_key_org_id"},
	{fieldTenant, "end_user"},
	{fieldTenant, "metadata.user_api_key_end_user_id"},
	{fieldTenant, "metadata.user_api_key_user_id"},
	{fieldTenant, "user"},
	{fieldTier, "tier"},
	{fieldTier, "metadata.tier"},
	{fieldTier, "metadata.requester_metadata.tier"},
	{fieldTier, "metadata.spend_logs_metadata.tier"},
	{fieldTier, "model_parameters.service_tier"},
	{fieldFeature, "feature"},
	{fieldFeature, "metadata.feature"},
	{fieldFeature, "metadata.requester_metadata.feature"},
	{fieldFeature, "metadata.spend_logs_metadata.feature"},
	{fieldRoute, "call_type"},
	{fieldReplica, "model_id"},
	{fieldReplica, "hidden_params.model_id"},
	{fieldSession, "metadata.session_id"},
	{fieldSession, "metadata.requester_metadata.session_id"},
	{fieldStatus, "status"},
	{fieldCode, "error_information.error_code"},
	{fieldCode, "error_information.error_class"},
	{fieldArrivedAt, "startTime"},
	{fieldArrivedAt, "start_time"},
	{fieldFirstTokenAt, "completionStartTime"},
	{fieldFinishedAt, "endTime"},
	{fieldFinishedAt, "end_time"},
	{fieldPromptTokens, "prompt_tokens"},
	{fieldPromptTokens, "metadata.usage_object.prompt_tokens"},
	{fieldCachedTokens, "metadata.usage_object.prompt_tokens_details.cached_tokens"},
	{fieldCachedTokens, "metadata.usage_object.input_tokens_details.cached_tokens"},
	{fieldCacheReadTokens, "metadata.usage_object.cache_read_input_tokens"},
	{fieldCacheWriteTokens, "metadata.usage_object.cache_creation_input_tokens"},
	{fieldOutputTokens, "completion_tokens"},
	{fieldOutputTokens, "metadata.usage_object.completion_tokens"},
	{fieldMaxOutputTokens, "model_parameters.max_completion_tokens"},
	{fieldMaxOutputTokens, "model_parameters.max_tokens"},
	{fieldMaxOutputTokens, "model_parameters.max_output_tokens"},
	{fieldRetries, "metadata.attempted_retries"},
	{fieldCacheHit, "cache_hit"},
	{fieldStream, "stream"},
	{fieldTags, "request_tags"},
	{fieldUsage, "usage"},
})

// decodeLiteLLM reads LiteLLM's payloads. cache_hit is the proxy's response cache: no engine saw such a request, so it is
// passed over; a hit of the engine's prefix cache is in metadata.usage_object. A failure loads the pool only by the
// tokens it reports; without any it says that a request failed, or was turned away, and its prompt is not known. Calls
// that generate no text of their own are passed over: tools, files, stored responses and batches, whose usage is that of
// other calls.
//
// LiteLLM adds what Anthropic counts apart, the tokens read from its cache and written to it, to prompt_tokens. Where
// prompt_tokens is smaller than these, it did not.
//
// trace_id is no session: LiteLLM makes a new one for each call.
func decodeLiteLLM(d *decoder, data []byte) {
	d.foreign(data, func(d *decoder, r *record) {
		if looseFlag(r.members[fieldCacheHit]) || isManagement(r.members[fieldRoute].raw) {
			d.skip()
			return
		}
		d.tags(r)
		usageText(r)
		q := d.requestOf(r)
		for _, word := range [...]string{"passthrough", "pass_through", "rerank"} {
			if bytes.Contains(r.members[fieldRoute].raw, []byte(word)) && q.PromptTokens <= 0 && q.OutputTokens <= 0 {
				d.skip() // nobody knows what was called, or what it took
				return
			}
		}
		read, written := d.cacheCounts(r)
		if q.PromptTokens != ingest.Unknown && q.PromptTokens < max(read, 0)+max(written, 0) {
			d.include(&q, read, written)
		}
		if q.CachedTokens == ingest.Unknown {
			q.CachedTokens = read
		}
		if !looseFlag(r.members[fieldStream]) && q.FirstTokenAt.Equal(q.FinishedAt) {
			q.FirstTokenAt = time.Time{} // when the whole response came; of its first token nothing is known
		}
		d.accept(&q)
	})
}

// usageText reads the counts of payloads that LiteLLM writes with generic_api_use_v1. All their values are what Python prints, and
// the counts are only in usage.
func usageText(r *record) {
	text := r.members[fieldUsage].raw
	for _, s := range usageMembers("") {
		if digits := printedCount(text, s.path[strings.LastIndexByte(s.path, '.')+1:]); len(digits) > 0 && !r.has(s.field) {
			r.members[s.field], r.ranks[s.field] = found{"usage", digits, jsonparser.Number}, lastRank
		}
	}
}

// printedCount finds a count in what Python prints of an object or a dictionary: Usage(prompt_tokens=30, …) or
// {'prompt_tokens': 30, …}.
func printedCount(text []byte, name string) (digits []byte) {
	for _, form := range [...][2]string{{"(", "="}, {" ", "="}, {"'", "': "}} {
		if _, rest, ok := bytes.Cut(text, []byte(form[0]+name+form[1])); ok {
			return rest[:len(rest)-len(bytes.TrimLeft(rest, "0123456789"))]
		}
	}
	return nil
}

// isManagement says whether a call_type is of no inference by a language model. LiteLLM names them by what is done to
// what, such as aretrieve_batch, and adds new ones with each version; its own list is CallTypes in litellm/types/utils.py.
func isManagement(callType []byte) bool {
	for _, word := range managementWords {
		if bytes.Contains(callType, word) {
			return true
		}
	}
	return false
}

var managementWords = bytes.Fields([]byte(`get_ list_ delete_ cancel_ retrieve_ update_ batch file fine_tuning vector_store search
	mcp container skill eval _agent client_secret image video speech transcription ocr moderation management`))

// tags reads what tags say that no field does: "class:chat" is the class, likewise pool, tenant, tier, feature and route;
// the first other tag is the feature. LiteLLM adds the user agent as a tag of its own.
func (d *decoder) tags(r *record) {
	tags := r.members[fieldTags]
	if tags.typ != jsonparser.Array {
		return
	}
	_, err := jsonparser.ArrayEach(tags.raw, func(tag []byte, typ jsonparser.ValueType, _ int, _ error) {
		if typ != jsonparser.String || bytes.HasPrefix(tag, []byte("User-Agent:")) {
			return
		}
		f, value := fieldFeature, tag
		if key, rest, ok := bytes.Cut(tag, []byte{':'}); ok {
			for i := fieldPool; i <= fieldRoute; i++ {
				if fieldNames[i] == string(key) {
					f, value = i, rest
				}
			}
		}
		if !r.has(f) {
			r.members[f], r.ranks[f] = found{"request_tags", value, jsonparser.String}, lastRank
		}
	})
	if err != nil {
		d.fail(ingest.ReasonNotJSON, "request_tags: %v", err)
	}
}
