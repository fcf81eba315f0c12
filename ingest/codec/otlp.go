package codec

import (
	"fmt"

	"github.com/forewarm/forewarm/ingest"
)

// An OTLP trace export becomes one request for each inference among its spans.
//
// A span is an inference if it has token counts, or the operation name or span kind of one. Agents, tools, chains and
// workflows sum the counts of other spans. They and all spans of other software are ignored and counted. A failed
// inference may have unknown tokens. A successful one without counts is refused: probably usage was not requested.
//
// A gateway (or client library) and an engine may both report a request. It counts once if
//
//   - both are in one export and one is an ancestor of the other. The innermost span counts and inherits missing names
//     (see otlp_nest.go). Calls of one agent are not ancestors of each other, so they all count;
//   - or both have the same response id (gen_ai.response.id, gen_ai.request.id) and the same pool: the pipeline drops
//     the later one as a duplicate.
//
// If a gateway and its engine export separately and share no id, only one of them may be sent here. A span does not
// show how many others a sampler dropped: sampled traces understate demand.
//
// The pool is the attribute forewarm.pool (of the span or its resource), else that of the subject or URL, else the
// model, else service.name. Prompts, answers, events and links are skipped without being read.

// The content types of OTLP trace exports (opentelemetry.io/docs/specs/otlp, TracesData). OTLP/HTTP uses
// application/json for its JSON. On the telemetry stream that is the native record.
const (
	ContentTypeOTLP     = "application/x-protobuf"
	ContentTypeOTLPJSON = "application/vnd.forewarm.otlp+json"
)

// The names of the attributes are those of the OpenTelemetry conventions for generative AI, new and old; of vLLM and
// SGLang (gen_ai.latency.*, seconds); of OpenInference (llm.token_count.*), which Envoy AI Gateway speaks; of
// OpenLLMetry (llm.usage.*, traceloop.*); of LiteLLM (metadata.*) and of the Vercel AI SDK (ai.*). Users can set those
// that start with forewarm. for values that the others do not have.
var otlp = &foreign{fields: newFieldTable(paths{
	fieldPromptTokens: {
		"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "llm.usage.prompt_tokens",
		"ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens",
	},
	fieldCacheReadTokens: {
		"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens", "gen_ai.usage.cached_tokens",
		"gen_ai.usage.cache_read_tokens", "llm.token_count.prompt_details.cache_read", "llm.usage.cache_read_input_tokens",
		"ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens",
	},
	fieldCacheWriteTokens: {
		"gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens",
		"gen_ai.usage.cache_write_input_tokens", "gen_ai.usage.cache_write_tokens",
		"llm.token_count.prompt_details.cache_write", "llm.usage.cache_creation_input_tokens", "ai.usage.inputTokenDetails.cacheWriteTokens",
	},
	fieldOutputTokens: {
		"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
		"llm.usage.completion_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens",
	},
	fieldTotalTokens:     {"gen_ai.usage.total_tokens", "llm.token_count.total", "llm.usage.total_tokens", "ai.usage.totalTokens"},
	fieldMaxOutputTokens: {"gen_ai.request.max_tokens", "gen_ai.request.max_completion_tokens", "llm.request.max_tokens", "ai.settings.maxOutputTokens"},

	fieldQueueS: {"gen_ai.latency.time_in_queue"},
	fieldTTFTS: {
		"gen_ai.response.time_to_first_chunk", "gen_ai.client.operation.time_to_first_chunk", "gen_ai.latency.time_to_first_token",
		"gen_ai.server.time_to_first_token", "agw.ai.time_to_first_token",
	},
	fieldTTFTMS:    {"ai.response.msToFirstChunk"},
	fieldDurationS: {"gen_ai.latency.e2e"},

	fieldResponseID: {"gen_ai.response.id", "gen_ai.request.id", "llm.response.id", "ai.response.id"},
	fieldPool:       {"forewarm.pool"},
	fieldClass:      {"forewarm.class"},
	fieldModel: {
		"gen_ai.request.model", "llm.request.model_name", "gen_ai.response.model", "llm.model_name", "llm.request.model",
		"llm.response.model_name", "llm.response.model", "embedding.model_name", "ai.model.id",
	},
	fieldTenant: {
		"forewarm.tenant", "tenant.id", "tenant", "metadata.user_api_key_team_alias", "litellm.team.alias", "litellm.team.id",
		"metadata.user_api_key_team_id", "metadata.user_api_key_alias", "litellm.metadata.user_api_key_alias", "metadata.user_api_key_org_id",
		"litellm.end_user.id", "metadata.user_api_key_end_user_id", "metadata.user_api_key_user_id", "enduser.id", "user.id",
		"ai.telemetry.metadata.userId", "traceloop.association.properties.user_id", "gen_ai.user", "llm.user",
	},
	fieldTier:    {"forewarm.tier", "openai.request.service_tier", "gen_ai.openai.request.service_tier"},
	fieldFeature: {"forewarm.feature", "gen_ai.agent.name", "ai.telemetry.functionId"},
	fieldRoute:   {"forewarm.route", "http.route"},
	fieldRegion:  {"forewarm.region", "cloud.region"},
	fieldReplica: {"forewarm.replica"},
	fieldSession: {
		"forewarm.session", "gen_ai.conversation.id", "session.id", "gen_ai.session.id", "langfuse.session.id", "traceloop.association.properties.session_id",
		"ai.telemetry.metadata.sessionId",
	},

	fieldOperation: {"gen_ai.operation.name", "llm.request.type"},
	fieldCallType:  {"litellm.call_type"},
	fieldSpanKind:  {"openinference.span.kind", "traceloop.span.kind"},
	fieldCall:      {"ai.operationId"},
	fieldStatus:    {"gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "llm.response.finish_reason", "llm.finish_reason", "ai.response.finishReason"},
	fieldCode:      {"http.response.status_code", "http.status_code", "http.status", "error.code", "litellm.provider.error.code", "error.type"},

	fieldProvider: {"gen_ai.provider.name", "gen_ai.system", "llm.system", "llm.provider", "ai.model.provider"},

	fieldSchema:  {"schema"}, // of Dynamo's log records, as is payload
	fieldPayload: {"payload"},

	fieldService:  {"service.name"},
	fieldInstance: {"service.instance.id", "k8s.pod.name", "host.name"},
})}

// ofResource is added to the rank of a resource's attributes, so that those of its spans win.
const ofResource = 1 << 10

// export is the state of decoding one export, of spans or of log records.
type export struct {
	*Decoder
	resource record   // attributes of the current resource
	attrs    record   // of the current item and its resource
	span     otlpSpan // current one
	failed   bool     // the current span failed
	spans    []otlpSpan
}

func (x *export) endSpan() {
	s := &x.span
	switch {
	case x.refusal.Reason != "":
		x.reject(s.key)
	case !x.isInference():
		x.batch.Ignored++
	default:
		r := x.request()
		s.service, s.source = x.attribute(x.attrs.members[fieldService]), x.attribute(x.attrs.members[fieldInstance])
		if s.request = &r; x.refusal.Reason != "" {
			s.request = nil
			x.reject(s.key)
		}
	}
	x.spans = append(x.spans, *s)
}

// reject refuses a span. Its bytes are not kept, because they may contain a prompt.
func (x *export) reject(s spanKey) {
	x.refuse(x.refusal.Reason, "span %x: %s", s.id, x.refusal.Detail)
}

// isInference reports whether the current span is one call of a model.
func (x *export) isInference() bool {
	a := &x.attrs
	counted := a.has(fieldPromptTokens) || a.has(fieldTotalTokens)
	switch {
	case a.has(fieldSpanKind) && !a.is(fieldSpanKind, "LLM", "EMBEDDING"),
		a.has(fieldCall) && !a.contains(fieldCall, ".do"), // ai.generateText is the sum of its ai.generateText.doGenerate
		a.is(fieldOperation, "invoke_agent", "create_agent", "execute_tool", "invoke_workflow", "plan", "retrieval",
			"fetch_response"), // of a response generated in the background; it may be fetched many times
		a.contains(fieldOperation, managementWords...), a.contains(fieldCallType, managementWords...):
		return false
	}
	return counted || a.has(fieldCall) || a.is(fieldSpanKind, "LLM", "EMBEDDING") || a.contains(fieldOperation, inferences...)
}

// inferences are parts of the operation names of inferences: in the conventions, such as text_completion, and in
// LiteLLM, such as acompletion, aresponses and anthropic_messages.
var inferences = []string{"chat", "completion", "generate_content", "embedding", "responses", "messages"}

// request reads the current span. Pool and class stay empty unless the span names them, and the prompt Unknown without
// a count.
func (x *export) request() ingest.Request {
	r := x.requestOf(&x.attrs)
	if x.inferTokens(&x.attrs, &r, true); r.OutputTokens == ingest.Unknown && x.isEmbedding() {
		r.OutputTokens = 0
	}
	if x.failed {
		r.Status = max(r.Status, ingest.StatusError)
	}
	settle(&r)
	if r.ReplicaName == "" && x.attrs.has(fieldDurationS) { // only engines report a duration; the instance is the replica
		r.ReplicaName = x.attribute(x.attrs.members[fieldInstance])
	}
	x.identify(&r)
	if r.PromptTokens != ingest.Unknown || r.Status != ingest.StatusOK {
		x.checkRequest(&r)
	}
	return r
}

// isEmbedding reports whether the current span generates nothing.
func (x *export) isEmbedding() bool {
	return x.attrs.contains(fieldOperation, "embedding") || x.attrs.contains(fieldCall, "embed") || x.attrs.is(fieldSpanKind, "EMBEDDING")
}

// minUniqueID is the shortest response id that is treated as unique. Shorter ones, such as Ollama's chatcmpl-0 to
// chatcmpl-999, recur.
const minUniqueID = 16

// identify sets the id of r to that of the response, which gateway and engine may share, or else to the span's.
func (x *export) identify(r *ingest.Request) {
	if len(x.attrs.text(fieldResponseID)) >= minUniqueID {
		r.ID = x.attribute(x.attrs.members[fieldResponseID])
	}
	if key := x.span.key; r.ID == "" && key != (spanKey{}) {
		r.ID = fmt.Sprintf("%x-%x", key.trace, key.id)
	}
}
