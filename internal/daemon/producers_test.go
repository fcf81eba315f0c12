package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/testenv"
)

// producerPools are those of the calls below; the others are scraped.
var producerPools = []string{"litellm", "openinference", "vercel", "assistants"}

// TestProducersOnALiveDaemon sends what gateways, SDKs and engines write to one daemon, and reads what its API and
// /metrics make of it.
func TestProducersOnALiveDaemon(t *testing.T) {
	t.Parallel()
	lines := []string{"listeners: {http: {listen: '127.0.0.1:0'}}", "scrape: {interval: 1s, timeout: 1s, jobs: ["}
	samples := map[string]string{"ray": "vllm_ray", "nim": "vllm_nim", "dynamo": "dynamo", "epp": "epp", "inferencepool": "inferencepool"}
	for pool, sample := range samples {
		text := must(os.ReadFile("../../ingest/scrape/testdata/" + sample + ".txt"))
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			w.Write(text)
		}))
		defer engine.Close()
		lines = append(lines, "  {pool: "+pool+", targets: ['"+engine.Listener.Addr().String()+"']},")
	}
	lines = append(lines, "  {pool: ray, targets: ['127.0.0.1:1']}]}", "pools:") // nobody listens on port 1
	for _, pool := range producerPools {
		lines = append(lines, "  - {name: "+pool+", decode_tokens_per_s: 400, itl: 25ms, replicas: {max: 4}}")
	}
	for pool := range samples {
		lines = append(lines, "  - {name: "+pool+", decode_tokens_per_s: 400, itl: 25ms, replicas: {max: 4}}")
	}
	p := startDaemon(t, lines...)
	requests := testenv.Subscribe(t, p.conn, "forewarm.telemetry.request.>")
	reports := testenv.Subscribe(t, p.conn, "forewarm.telemetry.replica.>")
	if err := p.conn.Flush(); err != nil { // the listener publishes on another connection
		t.Fatal(err)
	}

	at := time.Now().UTC().Truncate(time.Second).Add(-10 * time.Second)
	traces := ptrace.NewTraces()
	list := traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	span := func(attrs map[string]any) ptrace.Span {
		s := list.AppendEmpty()
		s.SetTraceID(pcommon.TraceID{byte(list.Len())})
		s.SetSpanID(pcommon.SpanID{byte(list.Len())})
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(at))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(at.Add(5 * time.Second)))
		if err := s.Attributes().FromRaw(attrs); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, name := range []string{"litellm.team.alias", "litellm.team.id", "litellm.end_user.id"} {
		span(map[string]any{name: "tenant of " + name, "gen_ai.operation.name": "chat", "gen_ai.request.model": "litellm", "gen_ai.usage.input_tokens": 500, "gen_ai.usage.output_tokens": 300})
	}
	span(map[string]any{
		"ai.operationId": "ai.streamText.doStream", "ai.model.id": "vercel", "ai.usage.promptTokens": 500, "ai.usage.completionTokens": 300,
		"ai.response.msToFirstChunk": 250., "ai.telemetry.functionId": "summarise", "ai.telemetry.metadata.userId": "umbrella", "ai.telemetry.metadata.sessionId": "s-1",
	})
	span(map[string]any{"openinference.span.kind": "EMBEDDING", "embedding.model_name": "openinference", "llm.token_count.prompt": 100})
	span(map[string]any{
		"openinference.span.kind": "LLM", "llm.model_name": "openinference",
		"llm.token_count.prompt": 100, "llm.token_count.completion": 20,
	})
	span(map[string]any{"openinference.span.kind": "LLM", "llm.model_name": "openinference"}).Status().SetCode(ptrace.StatusCodeError)
	body := must((&ptrace.ProtoMarshaler{}).MarshalTraces(traces))
	post(t, p, "/v1/traces", "application/x-protobuf", body)
	post(t, p, "/v1/telemetry/openai", "application/json", fmt.Appendf(nil, `{"object":"thread.run","id":"run_1","created_at":%d,"completed_at":%d,"model":"assistants","status":"completed",`+
		`"usage":{"prompt_tokens":200,"completion_tokens":100,"total_tokens":300}}`, at.Unix(), at.Unix()+2))
	var stored ingest.Batch
	for len(stored.Requests) < 8 {
		m, err := requests.NextMsg(testenv.Patience)
		if err != nil {
			t.Fatalf("%v after %+v", err, stored)
		}
		codec.Decode(codec.Meta{Kind: codec.KindRequest, ContentType: m.Header.Get("Content-Type"), Encoding: m.Header.Get("Content-Encoding")}, m.Data, ingest.DefaultLimits(), &stored)
	}
	type call struct {
		pool, tenant, feature string
		status                ingest.Status
		session               bool
		prompt, output        int64
		ttft                  time.Duration
	}
	var got []call
	for _, r := range stored.Requests {
		c := call{r.Pool, r.Tenant, r.Feature, r.Status, r.Session == ingest.HashSession("s-1"), r.PromptTokens, r.OutputTokens, 0}
		if !r.FirstTokenAt.IsZero() {
			c.ttft = r.FirstTokenAt.Sub(r.ArrivedAt)
		}
		got = append(got, c)
	}
	if want := []call{
		{"litellm", "tenant of litellm.team.alias", "", ingest.StatusOK, false, 500, 300, 0},
		{"litellm", "tenant of litellm.team.id", "", ingest.StatusOK, false, 500, 300, 0},
		{"litellm", "tenant of litellm.end_user.id", "", ingest.StatusOK, false, 500, 300, 0},
		{"vercel", "umbrella", "summarise", ingest.StatusOK, true, 500, 300, 250 * time.Millisecond},
		{"openinference", "", "", ingest.StatusOK, false, 100, 0, 0},
		{"openinference", "", "", ingest.StatusOK, false, 100, 20, 0},
		{"openinference", "", "", ingest.StatusError, false, ingest.Unknown, ingest.Unknown, 0},
		{"assistants", "", "", ingest.StatusOK, false, 200, 100, 0},
	}; !slices.Equal(got, want) {
		t.Errorf("stored are\n%+v, want\n%+v", got, want)
	}

	seen := map[string]bool{}
	type replica struct {
		ready, waiting int
		kv             float64
	}
	states := map[string]replica{}
	for want := 8; want > 0; { // of the five engines' replicas
		m := must(reports.NextMsg(testenv.Patience))
		var r struct {
			Pool, Replica string
			Waiting       int
			KVUsedRatio   float64 `json:"kv_used_ratio"`
			KVUsed        float64 `json:"kv_used_tokens"`
			KVCapacity    float64 `json:"kv_capacity_tokens"`
		}
		if err := json.Unmarshal(m.Data, &r); err != nil {
			t.Fatal(err)
		}
		if want := ingest.Subject("forewarm", ingest.ReplicaSubject, r.Pool, r.Replica); m.Subject != want || m.Header.Get("Content-Type") != "application/json" || m.Header.Get("Forewarm-Source") != "scrape" {
			t.Errorf("a report on %s with %v, want %s", m.Subject, m.Header, want)
		}
		if seen[r.Pool+r.Replica] {
			continue
		}
		seen[r.Pool+r.Replica] = true
		want--
		s := states[r.Pool]
		if r.KVCapacity > 0 {
			r.KVUsedRatio = r.KVUsed / r.KVCapacity
		}
		states[r.Pool] = replica{s.ready + 1, s.waiting + r.Waiting, max(s.kv, r.KVUsedRatio)}
	}
	wantStates := map[string]replica{"ray": {2, 2, .5}, "nim": {1, 1, .125}, "dynamo": {2, 3, .25}, "epp": {2, 3, .5}, "inferencepool": {1, 4, .75}}
	if !maps.Equal(states, wantStates) {
		t.Errorf("replicas, waiting requests and largest KV use are %v, want %v", states, wantStates)
	}

	p.settle(t)
	p.publish(t, "forewarm.telemetry.watermark._", fmt.Appendf(nil, `{"at":%d}`, at.Truncate(time.Minute).Add(2*time.Minute).UnixMilli()))
	testenv.Await(t, "a tick", func() bool { return !p.Status().Tick.IsZero() && len(p.Pools()) == len(samples)+len(producerPools) })
	for pool, want := range wantStates {
		_, body := testenv.Get(p.base + "/api/v1/pools/" + pool)
		if !strings.Contains(body, fmt.Sprintf(`"ready": %d,`, want.ready)) || !strings.Contains(body, `"observed": true`) {
			t.Errorf("%s has no %d ready replicas in\n%s", pool, want.ready, body)
		}
	}
	for pool, want := range map[string]float64{"litellm": 3, "vercel": 1, "openinference": 3, "assistants": 1} {
		if n := minuteOf(t, p, pool, "requests", at) * 60; math.Abs(n-want) > 1e-9 {
			t.Errorf("%s has %g requests, want %g", pool, n, want)
		}
	}
	testenv.Await(t, "a target that refuses connections to be counted", func() bool {
		return testenv.Metric(t, p.base, `forewarm_scrape_failures_total{reason="refused"}`) > 0
	})
	for name, want := range map[string]float64{
		`forewarm_listener_records_total`:                         8,
		`forewarm_ingest_refused_total{reason="duplicate"}`:       0,
		`forewarm_ingest_refused_total{reason="missing_field"}`:   0,
		`forewarm_ingest_refused_total{reason="unknown_pool"}`:    0,
		`forewarm_scrape_targets`:                                 6,
		`forewarm_scrape_failures_total{reason="timeout"}`:        0,
		`forewarm_scrape_failures_total{reason="bad_exposition"}`: 0,
	} {
		if got := testenv.Metric(t, p.base, name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
}

// minuteOf is what the API says of one dimension of a pool in the minute of a time.
func minuteOf(t *testing.T, p *inProcess, pool, dimension string, at time.Time) (value float64) {
	t.Helper()
	testenv.Await(t, dimension+" of "+pool, func() bool { // series are stored after the tick is shown
		_, body := testenv.Get(p.base + "/api/v1/pools/" + pool + "/timeline?resource=" + dimension)
		var answer struct {
			Actual []struct {
				At    time.Time
				Value *float64
			}
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		for _, x := range answer.Actual {
			if x.At.Equal(at.Truncate(time.Minute)) && x.Value != nil {
				value = *x.Value
				return true
			}
		}
		return false
	})
	return value
}

// post sends a body to the listener, which must take it.
func post(t *testing.T, p *inProcess, path, contentType string, body []byte) {
	t.Helper()
	res := must(http.Post("http://"+p.intake.Addr()+path, contentType, bytes.NewReader(body)))
	defer res.Body.Close()
	if answer, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		t.Fatalf("POST %s: %s %s", path, res.Status, answer)
	}
}
