package listener

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
)

// memory keeps stored batches and refusals.
type memory struct {
	mu      sync.Mutex
	batches []ingest.Batch
	refused []ingest.Refusal
	fail    error
	hold    chan struct{} // Store waits until it is closed, unless it is nil
}

func (m *memory) Store(ctx context.Context, b *ingest.Batch) error {
	if m.hold != nil {
		select {
		case <-m.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail == nil {
		m.batches = append(m.batches, ingest.Batch{Source: b.Source, Requests: slices.Clone(b.Requests), Sums: slices.Clone(b.Sums), Replicas: slices.Clone(b.Replicas)})
	}
	return m.fail
}

func (m *memory) refuse(refused []ingest.Refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused = append(m.refused, refused...)
}

func (m *memory) requests() []ingest.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []ingest.Request
	for _, b := range m.batches {
		all = append(all, b.Requests...)
	}
	return all
}

// onLoopback is a configuration that listens on a free port of 127.0.0.1.
func onLoopback() Config {
	c := DefaultConfig()
	c.HTTP.Listen = "127.0.0.1:0"
	return c
}

// serve runs a listener with short timeouts until the test ends.
func serve(t testing.TB, c Config, store func(context.Context, *ingest.Batch) error, refused func([]ingest.Refusal)) *Listener {
	t.Helper()
	return run(t, c, Deps{Store: store, Refused: refused, Ignored: func(int) {}, Log: zap.NewNop()}, timeouts{body: patience, store: patience})
}

func run(t testing.TB, c Config, deps Deps, limits timeouts) *Listener {
	t.Helper()
	if deps.Serves == nil {
		deps.Serves = func(string) bool { return true }
	}
	l := must(New(c, deps))
	l.timeouts = limits
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l
}

// patience is how long a listener of [serve] waits for a body, and for the store.
const patience = 200 * time.Millisecond

// answered is the status and header of a response.
type answered struct {
	code   int
	header http.Header
}

// post sends body with headers, which are pairs of name and value. It returns the response and its body.
func post(t *testing.T, url string, body []byte, headers ...string) (answered, []byte) {
	t.Helper()
	req := must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body)))
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	req.Host = req.Header.Get("Host") // "": the host of the URL
	res := must(http.DefaultClient.Do(req))
	defer res.Body.Close()
	answer := must(io.ReadAll(res.Body))
	return answered{res.StatusCode, res.Header}, answer
}

// traces is an export of chats as an SDK makes it, with these numbers of prompt tokens.
func traces(prompts ...int64) ptrace.Traces {
	traces := ptrace.NewTraces()
	rs := traces.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "gateway")
	rs.Resource().Attributes().PutStr("host.name", "gateway-0")
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for i, prompt := range prompts {
		s := spans.AppendEmpty()
		s.SetTraceID(pcommon.TraceID{1})
		s.SetSpanID(pcommon.SpanID{byte(i + 1)})
		s.SetKind(ptrace.SpanKindClient)
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(start.Add(time.Second)))
		s.Attributes().PutStr("gen_ai.operation.name", "chat")
		s.Attributes().PutStr("gen_ai.request.model", "m")
		s.Attributes().PutInt("gen_ai.usage.input_tokens", prompt)
		s.Attributes().PutStr("gen_ai.input.messages", "a prompt")
	}
	return traces
}

func protobufOf(traces ptrace.Traces) []byte {
	return must((&ptrace.ProtoMarshaler{}).MarshalTraces(traces))
}

func jsonOf(traces ptrace.Traces) []byte {
	return must((&ptrace.JSONMarshaler{}).MarshalTraces(traces))
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func requestsBy(l *Listener, code string) uint64 { return l.Requests[code].Load() }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
