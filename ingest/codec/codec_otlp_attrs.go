package codec

import (
	"bytes"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/forewarm/forewarm/ingest"
)

// otlpField is one thing that an attribute of a span, or of its resource, can say.
type otlpField uint8

const (
	otlpPrompt otlpField = iota
	otlpCached
	otlpCacheWritten
	otlpOutput
	otlpTotal
	otlpMaxOutput

	otlpQueued
	otlpFirstToken
	otlpFirstTokenMS
	otlpWhole

	otlpID
	otlpPool
	otlpClass
	otlpModel
	otlpParameters
	otlpTenant
	otlpTier
	otlpFeature
	otlpRoute
	otlpRegion
	otlpReplica
	otlpSession

	otlpOperation
	otlpCallType
	otlpSpanKind
	otlpCall
	otlpFinish
	otlpError
	otlpHTTPStatus

	otlpProvider
	otlpProviderMetadata
	otlpPrinted

	otlpSchema
	otlpPayload

	otlpService
	otlpInstance

	otlpFieldCount
)

// otlpAliases names the attributes that say each thing, the most telling first. otlpParameters, otlpProviderMetadata and otlpPayload can hold
// text of users: nothing but the model, counts and Dynamo's row is read from them. The names are those of the OpenTelemetry conventions for generative AI, new and old; of vLLM and SGLang
// (gen_ai.latency.*, seconds); of OpenInference (llm.token_count.*), which Envoy AI Gateway speaks; of OpenLLMetry
// (llm.usage.*, traceloop.*); of LiteLLM (metadata.*) and of the Vercel AI SDK (ai.*). Those that start with forewarm. are
// ours, for users to set where the others do not say enough.
var otlpAliases = [otlpFieldCount][]string{
	otlpPrompt: {
		"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "llm.usage.prompt_tokens",
		"ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens",
	},
	otlpCached: {
		"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens", "gen_ai.usage.cached_tokens",
		"gen_ai.usage.cache_read_tokens", "llm.token_count.prompt_details.cache_read", "llm.usage.cache_read_input_tokens",
		"ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens",
	},
	otlpCacheWritten: {
		"gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens",
		"gen_ai.usage.cache_write_input_tokens", "gen_ai.usage.cache_write_tokens",
		"llm.token_count.prompt_details.cache_write", "llm.usage.cache_creation_input_tokens", "ai.usage.inputTokenDetails.cacheWriteTokens",
	},
	otlpOutput: {
		"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
		"llm.usage.completion_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens",
	},
	otlpTotal:     {"gen_ai.usage.total_tokens", "llm.token_count.total", "llm.usage.total_tokens", "ai.usage.totalTokens"},
	otlpMaxOutput: {"gen_ai.request.max_tokens", "gen_ai.request.max_completion_tokens", "llm.request.max_tokens", "ai.settings.maxOutputTokens"},

	otlpQueued: {"gen_ai.latency.time_in_queue"},
	otlpFirstToken: {
		"gen_ai.response.time_to_first_chunk", "gen_ai.client.operation.time_to_first_chunk", "gen_ai.latency.time_to_first_token",
		"gen_ai.server.time_to_first_token", "agw.ai.time_to_first_token",
	},
	otlpFirstTokenMS: {"ai.response.msToFirstChunk"},
	otlpWhole:        {"gen_ai.latency.e2e"},

	otlpID:         {"gen_ai.response.id", "gen_ai.request.id", "llm.response.id", "ai.response.id"},
	otlpPool:       {"forewarm.pool"},
	otlpParameters: {"llm.invocation_parameters", "embedding.invocation_parameters"},
	otlpClass:      {"forewarm.class"},
	otlpModel: {
		"gen_ai.request.model", "llm.request.model_name", "gen_ai.response.model", "llm.model_name", "llm.request.model",
		"llm.response.model_name", "llm.response.model", "embedding.model_name", "ai.model.id",
	},
	otlpTenant: {
		"forewarm.tenant", "tenant.id", "tenant", "metadata.user_api_key_team_alias", "litellm.team.alias", "litellm.team.id",
		"metadata.user_api_key_team_id", "metadata.user_api_key_alias", "litellm.metadata.user_api_key_alias", "metadata.user_api_key_org_id",
		"litellm.end_user.id", "metadata.user_api_key_end_user_id", "metadata.user_api_key_user_id", "enduser.id", "user.id",
		"ai.telemetry.metadata.userId", "traceloop.association.properties.user_id", "gen_ai.user", "llm.user",
	},
	otlpTier:    {"forewarm.tier", "openai.request.service_tier", "gen_ai.openai.request.service_tier"},
	otlpFeature: {"forewarm.feature", "gen_ai.agent.name", "ai.telemetry.functionId"},
	otlpRoute:   {"forewarm.route", "http.route"},
	otlpRegion:  {"forewarm.region", "cloud.region"},
	otlpReplica: {"forewarm.replica"},
	otlpSession: {
		"forewarm.session", "gen_ai.conversation.id", "session.id", "gen_ai.session.id", "langfuse.session.id", "traceloop.association.properties.session_id",
		"ai.telemetry.metadata.sessionId",
	},

	otlpOperation:  {"gen_ai.operation.name", "llm.request.type"},
	otlpCallType:   {"litellm.call_type"},
	otlpSpanKind:   {"openinference.span.kind", "traceloop.span.kind"},
	otlpCall:       {"ai.operationId"},
	otlpFinish:     {"gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "llm.response.finish_reason", "llm.finish_reason", "ai.response.finishReason"},
	otlpError:      {"error.type"},
	otlpHTTPStatus: {"http.response.status_code", "http.status_code", "http.status", "error.code", "litellm.provider.error.code"},

	otlpProvider:         {"gen_ai.provider.name", "gen_ai.system", "llm.system", "llm.provider", "ai.model.provider"},
	otlpProviderMetadata: {"ai.response.providerMetadata"},
	otlpPrinted:          {"metadata.usage_object"},

	otlpSchema:  {"schema"}, // of Dynamo's log records, as is payload
	otlpPayload: {"payload"},

	otlpService:  {"service.name"},
	otlpInstance: {"service.instance.id", "k8s.pod.name", "host.name"},
}

// otlpName is what an attribute means: a field, and how telling the name is among those of the same field, from 0 down.
type otlpName struct {
	field otlpField
	rank  uint8
}

var otlpNames = func() map[string]otlpName {
	names := map[string]otlpName{}
	for field, aliases := range otlpAliases {
		for rank, name := range aliases {
			names[name] = otlpName{otlpField(field), uint8(rank)}
		}
	}
	return names
}()

// otlpKind is the type of an attribute's value, as far as it matters.
type otlpKind uint8

const (
	otlpAbsent otlpKind = iota
	otlpText
	otlpInteger
	otlpDouble
	otlpOther
)

// otlpValue is the value of an attribute. A list of strings counts as its first string. The bytes are the message's.
type otlpValue struct {
	kind    otlpKind
	rank    uint8
	text    []byte
	integer int64
	double  float64
}

// otlpAttrs is what the attributes of a span and its resource say.
type otlpAttrs [otlpFieldCount]otlpValue

// ofResource is added to the rank of what a resource says, for its spans know better.
const ofResource = 128

// set takes v, unless it says nothing or a better name has spoken.
func (a *otlpAttrs) set(field otlpField, rank uint8, v otlpValue) {
	if v.kind == otlpText {
		switch v.text = bytes.TrimSpace(v.text); string(v.text) {
		case "", "-", "null", "None", "undefined":
			return
		}
	}
	if old := &a[field]; v.kind != otlpAbsent && (old.kind == otlpAbsent || rank < old.rank) {
		v.rank = rank
		*old = v
	}
}

// is says whether the text of a field is one of words, in any case.
func (a *otlpAttrs) is(field otlpField, words ...string) bool {
	for _, word := range words {
		if bytes.EqualFold(a[field].text, []byte(word)) {
			return true
		}
	}
	return false
}

// has says whether the text of a field contains one of words, in any case.
func (a *otlpAttrs) has(field otlpField, words ...string) bool {
	text := bytes.ToLower(a[field].text)
	for _, word := range words {
		if bytes.Contains(text, []byte(word)) {
			return true
		}
	}
	return false
}

// number gives a field as a number, NaN when it is absent or none.
func (a *otlpAttrs) number(field otlpField) float64 {
	switch v := &a[field]; v.kind {
	case otlpInteger:
		return float64(v.integer)
	case otlpDouble:
		return v.double
	case otlpText:
		if f, err := strconv.ParseFloat(string(v.text), 64); err == nil {
			return f
		}
	}
	return math.NaN()
}

// seconds gives a duration whose unit goes perSecond times into a second; ok is false unless it is within a day.
func (a *otlpAttrs) seconds(field otlpField, perSecond time.Duration) (elapsed time.Duration, ok bool) {
	s := a.number(field) / float64(perSecond)
	if !(s >= 0 && s <= 86_400) {
		return 0, false
	}
	return time.Duration(s * float64(time.Second)), true
}

// name is the attribute that said a field.
func (a *otlpAttrs) name(field otlpField) string { return otlpAliases[field][a[field].rank%ofResource] }

// otlpCount reads a field as a whole number in [0, Limits.Tokens]; absent is Unknown.
func (d *decoder) otlpCount(a *otlpAttrs, field otlpField, to *int64) {
	if a[field].kind == otlpAbsent {
		return
	}
	f, name := a.number(field), a.name(field)
	switch {
	case f < 0:
		d.fail(ingest.ReasonNegativeCount, "%s is %g, a count cannot be negative", name, f)
	case f > float64(d.limits.Tokens):
		d.fail(ingest.ReasonHugeCount, "%s is %g, the limit is %d", name, f, d.limits.Tokens)
	case f != math.Trunc(f): // true of NaN
		d.fail(ingest.ReasonWrongType, "%s is no whole number", name)
	default:
		*to = int64(f)
	}
}

// otlpLabel reads a field as a name.
func (d *decoder) otlpLabel(a *otlpAttrs, field otlpField, to *string) {
	switch v, name := &a[field], a.name(field); v.kind {
	case otlpInteger:
		*to = strconv.FormatInt(v.integer, 10)
	case otlpText:
		if !utf8.Valid(v.text) {
			d.fail(ingest.ReasonInvalidUTF8, "%s is not valid UTF-8", name)
		} else if reason, detail := checkLabel(name, string(v.text), d.limits.LabelBytes); reason != "" {
			d.fail(reason, "%s", detail)
		} else {
			*to = d.names.of(v.text)
		}
	}
}
