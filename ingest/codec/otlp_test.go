package codec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forewarm/forewarm/ingest"
)

// span is one span of an export. Its id is its number in the export, from 1.
type span struct {
	parent     byte
	trace      byte // 0 is trace 1
	attrs      map[string]any
	start, end time.Time
	failed     bool
}

// llm is a span of a chat of one second, with attributes added; those that are nil are removed.
func llm(attrs map[string]any) span {
	all := map[string]any{"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100, "gen_ai.request.model": "m"}
	maps.Copy(all, attrs)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return span{attrs: all, start: at, end: at.Add(time.Second)}
}

// under sets the parent of a span.
func (s span) under(parent byte) span { s.parent = parent; return s }

// tracesOf makes an export as an SDK or the collector sends it.
func tracesOf(resource map[string]any, spans ...span) ptrace.Traces {
	traces := ptrace.NewTraces()
	rs := traces.ResourceSpans().AppendEmpty()
	put(rs.Resource().Attributes(), resource)
	out := rs.ScopeSpans().AppendEmpty().Spans()
	for i, s := range spans {
		p := out.AppendEmpty()
		p.SetTraceID(pcommon.TraceID{max(s.trace, 1)})
		p.SetSpanID(pcommon.SpanID{byte(i + 1)})
		if s.parent != 0 {
			p.SetParentSpanID(pcommon.SpanID{s.parent})
		}
		p.SetName("a name")
		p.SetStartTimestamp(stamp(s.start))
		p.SetEndTimestamp(stamp(s.end))
		if s.failed {
			p.Status().SetCode(ptrace.StatusCodeError)
			p.Status().SetMessage("the prompt may be quoted here")
		}
		put(p.Attributes(), s.attrs)
		p.Events().AppendEmpty().Attributes().PutStr("gen_ai.prompt", secret)
	}
	return traces
}

func stamp(t time.Time) pcommon.Timestamp {
	if t.IsZero() {
		return 0
	}
	return pcommon.NewTimestampFromTime(t)
}

func put(to pcommon.Map, attrs map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		if err := to.PutEmpty(key).FromRaw(attrs[key]); err != nil {
			panic(err)
		}
	}
}

// decodeTraces decodes an export in both encodings. The results must be equal.
func decodeTraces(t *testing.T, m Meta, traces ptrace.Traces) *ingest.Batch {
	t.Helper()
	proto := must((&ptrace.ProtoMarshaler{}).MarshalTraces(traces))
	text := must((&ptrace.JSONMarshaler{}).MarshalTraces(traces))
	m.ContentType = ContentTypeOTLP
	b := decode(m, string(proto))
	m.ContentType = ContentTypeOTLPJSON
	if d := diff(b, decode(m, string(text))); d != "" {
		t.Errorf("protobuf and JSON disagree (-protobuf +JSON):\n%s\n%s", d, text)
	}
	return b
}

func TestOTLPSpans(t *testing.T) {
	bare := ingest.Request{
		ID: "01000000000000000000000000000000-0100000000000000", Pool: "m", Model: "m", Attempt: 1,
		ArrivedAt: at, FinishedAt: at.Add(time.Second),
		PromptTokens: 100, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
	}
	with := func(change func(*ingest.Request)) *ingest.Request {
		r := bare
		change(&r)
		return &r
	}
	failed := func(s span) span { s.failed = true; return s }
	for name, tc := range map[string]struct {
		span span
		want *ingest.Request // nil: ignored
	}{
		"least": {llm(nil), &bare},
		"new names": {
			llm(map[string]any{
				"gen_ai.usage.output_tokens": 20, "gen_ai.usage.cache_read.input_tokens": 64, "gen_ai.request.max_tokens": 512,
				"gen_ai.response.model": "m-2026", "gen_ai.response.finish_reasons": []any{"stop"}, "gen_ai.response.time_to_first_chunk": 0.25,
				"gen_ai.conversation.id": "s", "gen_ai.response.id": "chatcmpl-0123456789abcdef", "gen_ai.input.messages": []any{map[string]any{"content": secret}},
			}),
			with(func(r *ingest.Request) {
				r.OutputTokens, r.CachedTokens, r.MaxOutputTokens, r.Session = 20, 64, 512, ingest.HashSession("s")
				r.FirstTokenAt, r.ID = at.Add(250*time.Millisecond), "chatcmpl-0123456789abcdef"
			}),
		},
		"old names": {
			llm(map[string]any{
				"gen_ai.usage.input_tokens": nil, "gen_ai.operation.name": nil, "gen_ai.usage.prompt_tokens": 100,
				"gen_ai.usage.completion_tokens": 20, "gen_ai.usage.cached_tokens": 10, "gen_ai.prompt": secret,
			}),
			with(func(r *ingest.Request) { r.OutputTokens, r.CachedTokens = 20, 10 }),
		},
		"OpenInference": {
			llm(map[string]any{
				"gen_ai.usage.input_tokens": nil, "gen_ai.operation.name": nil, "gen_ai.request.model": nil, "openinference.span.kind": "LLM",
				"llm.model_name": "m", "llm.token_count.prompt": 100, "llm.token_count.completion": 20, "llm.token_count.prompt_details.cache_read": 30,
				"llm.input_messages.0.message.content": secret, "session.id": "s", "user.id": "u",
			}),
			with(func(r *ingest.Request) {
				r.OutputTokens, r.CachedTokens, r.Session, r.Tenant = 20, 30, ingest.HashSession("s"), "u"
			}),
		},
		"vLLM": {
			llm(map[string]any{
				"gen_ai.usage.input_tokens": nil, "gen_ai.operation.name": nil, "gen_ai.request.model": nil,
				"gen_ai.usage.prompt_tokens": 100, "gen_ai.usage.completion_tokens": 20, "gen_ai.request.id": "cmpl-1", "gen_ai.request.max_tokens": 16,
				"gen_ai.latency.time_in_queue": 0.125, "gen_ai.latency.time_to_first_token": 0.5, "gen_ai.latency.e2e": 1.0,
			}),
			with(func(r *ingest.Request) {
				r.Pool, r.Model, r.OutputTokens, r.MaxOutputTokens, r.ReplicaName = "vllm-m", "", 20, 16, "pod-0"
				r.StartedAt, r.FirstTokenAt = at.Add(125*time.Millisecond), at.Add(500*time.Millisecond)
			}),
		},
		"doubles and strings": {
			llm(map[string]any{"gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": 20.0, "gen_ai.request.max_tokens": "-", "gen_ai.latency.time_in_queue": "0.5"}),
			with(func(r *ingest.Request) { r.OutputTokens, r.StartedAt = 20, at.Add(500*time.Millisecond) }),
		},
		"empty strings are unknown": {
			llm(map[string]any{"gen_ai.usage.input_tokens": "", "gen_ai.usage.prompt_tokens": 100, "gen_ai.conversation.id": ""}), &bare,
		},
		"total": {llm(map[string]any{"gen_ai.usage.input_tokens": nil, "gen_ai.usage.total_tokens": 120, "gen_ai.usage.output_tokens": 20}),
			with(func(r *ingest.Request) { r.OutputTokens = 20 })},
		"cached tokens counted apart": {
			llm(map[string]any{"gen_ai.usage.input_tokens": 10, "gen_ai.usage.cache_read.input_tokens": 80, "gen_ai.usage.cache_creation.input_tokens": 10}),
			with(func(r *ingest.Request) { r.CachedTokens = 80 }),
		},
		"cached tokens counted apart, newest name": {
			llm(map[string]any{"gen_ai.usage.input_tokens": 10, "gen_ai.usage.cache_read.input_tokens": 80, "gen_ai.usage.cache_write.input_tokens": 10}),
			with(func(r *ingest.Request) { r.CachedTokens = 80 }),
		},
		"zero is known": {llm(map[string]any{"gen_ai.usage.cache_read.input_tokens": 0}), with(func(r *ingest.Request) { r.CachedTokens = 0 })},
		"attributes of Forewarm win": {
			llm(map[string]any{"forewarm.pool": "p", "forewarm.class": "c", "forewarm.tenant": 42, "enduser.id": "x", "http.route": "/v1/chat/completions"}),
			with(func(r *ingest.Request) { r.Pool, r.Class, r.Tenant, r.Route = "p", "c", "42", "/v1/chat/completions" }),
		},
		"embedding":                          {llm(map[string]any{"gen_ai.operation.name": "embeddings"}), with(func(r *ingest.Request) { r.OutputTokens = 0 })},
		"time to first token beyond the end": {llm(map[string]any{"gen_ai.response.time_to_first_chunk": 1.5}), &bare},
		"invalid names":                      {llm(map[string]any{"tenant": "a\nb", "http.route": strings.Repeat("x", 257), "gen_ai.response.id": strings.Repeat("x", 257)}), &bare},
		"short id is not unique":             {llm(map[string]any{"gen_ai.response.id": "chatcmpl-17"}), &bare},

		"error":                  {failed(llm(nil)), with(func(r *ingest.Request) { r.Status = ingest.StatusError })},
		"rate limit":             {failed(llm(map[string]any{"error.type": "RateLimitError"})), with(func(r *ingest.Request) { r.Phase, r.Status = ingest.PhaseRejected, ingest.StatusRejected })},
		"rejected by its number": {llm(map[string]any{"http.response.status_code": "429"}), with(func(r *ingest.Request) { r.Phase, r.Status = ingest.PhaseRejected, ingest.StatusRejected })},
		"aborted":                {llm(map[string]any{"gen_ai.response.finish_reasons": []any{"abort"}}), with(func(r *ingest.Request) { r.Phase, r.Status = ingest.PhaseCancelled, ingest.StatusCancelled })},
		"cancelled":              {failed(llm(map[string]any{"error.type": "CancelledError"})), with(func(r *ingest.Request) { r.Phase, r.Status = ingest.PhaseCancelled, ingest.StatusCancelled })},
		"failed before counts":   {failed(llm(map[string]any{"gen_ai.usage.input_tokens": nil})), with(func(r *ingest.Request) { r.Status, r.PromptTokens = ingest.StatusError, ingest.Unknown })},
		"failed with zeros": {
			failed(llm(map[string]any{"gen_ai.usage.input_tokens": 0, "gen_ai.usage.output_tokens": 0})),
			with(func(r *ingest.Request) {
				r.Status, r.PromptTokens, r.OutputTokens = ingest.StatusError, ingest.Unknown, 0
			}),
		},

		"http":             {span{attrs: map[string]any{"http.route": "/v1/chat/completions", "http.response.status_code": 200}, start: at, end: at}, nil},
		"tool":             {llm(map[string]any{"gen_ai.operation.name": "execute_tool"}), nil},
		"agent":            {llm(map[string]any{"gen_ai.operation.name": "invoke_agent"}), nil},
		"fetched":          {llm(map[string]any{"gen_ai.operation.name": "fetch_response"}), nil},
		"chain":            {llm(map[string]any{"openinference.span.kind": "CHAIN"}), nil},
		"workflow":         {llm(map[string]any{"traceloop.span.kind": "workflow"}), nil},
		"generateText":     {llm(map[string]any{"ai.operationId": "ai.generateText"}), nil},
		"doGenerate":       {llm(map[string]any{"ai.operationId": "ai.generateText.doGenerate"}), &bare},
		"batch of LiteLLM": {failed(llm(map[string]any{"gen_ai.operation.name": "acreate_batch"})), nil},
		"LiteLLM fails": {
			failed(llm(map[string]any{"gen_ai.operation.name": "acompletion", "gen_ai.usage.input_tokens": nil, "metadata.user_api_key_team_alias": "acme"})),
			with(func(r *ingest.Request) {
				r.Status, r.PromptTokens, r.Tenant = ingest.StatusError, ingest.Unknown, "acme"
			}),
		},
		"LiteLLM v2": {
			llm(map[string]any{"litellm.team.alias": "acme", "litellm.team.id": "t-1", "litellm.end_user.id": "u"}),
			with(func(r *ingest.Request) { r.Tenant = "acme" }),
		},
		"LiteLLM v2, end user": {llm(map[string]any{"litellm.end_user.id": "u"}), with(func(r *ingest.Request) { r.Tenant = "u" })},
		"Vercel fails": {
			failed(span{attrs: map[string]any{"ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "m"}, start: at, end: at.Add(time.Second)}),
			with(func(r *ingest.Request) { r.Status, r.PromptTokens = ingest.StatusError, ingest.Unknown }),
		},
		"Vercel streams": {
			span{attrs: map[string]any{
				"ai.operationId": "ai.streamText.doStream", "ai.model.id": "m", "ai.usage.promptTokens": 100, "ai.usage.completionTokens": 20,
				"ai.response.msToFirstChunk": 250.5, "ai.telemetry.functionId": "summarise", "ai.telemetry.metadata.userId": "u", "ai.telemetry.metadata.sessionId": "s",
			}, start: at, end: at.Add(time.Second)},
			with(func(r *ingest.Request) {
				r.OutputTokens, r.FirstTokenAt, r.Feature, r.Tenant, r.Session = 20, at.Add(250500*time.Microsecond), "summarise", "u", ingest.HashSession("s")
			}),
		},
		"agentgateway rejects": {
			llm(map[string]any{"gen_ai.usage.input_tokens": nil, "http.status": 429}),
			with(func(r *ingest.Request) {
				r.Phase, r.Status, r.PromptTokens = ingest.PhaseRejected, ingest.StatusRejected, ingest.Unknown
			}),
		},
		"written tokens counted apart": {
			llm(map[string]any{"gen_ai.usage.input_tokens": 21, "gen_ai.usage.cache_creation_input_tokens": 1188, "gen_ai.usage.cache_read_input_tokens": 0}),
			with(func(r *ingest.Request) { r.PromptTokens, r.CachedTokens = 1209, 0 }),
		},
		"Bedrock counts apart, shown by the total": {
			llm(map[string]any{"gen_ai.usage.output_tokens": 20, "gen_ai.usage.total_tokens": 150, "gen_ai.usage.cache_read.input_tokens": 30}),
			with(func(r *ingest.Request) { r.PromptTokens, r.CachedTokens, r.OutputTokens = 130, 30, 20 }),
		},
		"Bedrock has the cache in the total alone": {
			llm(map[string]any{"gen_ai.usage.output_tokens": 20, "gen_ai.usage.total_tokens": 150, "gen_ai.system": "aws.bedrock"}),
			with(func(r *ingest.Request) { r.PromptTokens, r.OutputTokens = 130, 20 }),
		},
		"Gemini has thoughts in the total alone": {
			llm(map[string]any{"gen_ai.usage.output_tokens": 20, "gen_ai.usage.total_tokens": 150, "gen_ai.provider.name": "gcp.gen_ai", "gen_ai.usage.cache_read.input_tokens": 64}),
			with(func(r *ingest.Request) { r.CachedTokens, r.OutputTokens = 64, 50 }),
		},
		"LiteLLM is rejected by its code": {
			failed(llm(map[string]any{"gen_ai.operation.name": nil, "llm.request.type": "acompletion", "gen_ai.usage.input_tokens": nil, "error.code": "429", "error.type": "APIError", "llm.user": "u"})),
			with(func(r *ingest.Request) {
				r.Phase, r.Status, r.PromptTokens, r.Tenant = ingest.PhaseRejected, ingest.StatusRejected, ingest.Unknown, "u"
			}),
		},
		"agentgateway streams": {
			llm(map[string]any{"agw.ai.time_to_first_token": 0.25}), with(func(r *ingest.Request) { r.FirstTokenAt = at.Add(250 * time.Millisecond) }),
		},
		"OpenInference's new names": {
			span{attrs: map[string]any{"openinference.span.kind": "LLM", "llm.request.model_name": "m", "llm.response.model_name": "m-1", "llm.token_count.prompt": 100}, start: at, end: at.Add(time.Second)}, &bare,
		},
		"LiteLLM transcribes": {llm(map[string]any{"gen_ai.operation.name": "generate_content", "litellm.call_type": "atranscription", "gen_ai.usage.input_tokens": nil}), nil},
		"LiteLLM moderates":   {llm(map[string]any{"gen_ai.operation.name": "litellm.responses_management", "gen_ai.usage.input_tokens": nil}), nil},
		"embedding of OpenInference": {
			span{attrs: map[string]any{"openinference.span.kind": "EMBEDDING", "embedding.model_name": "m", "llm.token_count.prompt": 100}, start: at, end: at.Add(time.Second)},
			with(func(r *ingest.Request) { r.OutputTokens = 0 }),
		},
		"embedding fails": {
			failed(span{attrs: map[string]any{"openinference.span.kind": "EMBEDDING", "embedding.model_name": "m"}, start: at, end: at.Add(time.Second)}),
			with(func(r *ingest.Request) {
				r.Status, r.PromptTokens, r.OutputTokens = ingest.StatusError, ingest.Unknown, 0
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := decodeTraces(t, Meta{}, tracesOf(map[string]any{"service.name": "vllm-m", "service.instance.id": "pod-0"}, tc.span))
			want := &ingest.Batch{Ignored: 1}
			if tc.want != nil {
				want = &ingest.Batch{Source: "pod-0", Requests: []ingest.Request{*tc.want}}
			}
			if d := diff(want, b); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestOTLPPool(t *testing.T) {
	for name, tc := range map[string]struct {
		meta        Meta
		resource    map[string]any
		attrs       map[string]any
		pool, class string
	}{
		"model":    {Meta{}, nil, nil, "m", ""},
		"url":      {Meta{Pool: "p", Class: "c"}, nil, nil, "p", "c"},
		"resource": {Meta{Pool: "p", Class: "c"}, map[string]any{"forewarm.pool": "q", "forewarm.class": "d"}, nil, "q", "d"},
		"span":     {Meta{}, map[string]any{"forewarm.pool": "q"}, map[string]any{"forewarm.pool": "r"}, "r", ""},
		"service":  {Meta{}, map[string]any{"service.name": "s"}, map[string]any{"gen_ai.request.model": nil}, "s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := decodeTraces(t, tc.meta, tracesOf(tc.resource, llm(tc.attrs)))
			if len(b.Requests) != 1 || b.Requests[0].Pool != tc.pool || b.Requests[0].Class != tc.class {
				t.Errorf("got %+v, want pool %q and class %q", b, tc.pool, tc.class)
			}
		})
	}
}

// TestOTLPCountsOnce: of spans of one call, only the innermost with counts becomes a request. A case has spans, with
// ids from 1, and the prompt tokens of the spans that count.
func TestOTLPCountsOnce(t *testing.T) {
	prompt := func(n int, attrs ...any) span {
		s := llm(map[string]any{"gen_ai.usage.input_tokens": n})
		for i := 0; i < len(attrs); i += 2 {
			s.attrs[attrs[i].(string)] = attrs[i+1]
		}
		return s
	}
	other := span{attrs: map[string]any{"http.route": "/"}, start: at, end: at.Add(time.Second)}
	unsized := llm(map[string]any{"gen_ai.usage.input_tokens": nil})
	for name, tc := range map[string]struct {
		spans   []span
		want    []int64
		ignored int
	}{
		"engine under gateway":          {[]span{prompt(1), prompt(2).under(1)}, []int64{2}, 1},
		"engine comes first":            {[]span{prompt(2).under(2), prompt(1)}, []int64{2}, 1},
		"with http between":             {[]span{prompt(1), other.under(1), other.under(2), prompt(4).under(3)}, []int64{4}, 3},
		"three deep":                    {[]span{prompt(1), prompt(2).under(1), prompt(3).under(2)}, []int64{3}, 2},
		"agent with many calls":         {[]span{other, prompt(2).under(1), prompt(3).under(1), prompt(4).under(1)}, []int64{2, 3, 4}, 1},
		"one gateway call, two tries":   {[]span{prompt(1), prompt(2).under(1), prompt(3).under(1)}, []int64{2, 3}, 1},
		"two gateway calls":             {[]span{other, prompt(2).under(1), prompt(3).under(2), prompt(4).under(1), prompt(5).under(4)}, []int64{3, 5}, 3},
		"parent elsewhere":              {[]span{prompt(1).under(9), prompt(2).under(8)}, []int64{1, 2}, 0},
		"same ids in another trace":     {[]span{prompt(1), {trace: 2, parent: 1, attrs: prompt(2).attrs, start: at, end: at}}, []int64{1, 2}, 0},
		"gateway without counts":        {[]span{unsized, prompt(2).under(1)}, []int64{2}, 1},
		"inner without counts":          {[]span{prompt(1), unsized.under(1)}, []int64{1}, 1},
		"gateway under one without":     {[]span{prompt(1), unsized.under(1), prompt(3).under(2)}, []int64{3}, 2},
		"its own parent":                {[]span{prompt(1).under(1)}, []int64{1}, 0},
		"circle":                        {[]span{prompt(1).under(2), prompt(2).under(1)}, []int64{1}, 1},
		"circle of others":              {[]span{other.under(2), other.under(1), prompt(3).under(1)}, []int64{3}, 2},
		"a failed try, then a good one": {[]span{other, prompt(2, "error.type", "500").under(1), prompt(3).under(1)}, []int64{2, 3}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := decodeTraces(t, Meta{}, tracesOf(nil, tc.spans...))
			var got []int64
			for _, r := range b.Requests {
				got = append(got, r.PromptTokens)
			}
			if d := diff(tc.want, got); d != "" || b.Ignored != tc.ignored || len(b.Refused) > 0 {
				t.Errorf("%s, ignored %d, want %d, refused %+v", d, b.Ignored, tc.ignored, b.Refused)
			}
		})
	}
}

// TestOTLPEngineInheritsFromGateway: the request of the engine's span has names and session of the gateway's span.
func TestOTLPEngineInheritsFromGateway(t *testing.T) {
	gateway := llm(map[string]any{
		"gen_ai.conversation.id": "s", "metadata.user_api_key_team_alias": "team",
		"gen_ai.usage.output_tokens": 7, "forewarm.class": "c",
	})
	engine := llm(map[string]any{"gen_ai.request.model": nil, "gen_ai.usage.output_tokens": 8})
	want := ingest.Request{
		ID: "01000000000000000000000000000000-0200000000000000", Pool: "m", Class: "c", Model: "m", Tenant: "team", Attempt: 1, Session: ingest.HashSession("s"),
		ArrivedAt: at, FinishedAt: at.Add(time.Second), PromptTokens: 100, CachedTokens: ingest.Unknown, OutputTokens: 8, MaxOutputTokens: ingest.Unknown,
	}
	b := decodeTraces(t, Meta{}, tracesOf(nil, gateway, engine.under(1)))
	if d := diff(&ingest.Batch{Ignored: 1, Requests: []ingest.Request{want}}, b); d != "" {
		t.Error(d)
	}
}

// TestOTLPRecordings: recorded JSON of libraries decodes the same when converted to protobuf.
func TestOTLPRecordings(t *testing.T) {
	for _, sample := range samples(t, "otlp-json") {
		traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(sample)
		if err == nil && len(decodeTraces(t, Meta{}, traces).Refused) == 0 {
			t.Logf("%d spans", traces.SpanCount())
		}
	}
}

// TestOTLPResponseID: the spans of a gateway and of its vLLM, which come in different exports, have the same id.
func TestOTLPResponseID(t *testing.T) {
	const id = "chatcmpl-8ac0b1d2f3e44b5d9a6c7e8f90a1b2c3"
	gateway := decodeTraces(t, Meta{Pool: "p"}, tracesOf(nil, llm(map[string]any{"gen_ai.response.id": id})))
	engine := decodeTraces(t, Meta{Pool: "p"}, tracesOf(nil, llm(map[string]any{"gen_ai.request.id": id, "gen_ai.request.model": nil})))
	for _, b := range []*ingest.Batch{gateway, engine} {
		if len(b.Requests) != 1 || b.Requests[0].ID != id || b.Requests[0].Pool != "p" {
			t.Errorf("got %+v, want id %s", b, id)
		}
	}
}

func TestOTLPRefuses(t *testing.T) {
	at2199 := time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		span span
		want ingest.Reason
	}{
		"negative":         {llm(map[string]any{"gen_ai.usage.input_tokens": -1}), ingest.ReasonNegativeCount},
		"huge":             {llm(map[string]any{"gen_ai.usage.output_tokens": int64(1) << 62}), ingest.ReasonHugeCount},
		"fraction":         {llm(map[string]any{"gen_ai.usage.output_tokens": 1.5}), ingest.ReasonWrongType},
		"words":            {llm(map[string]any{"gen_ai.usage.output_tokens": "many"}), ingest.ReasonWrongType},
		"huge sum":         {llm(map[string]any{"gen_ai.usage.input_tokens": 1, "gen_ai.usage.cache_read.input_tokens": 100_000_000}), ingest.ReasonHugeCount},
		"boolean":          {llm(map[string]any{"gen_ai.usage.output_tokens": true}), ingest.ReasonWrongType},
		"no counts":        {llm(map[string]any{"gen_ai.usage.input_tokens": nil}), ingest.ReasonMissingField},
		"no pool":          {llm(map[string]any{"gen_ai.request.model": nil}), ingest.ReasonMissingField},
		"no time":          {span{attrs: llm(nil).attrs}, ingest.ReasonMissingField},
		"far future":       {span{attrs: llm(nil).attrs, start: at, end: at2199}, ingest.ReasonBadTime},
		"ends before":      {span{attrs: llm(nil).attrs, start: at, end: at.Add(-time.Second)}, ingest.ReasonInconsistent},
		"control in label": {llm(map[string]any{"forewarm.pool": "a\nb"}), ingest.ReasonBadLabel},
		"long label":       {llm(map[string]any{"gen_ai.request.model": strings.Repeat("x", 257)}), ingest.ReasonLabelTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			b := decodeTraces(t, Meta{}, tracesOf(nil, tc.span, llm(nil)))
			if len(b.Refused) != 1 || b.Refused[0].Reason != tc.want || len(b.Requests) != 1 {
				t.Fatalf("got %+v, want one request, and one refused as %s", b, tc.want)
			}
			if r := b.Refused[0]; !strings.HasPrefix(r.Detail, "span 0100000000000000: ") {
				t.Errorf("refusal %+v does not name the span", r)
			}
		})
	}
}

func TestOTLPRefusesMessages(t *testing.T) {
	deep := `{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":` + strings.Repeat(`{"arrayValue":{"values":[`, 5000)
	for name, tc := range map[string]struct {
		contentType, data string
		want              ingest.Reason
	}{
		"not JSON":               {ContentTypeOTLPJSON, "hello", ingest.ReasonNotJSON},
		"empty":                  {ContentTypeOTLPJSON, "", ingest.ReasonEmpty},
		"word":                   {ContentTypeOTLPJSON, `"resourceSpans"`, ingest.ReasonUnknownFormat},
		"native record":          {ContentTypeOTLPJSON, `{"pool":"p","prompt_tokens":7}`, ingest.ReasonUnknownFormat},
		"deep":                   {ContentTypeOTLPJSON, deep, ingest.ReasonTooDeep},
		"number for a list":      {ContentTypeOTLPJSON, `{"resourceSpans":7}`, ingest.ReasonWrongType},
		"number for a span":      {ContentTypeOTLPJSON, `{"resourceSpans":[{"scopeSpans":[{"spans":[7]}]}]}`, ingest.ReasonWrongType},
		"number for attributes":  {ContentTypeOTLPJSON, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":7}]}]}]}`, ingest.ReasonWrongType},
		"words for a time":       {ContentTypeOTLPJSON, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"now","attributes":[{"key":"gen_ai.usage.input_tokens","value":{"intValue":1}}]}]}]}]}`, ingest.ReasonBadTime},
		"invalid UTF-8":          {ContentTypeOTLPJSON, "{\"resourceSpans\":[],\"x\":\"\xff\"}", ingest.ReasonInvalidUTF8},
		"cut protobuf":           {ContentTypeOTLP, "\x0a\x05\x12", ingest.ReasonNotProtobuf},
		"no protobuf":            {ContentTypeOTLP, "\x0f\xff", ingest.ReasonNotProtobuf},
		"another protobuf":       {ContentTypeOTLP, "\x12\x02hi", ingest.ReasonUnknownFormat},
		"span cut in its middle": {ContentTypeOTLP, "\x0a\x06\x12\x04\x12\x02\x0a\x10", ingest.ReasonNotProtobuf},
	} {
		t.Run(name, func(t *testing.T) {
			b := decode(Meta{ContentType: tc.contentType}, tc.data)
			if len(b.Refused) != 1 || b.Refused[0].Reason != tc.want || len(b.Requests) > 0 {
				t.Errorf("got %+v, want %s", b, tc.want)
			}
		})
	}
	for contentType, data := range map[string]string{ContentTypeOTLP: "", ContentTypeOTLPJSON: "{}"} {
		if b := decode(Meta{ContentType: contentType, Kind: KindReplica}, data); len(b.Refused) != 1 || b.Refused[0].Reason != ingest.ReasonUnknownFormat {
			t.Errorf("traces of a replica: %+v", b)
		}
		if d := diff(&ingest.Batch{}, decode(Meta{ContentType: contentType}, data)); d != "" {
			t.Errorf("empty export: %s", d)
		}
	}
}

// TestOTLPLines: all exports in one message, as the collector's file exporter writes them, count as one export.
func TestOTLPLines(t *testing.T) {
	line := func(id, parent string, prompt int) string {
		return fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":%q,"parentSpanId":%q,"startTimeUnixNano":"`+atMS+`000000","attributes":[{"key":"gen_ai.request.model","value":{"stringValue":"m"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":%d}}]}]}]}]}`, id, parent, prompt)
	}
	const gateway, engine = "00000000000000a1", "00000000000000b2"
	for _, data := range []string{
		line(gateway, "", 5) + "\nhalf\r\n" + line(engine, gateway, 7) + "\n",
		"\ufeff[" + line(gateway, "", 5) + "," + line(engine, gateway, 7) + `,"half"]`,
	} {
		b := decode(Meta{ContentType: ContentTypeOTLPJSON}, data)
		if len(b.Requests) != 1 || b.Requests[0].PromptTokens != 7 || b.Ignored != 1 || len(b.Refused) != 1 {
			t.Errorf("%s\ngot %+v", data, b)
		}
	}
}

// TestOTLPSkipsNesting: an attribute with 100,000 nested levels is skipped. The lengths of the levels are wrong, which
// the decoder does not see.
func TestOTLPSkipsNesting(t *testing.T) {
	var nested []byte
	for range 100_000 {
		for _, tag := range []uint64{message(1), message(5)} {
			nested = appendVarint(appendVarint(nested, tag), uint64(len(nested)))
		}
	}
	attribute := append(appendVarint([]byte{byte(message(1)), 1, 'x', byte(message(2))}, uint64(len(nested))), nested...)
	frame := func(number uint64, content []byte) []byte {
		return append(appendVarint(appendVarint(nil, message(number)), uint64(len(content))), content...)
	}
	data := frame(1, frame(2, frame(2, frame(9, attribute))))
	if d := diff(&ingest.Batch{Ignored: 1}, decode(Meta{ContentType: ContentTypeOTLP}, string(data))); d != "" {
		t.Error(d)
	}
}

// message is the tag of an embedded message with that field number.
func message(number uint64) uint64 { return number<<3 | 2 }

func appendVarint(b []byte, n uint64) []byte {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func TestOTLPBatchLimit(t *testing.T) {
	limits := ingest.DefaultLimits()
	limits.BatchRecords = 2
	data := must((&ptrace.ProtoMarshaler{}).MarshalTraces(tracesOf(nil, llm(nil), llm(nil), llm(nil), llm(nil))))
	var b ingest.Batch
	Decode(Meta{ContentType: ContentTypeOTLP}, data, limits, &b)
	if want := "2 records beyond the limit of 2"; len(b.Requests) != 2 || len(b.Refused) != 1 || b.Refused[0].Detail != want {
		t.Errorf("got %+v, want two requests and %q", b, want)
	}
}

// TestOTLPSource: an export of two hosts has no source, unless the message names one.
func TestOTLPSource(t *testing.T) {
	two := tracesOf(map[string]any{"host.name": "a"}, llm(nil))
	tracesOf(map[string]any{"host.name": "b"}, llm(nil)).ResourceSpans().At(0).CopyTo(two.ResourceSpans().AppendEmpty())
	if b := decodeTraces(t, Meta{}, two); b.Source != "" || len(b.Requests) != 2 {
		t.Errorf("source %q of %d requests of two hosts", b.Source, len(b.Requests))
	}
	if b := decodeTraces(t, Meta{Source: "c"}, two); b.Source != "c" {
		t.Errorf("source %q, want the message's own", b.Source)
	}
}

func BenchmarkDecodeOTLP(b *testing.B) {
	spans := make([]span, 200)
	for i := range spans {
		spans[i] = llm(map[string]any{"gen_ai.usage.output_tokens": 20, "gen_ai.response.id": fmt.Sprintf("chatcmpl-%032d", i), "gen_ai.input.messages": strings.Repeat("x", 2000)})
	}
	data := must((&ptrace.ProtoMarshaler{}).MarshalTraces(tracesOf(map[string]any{"service.name": "gw"}, spans...)))
	b.ReportAllocs()
	var batch ingest.Batch
	for b.Loop() {
		batch.Reset()
		Decode(Meta{ContentType: ContentTypeOTLP}, data, ingest.DefaultLimits(), &batch)
	}
	b.ReportMetric(float64(b.N*len(spans))/b.Elapsed().Seconds(), "spans/s")
}

// TestOTLPKeepsNoSecret puts a secret in every place of every sample. No refusal contains it.
func TestOTLPKeepsNoSecret(t *testing.T) {
	for _, sample := range samples(t, "otlp-json") {
		var tree any
		if err := json.Unmarshal(sample, &tree); err != nil {
			t.Fatal(err)
		}
		plant(tree, false, func(planted any, _ bool) {
			data := must(json.Marshal(planted))
			var b ingest.Batch
			Decode(Meta{ContentType: ContentTypeOTLPJSON}, data, ingest.DefaultLimits(), &b)
			checkSecret(t, data, &b, true)
		})
	}
}

func FuzzDecodeOTLPJSON(f *testing.F) {
	for _, sample := range samples(f, "otlp-json") {
		f.Add(sample)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkExport(t, ContentTypeOTLPJSON, data) })
}

// FuzzDecodeOTLPProtobuf compares the number of spans with pdata's decoder, and the result with that of JSON.
func FuzzDecodeOTLPProtobuf(f *testing.F) {
	for _, sample := range samples(f, "otlp-json") {
		traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(sample)
		if err != nil {
			continue
		}
		data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(traces)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := checkExport(t, ContentTypeOTLP, data)
		traces, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
		if err != nil {
			return
		}
		if n := len(b.Requests) + len(b.Refused) + b.Ignored; n < traces.SpanCount() {
			t.Fatalf("%d spans, but %d results", traces.SpanCount(), n)
		}
		text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
		if err != nil || !json.Valid(text) || !utf8.Valid(data) {
			return
		}
		again := checkExport(t, ContentTypeOTLPJSON, text)
		if d := diff(b.Requests, again.Requests); d != "" {
			t.Fatalf("protobuf and JSON disagree (-protobuf +JSON):\n%s\n%s", d, text)
		}
	})
}

// checkExport decodes an export and checks that all records are valid.
func checkExport(t *testing.T, contentType string, data []byte) *ingest.Batch {
	t.Helper()
	var b ingest.Batch
	Decode(Meta{ContentType: contentType}, data, ingest.DefaultLimits(), &b)
	checkBatch(t, &b)
	checkStored(t, &b)
	return &b
}
