package codec

import (
	"encoding/hex"
	"fmt"

	"github.com/forewarm/forewarm/ingest"
)

// An OTLP trace export becomes one request for each inference that its spans tell of.
//
// A span is an inference when it carries token counts, or an operation name or span kind that says so; agents, tools,
// chains and workflows, whose counts add up those of others, and all spans of other software are ignored and counted.
// An inference that failed may leave its tokens unknown. One that ended well without counts is refused, for somebody forgot
// to ask for usage.
//
// One request may be told twice, by its gateway (or client library) and by its engine. It counts once where
//
//   - both are in one export and one is an ancestor of the other: the innermost counts, for it did the work, and takes
//     over what it does not say itself (see otlp_nest.go), also from agents and servers above it. The other calls of an agent are no ancestors of each
//     other, so they all count;
//   - or both name the same response (gen_ai.response.id, gen_ai.request.id) and the same pool: the fold drops the later
//     one as a duplicate.
//
// Where a gateway and its engine export by different ways and share no id, nothing in either span says that they are
// the same request. Then only one of them may be sent here. Nor does a span say how many others a sampler dropped: traces
// that are sampled understate demand.
//
// The pool is the attribute forewarm.pool (of the span or its resource), else that of the subject or URL, else the model,
// else service.name. Prompts, answers, events and links are skipped over without being read.

// The content types of OTLP trace exports (opentelemetry.io/docs/specs/otlp, TracesData). OTLP/HTTP itself calls its JSON
// application/json, which on the telemetry stream is the native record.
const (
	ContentTypeOTLP     = "application/x-protobuf"
	ContentTypeOTLPJSON = "application/vnd.forewarm.otlp+json"
)

// The names of the attributes are those of the OpenTelemetry conventions for generative AI, new and old; of vLLM and SGLang
// (gen_ai.latency.*, seconds); of OpenInference (llm.token_count.*), which Envoy AI Gateway speaks; of OpenLLMetry
// (llm.usage.*, traceloop.*); of LiteLLM (metadata.*) and of the Vercel AI SDK (ai.*). Those that start with forewarm. are
// ours, for users to set where the others do not say enough.
var otlpFields = newFieldTree(paths{
	fieldPromptTokens: {
		"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "llm.usage.prompt_tokens",
		"ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens",
	},
	fieldCachedTokens: {
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
	fieldParameters: {"llm.invocation_parameters", "embedding.invocation_parameters"},
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

	fieldOperation:  {"gen_ai.operation.name", "llm.request.type"},
	fieldCallType:   {"litellm.call_type"},
	fieldSpanKind:   {"openinference.span.kind", "traceloop.span.kind"},
	fieldCall:       {"ai.operationId"},
	fieldFinish:     {"gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "llm.response.finish_reason", "llm.finish_reason", "ai.response.finishReason"},
	fieldError:      {"error.type"},
	fieldHTTPStatus: {"http.response.status_code", "http.status_code", "http.status", "error.code", "litellm.provider.error.code"},

	fieldProvider:         {"gen_ai.provider.name", "gen_ai.system", "llm.system", "llm.provider", "ai.model.provider"},
	fieldProviderMetadata: {"ai.response.providerMetadata"},
	fieldUsage:            {"metadata.usage_object"},

	fieldSchema:  {"schema"}, // of Dynamo's log records, as is payload
	fieldPayload: {"payload"},

	fieldService:  {"service.name"},
	fieldInstance: {"service.instance.id", "k8s.pod.name", "host.name"},
})

// ofResource is added to the rank of what a resource says, for its spans know better.
const ofResource = 1 << 10

// otlpLevels is how deep messages are read: an export, a resource, a scope, a span, an attribute, its value, a list and a value in it.
const otlpLevels = 8

// export is the state of decoding one export.
type export struct {
	*decoder
	resource record // what the attributes of the resource at hand say
	scope    []byte // the instrumentation at hand
	version  []byte
	attrs    record                 // of the span at hand, and of its resource
	readers  [otlpLevels]jsonReader // of the messages at hand, by their level
	level    int
	span     node // at hand
	failed   bool // the span at hand
	spans    int

	tree     spanTree
	requests []ingest.Request // which the nodes of tree point into

	kept   int    // requests
	source string // of all of them, or ""
}

// belongs says whether an export may come on the subject at hand, and refuses it otherwise.
func (d *decoder) belongs() bool {
	if d.meta.Kind != KindRequest {
		d.refuse(nil, ingest.ReasonUnknownFormat, "traces belong on a request subject")
	}
	return d.meta.Kind == KindRequest
}

// begin starts a span; false says that the export holds too many.
func (x *export) begin() bool {
	x.spans++
	x.attrs, x.span, x.failed, x.refusal = x.resource, node{request: none}, false, ingest.Refusal{}
	return x.spans <= x.limits.BatchRecords
}

// end books the span at hand.
func (x *export) end() {
	x.nameModel()
	n := &x.span
	switch {
	case x.refusal.Reason != "":
		x.reject(n.id)
	case !x.isInference():
		x.batch.Ignored++
		if r, said := x.context(); said {
			n.request = len(x.requests)
			x.requests = append(x.requests, r)
		}
	default:
		r := x.request()
		n.service, n.source = x.attribute(x.attrs.members[fieldService]), x.attribute(x.attrs.members[fieldInstance])
		if x.refusal.Reason != "" {
			x.reject(n.id)
		} else {
			n.request, n.inference, n.asked = len(x.requests), true, string(x.attrs.text(fieldResponseID))
			x.requests = append(x.requests, r)
		}
	}
	x.tree = append(x.tree, *n)
}

// context gives what a span that is no inference, such as an agent's, says of the requests below it. What its resource says is of
// its own service.
func (x *export) context() (r ingest.Request, said bool) {
	own := func(f field) value {
		if !x.attrs.has(f) || x.attrs.ranks[f] >= ofResource {
			return value{}
		}
		said = true
		return x.attrs.members[f]
	}
	r.Pool, r.Class, r.Tenant = x.attribute(own(fieldPool)), x.attribute(own(fieldClass)), x.attribute(own(fieldTenant))
	r.Tier, r.Feature, r.Route = x.attribute(own(fieldTier)), x.attribute(own(fieldFeature)), x.attribute(own(fieldRoute))
	r.Session = hashSession(own(fieldSession).raw)
	return r, said
}

// reject refuses a span. Its bytes are not kept, for there may be a prompt in them.
func (x *export) reject(id [8]byte) {
	x.refuse(nil, x.refusal.Reason, "span %x: %s", id, x.refusal.Detail)
}

// nameModel takes the model that OpenInference's clients asked for from the parameters of the call. Their llm.model_name is that of
// the response: a call that fails has none, and would land in another pool than those that succeed.
func (x *export) nameModel() {
	if asked := x.embeddedRecord(fieldParameters, parameterFields); asked.has(fieldModel) {
		x.attrs.set(fieldModel, asked.members[fieldModel], 1)
	}
}

var parameterFields = newFieldTree(paths{fieldModel: {"model"}})

// embeddedRecord finds fields in an attribute that holds a JSON object.
func (x *export) embeddedRecord(f field, tree *fieldTree) (r record) {
	var j jsonReader
	if text := x.attrs.text(f); x.isSound(text) {
		if j.reset(text); j.kind() == '{' {
			x.find(&j, tree, &r)
		}
	}
	return r
}

// isInference says whether the span at hand tells of one call of a model.
func (x *export) isInference() bool {
	a := &x.attrs
	counted := a.has(fieldPromptTokens) || a.has(fieldTotalTokens)
	switch {
	case a.has(fieldSpanKind) && !a.is(fieldSpanKind, "LLM", "EMBEDDING"),
		a.has(fieldCall) && !a.contains(fieldCall, ".do"), // ai.generateText adds up its ai.generateText.doGenerate
		a.is(fieldOperation, "invoke_agent", "create_agent", "execute_tool", "invoke_workflow", "plan", "retrieval",
			"fetch_response"), // of a response that was generated in the background, and may be fetched many times
		isManagement(a.text(fieldOperation)), isManagement(a.text(fieldCallType)),
		!counted && (a.contains(fieldModel, otherModels...) || a.contains(fieldCall, otherModels...)):
		return false
	}
	return counted || a.has(fieldCall) || a.is(fieldSpanKind, "LLM", "EMBEDDING") || a.contains(fieldOperation, inferences...)
}

// inferences are parts of the operation names of calls of a language model: of the conventions, such as text_completion, and of
// LiteLLM, such as acompletion, aresponses and anthropic_messages.
var inferences = []string{"chat", "completion", "generate_content", "embedding", "responses", "messages"}

// otherModels are parts of the names of models that make or read images and sound or rank texts, and of calls of them. Some producers
// give their spans the kind of language models. They count no tokens.
var otherModels = []string{"image", "dall-e", "whisper", "transcribe", "tts", "speech", "audio", "video", "rerank"}

// request reads the span at hand. Pool and class stay empty unless the span names them, and the prompt Unknown if no
// count gives it.
func (x *export) request() ingest.Request {
	r := x.requestOf(&x.attrs)
	x.tokens(&r)
	x.outcome(&r)
	dropLate(&r)
	if r.ReplicaName == "" && x.attrs.has(fieldDurationS) { // engines alone report it, and they are the replica
		r.ReplicaName = x.attribute(x.attrs.members[fieldInstance])
	}
	x.identify(&r)
	if isSized(&r) || r.Status != ingest.StatusOK {
		x.checkRequest(&r)
	}
	return r
}

// isSized says whether the size of a request is known.
func isSized(r *ingest.Request) bool { return r.PromptTokens != ingest.Unknown }

// apart are instrumentations whose prompts leave out what the cache read and wrote, as the responses of Anthropic and Bedrock do:
// all versions, or those below a minor version of 0.
var apart = map[string]int{
	"opentelemetry.instrumentation.bedrock": 0, "@arizeai/openinference-instrumentation-bedrock": 0, "@traceloop/instrumentation-anthropic": 28,
}

func (x *export) countsApart() bool {
	var minor int
	below, known := apart[string(x.scope)]
	_, err := fmt.Sscanf(string(x.version), "0.%d", &minor)
	return known && (below == 0 || err == nil && minor < below)
}

// tokens reads the counts. By convention the prompt includes the tokens that were read from the cache and those that were
// written to it. Some producers count them apart, as Anthropic's API does, and the prompt is the sum: it is smaller than these, or
// the total has them too, or the instrumentation is known for it. What else a total has beyond prompt and output was read from a
// cache at Anthropic and Bedrock, and elsewhere it is reasoning, which is output.
func (x *export) tokens(r *ingest.Request) {
	_, written := x.cacheCounts(&x.attrs)
	written = max(written, 0)
	total := x.looseCount(x.attrs.members[fieldTotalTokens], x.limits.Tokens)
	counted := x.anthropicCounts(r, &written)
	if n, ok := smallInt(printedCount(x.attrs.text(fieldUsage), "cached_tokens")); ok && r.CachedTokens == ingest.Unknown && n <= r.PromptTokens {
		r.CachedTokens = n // LiteLLM has no attribute of its own for them
	}
	cached := max(r.CachedTokens, 0) + written
	more := total - r.PromptTokens - r.OutputTokens // is known where all three are
	switch {
	case r.PromptTokens == ingest.Unknown && r.OutputTokens != ingest.Unknown && total >= r.OutputTokens:
		r.PromptTokens = total - r.OutputTokens
	case r.PromptTokens == ingest.Unknown:
	case counted, r.PromptTokens < cached, cached > 0 && x.countsApart():
		r.PromptTokens += cached
	case r.OutputTokens == ingest.Unknown || total == ingest.Unknown || more <= 0:
	case more == cached, x.attrs.contains(fieldProvider, "anthropic", "aws", "bedrock"):
		r.PromptTokens += more
	default:
		r.OutputTokens += more
	}
	if r.PromptTokens > x.limits.Tokens {
		x.fail(ingest.ReasonHugeCount, "prompt and cached tokens are %d, the limit is %d", r.PromptTokens, x.limits.Tokens)
	}
	if r.OutputTokens == ingest.Unknown && (x.attrs.contains(fieldOperation, "embedding") || x.attrs.contains(fieldCall, "embed") || x.attrs.is(fieldSpanKind, "EMBEDDING")) {
		r.OutputTokens = 0 // an embedding generates nothing
	}
}

// anthropicCounts reads the cache's counts from Anthropic's own usage, which the Vercel AI SDK hands on, and says whether the prompt
// leaves them out: before version 6 it does.
func (x *export) anthropicCounts(r *ingest.Request, written *int64) (apart bool) {
	usage := x.embeddedRecord(fieldProviderMetadata, anthropicFields)
	count := func(f field) int64 {
		return forgiving(x.decoder, func() int64 { return x.looseCount(usage.members[f], x.limits.Tokens) })
	}
	if n := count(fieldCacheReadTokens); n >= 0 {
		r.CachedTokens = n
	}
	if n := count(fieldCacheWriteTokens); n >= 0 {
		*written = n
	}
	return usage.has(fieldPromptTokens) && count(fieldPromptTokens) == r.PromptTokens
}

var anthropicFields = newFieldTree(usagePaths.below("anthropic.usage."))

// outcome reads how the request ended. A failure that counted no tokens has Unknown ones: some producers write 0.
func (x *export) outcome(r *ingest.Request) {
	a := &x.attrs
	code := parseNumber(a.text(fieldHTTPStatus))
	switch {
	case code == 499, a.contains(fieldFinish, "abort", "cancel"), a.is(fieldError, "499"), a.contains(fieldError, "cancel", "abort", "disconnect"):
		r.Phase, r.Status = ingest.PhaseCancelled, ingest.StatusCancelled
	case code == 429, code == 503, code == 529, a.is(fieldError, "429", "503", "529"),
		a.contains(fieldError, "ratelimit", "rate_limit", "throttl", "overload", "exhausted", "unavailable"):
		r.Phase, r.Status = ingest.PhaseRejected, ingest.StatusRejected
	case x.failed, code >= 400, a.has(fieldError), a.is(fieldFinish, "error"):
		r.Status = ingest.StatusError
	}
	if r.Status != ingest.StatusOK && r.PromptTokens <= 0 && r.OutputTokens <= 0 {
		r.PromptTokens, r.CachedTokens = ingest.Unknown, ingest.Unknown
	}
}

// tellingID is the shortest response id that is taken to be unique: shorter ones, such as Ollama's chatcmpl-0 to
// chatcmpl-999, recur.
const tellingID = 16

// identify gives r the id of the response, which gateway and engine may share, or else the span's own.
func (x *export) identify(r *ingest.Request) {
	if len(x.attrs.text(fieldResponseID)) >= tellingID {
		r.ID = x.attribute(x.attrs.members[fieldResponseID])
	}
	if r.ID != "" || x.span.trace == [16]byte{} && x.span.id == [8]byte{} {
		return
	}
	id := make([]byte, 0, 49)
	id = hex.AppendEncode(id, x.span.trace[:])
	id = append(id, '-')
	r.ID = string(hex.AppendEncode(id, x.span.id[:]))
}
