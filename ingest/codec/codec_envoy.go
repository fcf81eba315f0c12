package codec

import (
	"bytes"

	"github.com/forewarm/forewarm/ingest"
)

// JSON access logs of Envoy AI Gateway. Their keys are the user's choice; these are the ones of its documentation and
// examples, of OpenTelemetry's names and of the metadata keys themselves. Others are named in [Fields].
// Schema: https://aigateway.envoyproxy.io/docs/capabilities/observability/accesslogs.
var envoyFields = newFieldTree([]source{
	{fieldID, "x-request-id"},
	{fieldID, "x_request_id"},
	{fieldID, "request_id"},
	{fieldPool, "pool"},
	{fieldPool, "x-forewarm-pool"},
	{fieldClass, "class"},
	{fieldClass, "x-forewarm-class"},
	{fieldModel, "gen_ai.request.model"},
	{fieldModel, "genai_model_name"},
	{fieldModel, "x-ai-eg-model"},
	{fieldModel, "model"},
	{fieldModel, "gen_ai.response.model"},
	{fieldModel, "genai_model_name_override"},
	{fieldTenant, "tenant"},
	{fieldTenant, "x-tenant-id"},
	{fieldTenant, "tenant_id"},
	{fieldTenant, "x-org-id"},
	{fieldTenant, "x-user-id"},
	{fieldTenant, "user_id"},
	{fieldTier, "tier"},
	{fieldTier, "x-tier"},
	{fieldFeature, "feature"},
	{fieldFeature, "x-feature"},
	{fieldFeature, "gen_ai.operation.name"},
	{fieldRoute, "x-envoy-origin-path"},
	{fieldRoute, "x-envoy-original-path"},
	{fieldRoute, "path"},
	{fieldRoute, ":path"},
	{fieldRoute, "route_name"},
	{fieldRoute, "upstream_cluster"},
	{fieldRegion, "region"},
	{fieldReplica, "upstream_host"},
	{fieldSession, "session.id"},
	{fieldSession, "session_id"},
	{fieldSession, "x-session-id"},
	{fieldSession, "gen_ai.conversation.id"},
	{fieldCode, "response_code"},
	{fieldStatus, "status"},
	{fieldCode, "status_code"},
	{fieldTags, "response_flags"},
	{fieldArrivedAt, "start_time"},
	{fieldArrivedAt, "startTime"},
	{fieldFinishedAt, "end_time"},
	{fieldLoggedAt, "@timestamp"},
	{fieldLoggedAt, "timestamp"},
	{fieldLoggedAt, "time"},
	{fieldDurationMS, "duration"},
	{fieldDurationMS, "duration_ms"},
	{fieldTTFTS, "gen_ai.server.time_to_first_token"},
	{fieldTTFTMS, "gen_ai.latency.time_to_first_token_ms"},
	{fieldTTFTMS, "ttft_ms"},
	{fieldPromptTokens, "gen_ai.usage.input_tokens"},
	{fieldPromptTokens, "genai_tokens_input"},
	{fieldPromptTokens, "llm_input_token"},
	{fieldPromptTokens, "llm_input_tokens"},
	{fieldPromptTokens, "gen_ai.usage.prompt_tokens"},
	{fieldPromptTokens, "input_tokens"},
	{fieldPromptTokens, "prompt_tokens"},
	{fieldCachedTokens, "gen_ai.usage.cache_read.input_tokens"},
	{fieldCachedTokens, "gen_ai.usage.cached_input_tokens"},
	{fieldCachedTokens, "gen_ai.usage.cached_tokens"},
	{fieldCachedTokens, "genai_tokens_cached_input"},
	{fieldCachedTokens, "genai_tokens_cached"},
	{fieldCachedTokens, "llm_cached_input_token"},
	{fieldCachedTokens, "llm_cached_input_tokens"},
	{fieldCachedTokens, "cached_input_tokens"},
	{fieldCachedTokens, "cached_tokens"},
	{fieldOutputTokens, "gen_ai.usage.output_tokens"},
	{fieldOutputTokens, "genai_tokens_output"},
	{fieldOutputTokens, "llm_output_token"},
	{fieldOutputTokens, "llm_output_tokens"},
	{fieldOutputTokens, "gen_ai.usage.completion_tokens"},
	{fieldOutputTokens, "output_tokens"},
	{fieldOutputTokens, "completion_tokens"},
	{fieldTotalTokens, "gen_ai.usage.total_tokens"},
	{fieldTotalTokens, "genai_tokens_total"},
	{fieldTotalTokens, "llm_total_token"},
	{fieldTotalTokens, "total_tokens"},
	{fieldMaxOutputTokens, "gen_ai.request.max_tokens"},
	{fieldObject, "mcp.method.name"},
	{fieldObject, "mcp_method"},
	{fieldObject, "method"},
})

// decodeEnvoy reads access logs. The gateway logs a line for whatever passes it: tool calls (MCP) and requests that send
// nothing, such as the list of models, are passed over. A response whose status had been sent when its client left or
// its pool was full is told by the flags, of Envoy's %RESPONSE_FLAGS%.
func decodeEnvoy(d *decoder, data []byte) {
	d.foreign(data, func(d *decoder, r *record) {
		if !r.counted() && !isLLMCall(r.members[fieldObject]) {
			d.skip()
			return
		}
		q := d.requestOf(r)
		if status, ok := flagged(r.members[fieldTags].raw); ok {
			q.Status = status
		}
		if path, _, ok := bytes.Cut([]byte(q.Route), []byte{'?'}); ok { // a query can say anything
			q.Route = string(path)
		}
		d.inferTokens(r, &q)
		d.accept(&q)
	})
}

// isLLMCall says whether what a line says of its method, of HTTP or MCP, may be a call of a model.
func isLLMCall(method found) bool {
	return method.missing() || bytes.EqualFold(method.raw, []byte("POST"))
}

// flagged reads the response flags that say more than the code: a client that left, a limit that was met.
func flagged(flags []byte) (status ingest.Status, ok bool) {
	for flag := range bytes.SplitSeq(flags, []byte{','}) {
		switch string(bytes.TrimSpace(flag)) {
		case "DC", "DPE", "DownstreamConnectionTermination":
			return ingest.StatusCancelled, true
		case "RL", "RLSE", "UO", "OM", "RateLimited", "UpstreamOverflow":
			status, ok = ingest.StatusRejected, true
		}
	}
	return status, ok
}
