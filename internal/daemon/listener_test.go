package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestDaemonListens sends telemetry over HTTP and gRPC, and checks the counters of listener and pipeline.
func TestDaemonListens(t *testing.T) {
	t.Parallel()
	p := startDaemon(t,
		"clock: event",
		"listeners: {http: {listen: '127.0.0.1:0'}}",
		"pools: [{name: m, decode_tokens_per_s: 400, replicas: {max: 4}}]",
	)
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	traces := func(first byte) ptrace.Traces {
		export := ptrace.NewTraces()
		spans := export.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
		for i := range byte(3) {
			s := spans.AppendEmpty()
			s.SetTraceID(pcommon.TraceID{1})
			s.SetSpanID(pcommon.SpanID{first + i})
			s.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
			s.SetEndTimestamp(pcommon.NewTimestampFromTime(start.Add(time.Second)))
			s.Attributes().PutStr("gen_ai.request.model", "m")
			s.Attributes().PutInt("gen_ai.usage.input_tokens", 100*int64(i)-100) // the first is -100, and refused
		}
		spans.AppendEmpty() // ignored
		return export
	}
	base := "http://" + p.intake.Addr()
	send := func(path, contentType string, body []byte) {
		t.Helper()
		res := must(http.Post(base+path, contentType, bytes.NewReader(body)))
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("POST %s: %s", path, res.Status)
		}
	}
	body := must((&ptrace.ProtoMarshaler{}).MarshalTraces(traces(1)))
	send("/v1/traces", "application/x-protobuf", body)
	send("/v1/traces", "application/x-protobuf", body) // the pipeline refuses duplicates
	lite := fmt.Appendf(nil, `[{"id":"a","model":"m","startTime":%d,"endTime":%d,"prompt_tokens":5,"completion_tokens":5,"messages":"a prompt"}]`, start.Unix(), start.Unix()+1)
	send("/v1/telemetry/litellm?class=chat", "application/json", lite)

	for range 2 { // each time the producer gets an error, and the pipeline counts one refusal
		res := must(http.Post(base+"/v1/telemetry/openai?pool=ghost", "application/json", strings.NewReader(`{"prompt_tokens":5}`)))
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest || !bytes.Contains(body, []byte(`pool \"ghost\" is not in the configuration`)) {
			t.Errorf("an unknown pool is answered %s %s", res.Status, body)
		}
	}

	conn := must(grpc.NewClient(p.intake.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	answer, err := ptraceotlp.NewGRPCClient(conn).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(traces(11)))
	if err != nil || answer.PartialSuccess().RejectedSpans() != 1 {
		t.Fatalf("export: %v, %d spans rejected", err, answer.PartialSuccess().RejectedSpans())
	}
	p.settle(t)
	for name, want := range map[string]float64{
		`forewarm_ingest_ignored_total`:                          3,
		`forewarm_ingest_records_total`:                          5, // two of HTTP, one of LiteLLM, two of gRPC
		`forewarm_ingest_refused_total{reason="duplicate"}`:      2,
		`forewarm_ingest_refused_total{reason="negative_count"}`: 3,
		`forewarm_ingest_refused_total{reason="unknown_pool"}`:   2,
		`forewarm_listener_requests_total{code="400"}`:           2,
		`forewarm_listener_requests_total{code="200"}`:           3,
		`forewarm_listener_requests_total{code="OK"}`:            1,
	} {
		if got := testenv.Metric(t, p.base, name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
}

// TestDefaultPoolsAreServed: with a default pool, a listener accepts records of any pool. The pipeline refuses those of
// more than max_pools.
func TestDefaultPoolsAreServed(t *testing.T) {
	t.Parallel()
	p := startDaemon(t,
		"clock: event",
		"listeners: {http: {listen: '127.0.0.1:0'}}",
		"pools: [{name: m, replicas: {max: 4}}]", "default_pool: {replicas: {max: 2}}", "max_pools: 2",
	)
	for _, pool := range []string{"m", "new", "newer", "new"} {
		res, err := http.Post("http://"+p.intake.Addr()+"/v1/telemetry/json?pool="+pool, "application/json",
			strings.NewReader(`{"prompt_tokens":5,"arrived_at":"2026-03-02T08:00:00Z"}`))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("pool %s is answered %s", pool, res.Status)
		}
		p.settle(t)
	}
	if n := testenv.Metric(t, p.base, `forewarm_ingest_refused_total{reason="unknown_pool"}`); n != 1 {
		t.Errorf("%g records are refused for their pool, want that of newer", n)
	}
}
