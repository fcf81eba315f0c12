package codec

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/buger/jsonparser"

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
//     over what it does not say itself (see codec_otlp_nest.go), also from agents and servers above it. The other calls of an agent are no ancestors of each
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

// otlpSpan is what a span says outside its attributes.
type otlpSpan struct {
	trace      [16]byte
	id, parent [8]byte
	start, end uint64 // Unix nanoseconds
	failed     bool
}

// export is the state of decoding one export.
type export struct {
	*decoder
	resource otlpAttrs // of the resource at hand
	scope    []byte    // the instrumentation at hand
	version  []byte
	attrs    otlpAttrs // of the span at hand, and of its resource
	span     otlpSpan  // at hand
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
	x.attrs, x.span, x.refusal = x.resource, otlpSpan{}, ingest.Refusal{}
	return x.spans <= x.limits.BatchRecords
}

// end books the span at hand.
func (x *export) end() {
	x.nameModel()
	n := node{trace: x.span.trace, id: x.span.id, parent: x.span.parent, request: none}
	switch {
	case x.refusal.Reason != "":
		x.reject(x.span.id)
	case !x.isInference():
		x.batch.Ignored++
		if r, said := x.context(); said {
			n.request = len(x.requests)
			x.requests = append(x.requests, r)
		}
	default:
		r := x.request()
		x.attribution(otlpService, &n.service)
		x.attribution(otlpInstance, &n.source)
		if x.refusal.Reason != "" {
			x.reject(x.span.id)
		} else {
			n.request, n.inference, n.asked = len(x.requests), true, string(x.attrs[otlpID].text)
			x.requests = append(x.requests, r)
		}
	}
	x.tree = append(x.tree, n)
}

// context gives what a span that is no inference, such as an agent's, says of the requests below it. What its resource says is of
// its own service.
func (x *export) context() (r ingest.Request, said bool) {
	for _, name := range [...]struct {
		field otlpField
		to    *string
	}{{otlpPool, &r.Pool}, {otlpClass, &r.Class}, {otlpTenant, &r.Tenant}, {otlpTier, &r.Tier}, {otlpFeature, &r.Feature}, {otlpRoute, &r.Route}} {
		if v := &x.attrs[name.field]; v.kind != otlpAbsent && v.rank < ofResource {
			x.attribution(name.field, name.to)
			said = true
		}
	}
	if v := &x.attrs[otlpSession]; v.kind == otlpText && v.rank < ofResource {
		r.Session, said = hashSession(v.text), true
	}
	return r, said
}

// reject refuses a span. Its bytes are not kept, for there may be a prompt in them.
func (x *export) reject(id [8]byte) {
	x.refuse(nil, x.refusal.Reason, "span %x: %s", id, x.refusal.Detail)
}

func (x *export) label(field otlpField, to *string) { x.otlpLabel(&x.attrs, field, to) }
func (x *export) count(field otlpField, to *int64)  { x.otlpCount(&x.attrs, field, to) }

// attribution reads a name that says whom or what a request belongs to. One that cannot be used is no reason to miss the
// request.
func (x *export) attribution(field otlpField, to *string) {
	before := x.refusal
	x.label(field, to)
	x.refusal = before
}

// nameModel takes the model that OpenInference's clients asked for from the parameters of the call. Their llm.model_name is that of
// the response: a call that fails has none, and would land in another pool than those that succeed.
func (x *export) nameModel() {
	parameters := x.attrs[otlpParameters].text
	if len(parameters) == 0 {
		return
	}
	if reason, _ := scan(parameters, x.limits.Depth); reason != "" {
		return
	}
	if model, err := jsonparser.GetString(parameters, "model"); err == nil {
		x.attrs[otlpModel] = otlpValue{}
		x.attrs.set(otlpModel, 0, otlpValue{kind: otlpText, text: []byte(model)})
	}
}

// isInference says whether the span at hand tells of one call of a model.
func (x *export) isInference() bool {
	a := &x.attrs
	counted := a[otlpPrompt].kind != otlpAbsent || a[otlpTotal].kind != otlpAbsent
	switch {
	case a[otlpSpanKind].kind != otlpAbsent && !a.is(otlpSpanKind, "LLM", "EMBEDDING"),
		a[otlpCall].kind != otlpAbsent && !a.has(otlpCall, ".do"), // ai.generateText adds up its ai.generateText.doGenerate
		a.is(otlpOperation, "invoke_agent", "create_agent", "execute_tool", "invoke_workflow", "plan", "retrieval",
			"fetch_response"), // of a response that was generated in the background, and may be fetched many times
		isManagement(a[otlpOperation].text), isManagement(a[otlpCallType].text),
		!counted && (a.has(otlpModel, otherModels...) || a.has(otlpCall, otherModels...)):
		return false
	}
	return counted || a[otlpCall].kind != otlpAbsent || a.is(otlpSpanKind, "LLM", "EMBEDDING") || a.has(otlpOperation, inferences...)
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
	r := ingest.Request{Attempt: 1, PromptTokens: ingest.Unknown, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown}
	x.tokens(&r)
	x.outcome(&r)
	x.times(&r)
	x.label(otlpPool, &r.Pool)
	x.label(otlpClass, &r.Class)
	x.label(otlpModel, &r.Model)
	x.attribution(otlpTenant, &r.Tenant)
	x.attribution(otlpTier, &r.Tier)
	x.attribution(otlpFeature, &r.Feature)
	x.attribution(otlpRoute, &r.Route)
	x.attribution(otlpRegion, &r.Region)
	x.attribution(otlpReplica, &r.ReplicaName)
	if r.ReplicaName == "" && x.attrs[otlpWhole].kind != otlpAbsent { // engines alone report it, and they are the replica
		x.attribution(otlpInstance, &r.ReplicaName)
	}
	if session := x.attrs[otlpSession].text; len(session) > 0 {
		r.Session = ingest.HashSession(string(session))
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
	written, total := int64(0), ingest.Unknown
	x.count(otlpPrompt, &r.PromptTokens)
	x.count(otlpCached, &r.CachedTokens)
	x.count(otlpCacheWritten, &written)
	x.count(otlpOutput, &r.OutputTokens)
	x.count(otlpMaxOutput, &r.MaxOutputTokens)
	x.count(otlpTotal, &total)
	counted := x.anthropicCounts(r, &written)
	if n, ok := wholeDigits(printedCount(x.attrs[otlpPrinted].text, "cached_tokens")); ok && r.CachedTokens == ingest.Unknown && n <= r.PromptTokens {
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
	case more == cached, x.attrs.has(otlpProvider, "anthropic", "aws", "bedrock"):
		r.PromptTokens += more
	default:
		r.OutputTokens += more
	}
	if r.PromptTokens > x.limits.Tokens {
		x.fail(ingest.ReasonHugeCount, "prompt and cached tokens are %d, the limit is %d", r.PromptTokens, x.limits.Tokens)
	}
	if r.OutputTokens == ingest.Unknown && (x.attrs.has(otlpOperation, "embedding") || x.attrs.has(otlpCall, "embed") || x.attrs.is(otlpSpanKind, "EMBEDDING")) {
		r.OutputTokens = 0 // an embedding generates nothing
	}
}

// anthropicCounts reads the cache's counts from Anthropic's own usage, which the Vercel AI SDK hands on, and says whether the prompt
// leaves them out: before version 6 it does.
func (x *export) anthropicCounts(r *ingest.Request, written *int64) (apart bool) {
	usage := x.attrs[otlpProviderMetadata].text
	if len(usage) == 0 {
		return false
	}
	if reason, _ := scan(usage, x.limits.Depth); reason != "" {
		return false
	}
	count := func(name string) (int64, bool) {
		n, err := jsonparser.GetInt(usage, "anthropic", "usage", name)
		return n, err == nil && 0 <= n && n <= x.limits.Tokens
	}
	if n, ok := count("cache_read_input_tokens"); ok {
		r.CachedTokens = n
	}
	if n, ok := count("cache_creation_input_tokens"); ok {
		*written = n
	}
	prompt, ok := count("input_tokens")
	return ok && prompt == r.PromptTokens
}

// outcome reads how the request ended. A failure that counted no tokens has Unknown ones: some producers write 0.
func (x *export) outcome(r *ingest.Request) {
	a := &x.attrs
	code := a.number(otlpHTTPStatus)
	switch {
	case code == 499, a.has(otlpFinish, "abort", "cancel"), a.is(otlpError, "499"), a.has(otlpError, "cancel", "abort", "disconnect"):
		r.Phase, r.Status = ingest.PhaseCancelled, ingest.StatusCancelled
	case code == 429, code == 503, code == 529, a.is(otlpError, "429", "503", "529"),
		a.has(otlpError, "ratelimit", "rate_limit", "throttl", "overload", "exhausted", "unavailable"):
		r.Phase, r.Status = ingest.PhaseRejected, ingest.StatusRejected
	case x.span.failed, code >= 400, a[otlpError].kind != otlpAbsent, a.is(otlpFinish, "error"):
		r.Status = ingest.StatusError
	}
	if r.Status != ingest.StatusOK && r.PromptTokens <= 0 && r.OutputTokens <= 0 {
		r.PromptTokens, r.CachedTokens = ingest.Unknown, ingest.Unknown
	}
}

// times reads when the request arrived, which is the span's start, and what came of it. Durations count from there;
// those that reach beyond the end come from another clock, and say nothing.
func (x *export) times(r *ingest.Request) {
	x.instant("start_time_unix_nano", x.span.start, &r.ArrivedAt)
	x.instant("end_time_unix_nano", x.span.end, &r.FinishedAt)
	if r.ArrivedAt.IsZero() {
		return
	}
	if whole, ok := x.attrs.seconds(otlpWhole, 1); ok && r.FinishedAt.IsZero() {
		r.FinishedAt = r.ArrivedAt.Add(whole)
	}
	after := func(field otlpField, perSecond time.Duration, to *time.Time) {
		if elapsed, ok := x.attrs.seconds(field, perSecond); ok {
			if at := r.ArrivedAt.Add(elapsed); r.FinishedAt.IsZero() || !at.After(r.FinishedAt) {
				*to = at
			}
		}
	}
	after(otlpQueued, 1, &r.StartedAt)
	after(otlpFirstToken, 1, &r.FirstTokenAt)
	if r.FirstTokenAt.IsZero() {
		after(otlpFirstTokenMS, 1000, &r.FirstTokenAt)
	}
}

func (x *export) instant(name string, ns uint64, to *time.Time) {
	if ns == 0 {
		return
	}
	t := time.Unix(0, int64(min(ns, 1<<63-1))).UTC()
	if t.Before(earliest) || !t.Before(latest) {
		x.fail(ingest.ReasonBadTime, "%s is %d, outside the years 2000 to 2199", name, ns)
		return
	}
	*to = t
}

// tellingID is the shortest response id that is taken to be unique: shorter ones, such as Ollama's chatcmpl-0 to
// chatcmpl-999, recur.
const tellingID = 16

// identify gives r the id of the response, which gateway and engine may share, or else the span's own.
func (x *export) identify(r *ingest.Request) {
	if len(x.attrs[otlpID].text) >= tellingID {
		x.attribution(otlpID, &r.ID)
	}
	if r.ID != "" || x.span.trace == [16]byte{} && x.span.id == [8]byte{} {
		return
	}
	id := make([]byte, 0, 49)
	id = hex.AppendEncode(id, x.span.trace[:])
	id = append(id, '-')
	r.ID = string(hex.AppendEncode(id, x.span.id[:]))
}
