package listener

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// dial connects as an OTLP exporter does.
func dial(t *testing.T, l *Listener, options ...grpc.DialOption) ptraceotlp.GRPCClient {
	t.Helper()
	if len(options) == 0 {
		options = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	conn := must(grpc.NewClient(l.Addr(), options...))
	t.Cleanup(func() { conn.Close() })
	return ptraceotlp.NewGRPCClient(conn)
}

func TestGRPCExport(t *testing.T) {
	m := &memory{}
	l := serve(t, onLoopback(), m.Store, m.refuse)
	client := dial(t, l)
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		m.batches = nil
		answer := must(client.Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(traces(100, -1, 200)), options...))
		partial := answer.PartialSuccess()
		if partial.RejectedSpans() != 1 || !strings.Contains(partial.ErrorMessage(), "input_tokens is -1") || len(m.requests()) != 2 || m.batches[0].Source != "gateway-0" {
			t.Errorf("%d rejected, %q, stored %+v", partial.RejectedSpans(), partial.ErrorMessage(), m.batches)
		}
	}
	if n := requestsBy(l, "OK"); n != 2 {
		t.Errorf("%d requests are counted", n)
	}
}

// TestLogs sends OTLP logs as NVIDIA Dynamo's otel sink does, over gRPC and HTTP, with the client library of the
// collector.
func TestLogs(t *testing.T) {
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "dynamo")
	for _, row := range []string{
		`{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1795240802000,"request":{"request_id":"r","model":"m","input_tokens":100,"output_tokens":20,"request_received_ms":1795240800000}}`,
		`{"schema":"dynamo.request.trace.v1"}`,
	} {
		r := resource.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
		r.Attributes().PutStr("schema", "dynamo.request.trace.v1")
		r.Attributes().PutStr("payload", row)
	}
	m := &memory{}
	l := serve(t, onLoopback(), m.Store, m.refuse)
	conn := must(grpc.NewClient(l.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	request := plogotlp.NewExportRequestFromLogs(logs)
	for _, way := range []string{"grpc", "protobuf", "json"} {
		m.batches = nil
		answer := plogotlp.NewExportResponse()
		var err error
		switch way {
		case "grpc":
			answer, err = plogotlp.NewGRPCClient(conn).Export(t.Context(), request)
		case "protobuf":
			body, _ := request.MarshalProto()
			_, text := post(t, "http://"+l.Addr()+"/v1/logs", body, "Content-Type", "application/x-protobuf")
			err = answer.UnmarshalProto(text)
		case "json":
			body, _ := request.MarshalJSON()
			_, text := post(t, "http://"+l.Addr()+"/v1/logs", body, "Content-Type", "application/json")
			err = answer.UnmarshalJSON(text)
		}
		if got := m.requests(); err != nil || answer.PartialSuccess().RejectedLogRecords() != 1 || len(got) != 1 || got[0].Pool != "m" || got[0].PromptTokens != 100 {
			t.Errorf("%s: %v, %d refused, stored %+v", way, err, answer.PartialSuccess().RejectedLogRecords(), got)
		}
	}
}

func TestGRPCRefuses(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := traces(1)
	large.ResourceSpans().At(0).Resource().Attributes().PutStr("x", strings.Repeat("x", 5000))
	for name, tc := range map[string]struct {
		authorization string
		large         bool
		store         *memory
		code          codes.Code
	}{
		"token":       {"Bearer s3cret", false, &memory{}, codes.OK},
		"no token":    {"", false, &memory{}, codes.Unauthenticated},
		"wrong token": {"Bearer guess", false, &memory{}, codes.Unauthenticated},
		"too large":   {"Bearer s3cret", true, &memory{}, codes.ResourceExhausted},
		"store fails": {"Bearer s3cret", false, &memory{fail: errors.New("no stream")}, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c := onLoopback()
			c.HTTP.TokenFile, c.HTTP.MaxBytes = secret, 4096
			l := serve(t, c, tc.store.Store, tc.store.refuse)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", tc.authorization)
			export := traces(1)
			if tc.large {
				export = large
			}
			_, err := dial(t, l).Export(ctx, ptraceotlp.NewExportRequestFromTraces(export))
			if status.Code(err) != tc.code {
				t.Errorf("%v, want %s", err, tc.code)
			}
			if n := requestsBy(l, tc.code.String()); n != 1 {
				t.Errorf("%d requests counted as %s", n, tc.code)
			}
		})
	}
}

func TestGRPCMalformed(t *testing.T) {
	l := serve(t, onLoopback(), new(memory).Store, new(memory).refuse)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	defer client.CloseIdleConnections()
	for _, tc := range []struct {
		service, body string
		want          codes.Code
	}{
		{"trace.v1.TraceService", "\x00\x00\x00\x00\x02\x0f\xff", codes.InvalidArgument}, // not protobuf
		{"trace.v1.TraceService", "\x00\x00\x00\x00\x09\x0f\xff", codes.InvalidArgument}, // shorter than its length says
		{"trace.v1.TraceService", "", codes.InvalidArgument},
		{"metrics.v1.MetricsService", "\x00\x00\x00\x00\x00", codes.Unimplemented},
	} {
		res, err := client.Post("http://"+l.Addr()+"/opentelemetry.proto.collector."+tc.service+"/Export", "application/grpc", strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil { // the trailers come after the body
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Trailer.Get(grpcStatus); got != strconv.Itoa(int(tc.want)) || res.Trailer.Get(grpcMessage) == "" {
			t.Errorf("%s with %q is answered %v, want %s", tc.service, tc.body, res.Trailer, tc.want)
		}
	}
}

func TestGRPCRate(t *testing.T) {
	c := onLoopback()
	c.HTTP.RequestsPerS = 0.001
	l := serve(t, c, new(memory).Store, new(memory).refuse)
	client := dial(t, l)
	for i, want := range []codes.Code{codes.OK, codes.Unavailable} {
		if _, err := client.Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(traces(1))); status.Code(err) != want {
			t.Errorf("export %d: %v, want %s", i, err, want)
		}
	}
}

// TestGRPCSlow: a call ends if the client sends nothing, or if the store does not answer.
func TestGRPCSlow(t *testing.T) {
	m := &memory{hold: make(chan struct{})}
	l := serve(t, onLoopback(), m.Store, m.refuse)
	if _, err := dial(t, l).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(traces(1))); status.Code(err) != codes.Unavailable {
		t.Errorf("a store that does not answer: %v, want Unavailable", err)
	}
	conn := must(grpc.NewClient(l.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	stream := must(conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/opentelemetry.proto.collector.trace.v1.TraceService/Export"))
	if err := stream.RecvMsg(new(any)); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a client that sends nothing: %v, want DeadlineExceeded", err)
	}
}
