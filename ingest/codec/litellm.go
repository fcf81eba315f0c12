package codec

import (
	"strings"
	"time"
)

// LiteLLM's standard logging payload, as its generic_api callback posts it: an array, lines or single objects, of calls
// that succeeded or failed.
// Schema: https://docs.litellm.ai/docs/proxy/logging_spec, .../docs/observability/generic_api.
var liteLLM = &foreign{read: (*Decoder).liteLLMPayload, fields: newFieldTable(ownPaths.below("", "metadata.", "metadata.requester_metadata.", "metadata.spend_logs_metadata.").or(paths{
	fieldID:    {"id", "litellm_call_id"},
	fieldModel: {"model_group", "model"},
	fieldTenant: {
		"metadata.user_api_key_team_alias", "metadata.user_api_key_team_id", "metadata.user_api_key_alias",
		"metadata.user_api_key_org_id", "end_user", "metadata.user_api_key_end_user_id", "metadata.user_api_key_user_id",
		"user",
	},
	fieldTier:         {"model_parameters.service_tier"},
	fieldRoute:        {"call_type"},
	fieldReplica:      {"model_id", "hidden_params.model_id"},
	fieldSession:      {"metadata.session_id", "metadata.requester_metadata.session_id"},
	fieldStatus:       {"status"},
	fieldCode:         {"error_information.error_code", "error_information.error_class"},
	fieldArrivedAt:    {"startTime", "start_time"},
	fieldFirstTokenAt: {"completionStartTime"},
	fieldFinishedAt:   {"endTime", "end_time"},
	fieldPromptTokens: {"prompt_tokens", "metadata.usage_object.prompt_tokens"},
	fieldCachedTokens: {
		"metadata.usage_object.prompt_tokens_details.cached_tokens",
		"metadata.usage_object.input_tokens_details.cached_tokens",
	},
	fieldCacheReadTokens:  {"metadata.usage_object.cache_read_input_tokens"},
	fieldCacheWriteTokens: {"metadata.usage_object.cache_creation_input_tokens"},
	fieldOutputTokens:     {"completion_tokens", "metadata.usage_object.completion_tokens"},
	fieldMaxOutputTokens: {
		"model_parameters.max_completion_tokens", "model_parameters.max_tokens", "model_parameters.max_output_tokens",
	},
	fieldRetries:  {"metadata.attempted_retries"},
	fieldCacheHit: {"cache_hit"},
	fieldStream:   {"stream"},
}))}

// liteLLMPayload reads a payload. It ignores a cache_hit, which is an answer from the proxy's response cache; a
// hit of the engine's prefix cache is in metadata.usage_object. A failure counts the tokens that it reports; without
// any its prompt is unknown. Calls that generate no text are ignored: tools, files, stored responses and batches,
// which repeat the usage of other calls.
//
// trace_id is no session: LiteLLM makes a new one for each call.
func (d *Decoder) liteLLMPayload(r *record) {
	if r.is(fieldCacheHit, "true", "1") || r.contains(fieldRoute, managementWords...) {
		d.skip()
		return
	}
	q := d.requestOf(r)
	if r.contains(fieldRoute, "passthrough", "pass_through", "rerank") && q.PromptTokens <= 0 && q.OutputTokens <= 0 {
		d.skip() // neither model nor tokens are known
		return
	}
	d.inferTokens(r, &q, false)
	if !r.is(fieldStream, "true", "1") && q.FirstTokenAt.Equal(q.FinishedAt) {
		q.FirstTokenAt = time.Time{} // time of the whole response; that of its first token is unknown
	}
	d.accept(&q)
}

// managementWords are parts of the call types that are no inference by a language model. LiteLLM names them by verb and
// object, such as aretrieve_batch, and adds new ones with each version. Its list is CallTypes in litellm/types/utils.py.
var managementWords = strings.Fields(`get_ list_ delete_ cancel_ retrieve_ update_ batch file fine_tuning vector_store search
	mcp container skill eval _agent client_secret image video speech transcription ocr moderation management`)
