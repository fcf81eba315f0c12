package codec

import (
	"bytes"

	"github.com/forewarm/forewarm/ingest"
)

// JSON access logs of Envoy AI Gateway. Users choose the keys. These are the keys of its documentation and examples, of
// OpenTelemetry's names and of the metadata.
// Schema: https://aigateway.envoyproxy.io/docs/capabilities/observability/accesslogs.
var envoy = &foreign{read: (*Decoder).envoyLine, fields: newFieldTable(paths{
	fieldID:    {"x-request-id", "x_request_id", "request_id"},
	fieldPool:  {"pool", "x-forewarm-pool"},
	fieldClass: {"class", "x-forewarm-class"},
	fieldModel: {
		"gen_ai.request.model", "genai_model_name", "x-ai-eg-model", "model", "gen_ai.response.model",
		"genai_model_name_override",
	},
	fieldTenant:     {"tenant", "x-tenant-id", "tenant_id", "x-org-id", "x-user-id", "user_id"},
	fieldTier:       {"tier", "x-tier"},
	fieldFeature:    {"feature", "x-feature", "gen_ai.operation.name"},
	fieldRoute:      {"x-envoy-origin-path", "x-envoy-original-path", "path", ":path", "route_name", "upstream_cluster"},
	fieldRegion:     {"region"},
	fieldReplica:    {"upstream_host"},
	fieldSession:    {"session.id", "session_id", "x-session-id", "gen_ai.conversation.id"},
	fieldCode:       {"response_code", "status_code"},
	fieldStatus:     {"status"},
	fieldTags:       {"response_flags"},
	fieldArrivedAt:  {"start_time", "startTime"},
	fieldFinishedAt: {"end_time"},
	fieldLoggedAt:   {"@timestamp", "timestamp", "time"},
	fieldDurationMS: {"duration", "duration_ms"},
	fieldTTFTS:      {"gen_ai.server.time_to_first_token"},
	fieldTTFTMS:     {"gen_ai.latency.time_to_first_token_ms", "ttft_ms"},
	fieldPromptTokens: {
		"gen_ai.usage.input_tokens", "genai_tokens_input", "llm_input_token", "llm_input_tokens",
		"gen_ai.usage.prompt_tokens", "input_tokens", "prompt_tokens",
	},
	fieldCachedTokens: {
		"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cached_input_tokens", "gen_ai.usage.cached_tokens",
		"genai_tokens_cached_input", "genai_tokens_cached", "llm_cached_input_token", "llm_cached_input_tokens",
		"cached_input_tokens", "cached_tokens",
	},
	fieldOutputTokens: {
		"gen_ai.usage.output_tokens", "genai_tokens_output", "llm_output_token", "llm_output_tokens",
		"gen_ai.usage.completion_tokens", "output_tokens", "completion_tokens",
	},
	fieldTotalTokens:     {"gen_ai.usage.total_tokens", "genai_tokens_total", "llm_total_token", "total_tokens"},
	fieldMaxOutputTokens: {"gen_ai.request.max_tokens"},
	fieldMethod:          {"mcp.method.name", "mcp_method", "method"},
})}

// envoyLine reads a line of an access log. It ignores tool calls (MCP), and requests without a body such as the list of
// models. Envoy's %RESPONSE_FLAGS% show a client that left, or a full pool, after the status was sent.
func (d *Decoder) envoyLine(r *record) {
	if !r.counted() && !isLLMCall(r.members[fieldMethod]) {
		d.skip()
		return
	}
	q := d.requestOf(r)
	if status, ok := flagged(r.text(fieldTags)); ok {
		q.Status = status
	}
	if path, _, ok := bytes.Cut([]byte(q.Route), []byte{'?'}); ok { // a query may contain users' text
		q.Route = string(path)
	}
	d.inferTokens(r, &q, false)
	d.accept(&q)
}

// isLLMCall reports whether a method of HTTP or MCP may be a call of a model.
func isLLMCall(method value) bool {
	return method.missing() || bytes.EqualFold(method.raw, []byte("POST"))
}

// flagged reads the response flags of a client that left or a limit that was reached.
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
