package listener

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

func TestHTTPTraces(t *testing.T) {
	m := &memory{}
	l := serve(t, onLoopback(), m.Store, m.refuse)
	url := "http://" + l.Addr() + "/v1/traces"
	export, partly := traces(100, 200), traces(100, -1, 200, -2)
	for name, tc := range map[string]struct {
		body    []byte
		headers []string
		refused int64
	}{
		"protobuf":         {protobufOf(export), []string{"Content-Type", "application/x-protobuf"}, 0},
		"protobuf, gzip":   {gzipped(t, protobufOf(export)), []string{"Content-Type", "application/x-protobuf", "Content-Encoding", "gzip"}, 0},
		"protobuf, partly": {protobufOf(partly), []string{"Content-Type", "application/x-protobuf"}, 2},
		"JSON":             {jsonOf(export), []string{"Content-Type", "application/json; charset=utf-8"}, 0},
		"JSON, partly":     {jsonOf(partly), []string{"Content-Type", "application/json"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			m.batches, m.refused = nil, nil
			res, body := post(t, url, tc.body, tc.headers...)
			partial := readExportAnswer(t, res, body).PartialSuccess()
			message := partial.ErrorMessage()
			if tc.refused > 0 && len(m.refused) > 0 && strings.Contains(message, "gen_ai.usage.input_tokens is -1") && m.refused[0].Reason == ingest.ReasonNegativeCount {
				message = ""
			}
			if res.code != http.StatusOK || partial.RejectedSpans() != tc.refused || message != "" || len(m.refused) != int(tc.refused) {
				t.Errorf("answer %d, %d rejected, %q, refused %+v", res.code, partial.RejectedSpans(), partial.ErrorMessage(), m.refused)
			}
			got := m.requests()
			if len(got) != 2 || got[0].PromptTokens != 100 || got[1].PromptTokens != 200 || got[0].Pool != "m" || m.batches[0].Source != "gateway-0" {
				t.Errorf("stored %+v of %q", got, m.batches[0].Source)
			}
		})
	}
}

// readExportAnswer decodes the response to an export.
func readExportAnswer(t *testing.T, res answered, body []byte) ptraceotlp.ExportResponse {
	t.Helper()
	answer := ptraceotlp.NewExportResponse()
	var err error
	switch res.header.Get("Content-Type") {
	case "application/json":
		err = answer.UnmarshalJSON(body)
	case "application/x-protobuf":
		err = answer.UnmarshalProto(body)
	default:
		t.Fatalf("content type %q", res.header.Get("Content-Type"))
	}
	if err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return answer
}

func TestHTTPFormats(t *testing.T) {
	lite := func(id string) string {
		return `{"id":"` + id + `","model":"m","status":"success","startTime":1795240800.5,"endTime":1795240801.5,"prompt_tokens":100,"completion_tokens":9,` +
			`"messages":[{"role":"user","content":"a prompt"}]}`
	}
	native := `{"id":"a","prompt_tokens":7,"arrived_at":1795240800000}`
	protobuf := codec.AppendProtobuf(nil, &ingest.Batch{Requests: []ingest.Request{{
		ID: "a", Pool: "p", Attempt: 1, ArrivedAt: time.UnixMilli(1795240800000), PromptTokens: 7,
		CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
	}}})
	for name, tc := range map[string]struct {
		path, body string
		code       int
		ids        string // of the stored requests
		answer     string
	}{
		"LiteLLM, array":   {"litellm", "[" + lite("a") + "," + lite("b") + "]", 200, "a m,b m", `{"accepted":2,"ignored":0,"refused":0}`},
		"LiteLLM, lines":   {"litellm?class=chat", lite("a") + "\n" + lite("b"), 200, "a m chat,b m chat", `{"accepted":2,"ignored":0,"refused":0}`},
		"LiteLLM, single":  {"litellm?pool=p", lite("a"), 200, "a p", `{"accepted":1,"ignored":0,"refused":0}`},
		"usage, no time":   {"openai?pool=p", `{"id":"a","prompt_tokens":7}`, 200, "a p", `{"accepted":1,"ignored":0,"refused":0}`},
		"native":           {"json?pool=p&class=c", native, 200, "a p c", `{"accepted":1,"ignored":0,"refused":0}`},
		"native, lines":    {"ndjson?pool=p", native + "\nbroken\n", 200, "a p", `"reason":"not_json"`},
		"native, protobuf": {"protobuf", string(protobuf), 200, "a p", `{"accepted":1,"ignored":0,"refused":0}`},
		"OTLP":             {"otlp?pool=p", string(protobufOf(traces(5))), 200, "01000000000000000000000000000000-0100000000000000 p", `"accepted":1`},
		"nothing usable":   {"json", native, 400, "", `"reason":"missing_field"`},
		"not JSON":         {"litellm", "hello", 400, "", `"refused":1`},
		"empty":            {"json", "", 400, "", `"reason":"empty"`},
		"long pool":        {"json?pool=" + strings.Repeat("x", 300), native, 400, "", `"reason":"label_too_long"`},
		"unknown format":   {"xml", native, 404, "", "want one of json, ndjson"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			l := serve(t, onLoopback(), m.Store, m.refuse)
			res, answer := post(t, "http://"+l.Addr()+"/v1/telemetry/"+tc.path, []byte(tc.body))
			var ids []string
			for _, r := range m.requests() {
				ids = append(ids, strings.TrimSpace(r.ID+" "+r.Pool+" "+r.Class))
			}
			if res.code != tc.code || !strings.Contains(string(answer), tc.answer) || strings.Join(ids, ",") != tc.ids {
				t.Errorf("%d %s, stored %q; want %d …%s, %q", res.code, answer, ids, tc.code, tc.answer, tc.ids)
			}
			if strings.Contains(string(answer), "a prompt") {
				t.Errorf("the answer contains a prompt: %s", answer)
			}
			if n := requestsBy(l, fmt.Sprint(tc.code)); n != 1 {
				t.Errorf("%d requests counted as %d", n, tc.code)
			}
		})
	}
}

// TestAnswerNamesUnknownPools: the answer names unknown pools, whose records are stored all the same. The listener does
// not report them as refused, because the pipeline does.
func TestAnswerNamesUnknownPools(t *testing.T) {
	m := &memory{}
	l := run(t, onLoopback(), Deps{
		Store: m.Store, Refused: m.refuse, Serves: func(pool string) bool { return pool == "p" || pool == "m" }, Ignored: func(int) {}, Log: zap.NewNop(),
	}, usualTimeouts)
	line := func(pool string) string {
		return `{"pool":"` + pool + `","prompt_tokens":7,"arrived_at":1795240800000}` + "\n"
	}
	at := time.UnixMilli(1795240800000)
	batch := func(b ingest.Batch) string { return string(codec.AppendProtobuf(nil, &b)) }
	base := "http://" + l.Addr()
	stored := 0
	for name, tc := range map[string]struct {
		path, body string
		code       int
		stored     int
		answer     string
	}{
		"by the path":  {"ndjson?pool=ghost", `{"prompt_tokens":7,"arrived_at":1795240800000}`, 400, 1, `pool \"ghost\" is not in the configuration`},
		"by the field": {"ndjson?pool=p", line("ghost"), 400, 1, `"reason":"unknown_pool"`},
		"field served": {"ndjson?pool=ghost", line("p"), 200, 1, `{"accepted":1,"ignored":0,"refused":0}`},
		"some":         {"ndjson", line("p") + line("ghost") + line("wraith") + line("ghost") + "broken\n", 200, 4, `"refused":4}`},
		"by the model": {"litellm", `{"id":"a","model":"big","startTime":1795240800.5,"endTime":1795240801.5,"prompt_tokens":100}`, 400, 1, `pool \"big\" is`},
		"a replica":    {"protobuf", batch(ingest.Batch{Replicas: []ingest.Replica{{Pool: "ghost", Name: "r", At: at}}}), 400, 0, `pool \"ghost\" is`},
		"an answer":    {"protobuf", batch(ingest.Batch{Acks: []ingest.Ack{{Pool: "ghost", EventID: "ghost-1", At: at}}}), 400, 0, `pool \"ghost\" is`},
		"a watermark":  {"protobuf", batch(ingest.Batch{Watermark: &ingest.Watermark{Pool: "ghost", At: at}}), 400, 0, `pool \"ghost\" is`},
		"a history": {"protobuf", batch(ingest.Batch{Histories: []ingest.History{{Pool: "p", Class: "*", Dimension: "kv", Start: at, Values: []float64{1}}}}),
			400, 0, `"reason":"no_history"`},
	} {
		m.batches, m.refused = nil, nil
		res, answer := post(t, base+"/v1/telemetry/"+tc.path, []byte(tc.body))
		if res.code != tc.code || !strings.Contains(string(answer), tc.answer) || len(m.requests()) != tc.stored {
			t.Errorf("%s: %d %s, %d stored; want %d …%s, %d", name, res.code, answer, len(m.requests()), tc.code, tc.answer, tc.stored)
		}
		for _, r := range m.refused {
			if r.Reason == ingest.ReasonUnknownPool {
				t.Errorf("%s: reported %v", name, r)
			}
		}
		stored += tc.stored
	}
	ghosts := traces(100, 200, -1)
	ghosts.ResourceSpans().At(0).Resource().Attributes().PutStr("forewarm.pool", "ghost")
	traces(300).ResourceSpans().At(0).CopyTo(ghosts.ResourceSpans().AppendEmpty())
	for name, export := range map[string]func() ptraceotlp.ExportPartialSuccess{
		"protobuf": func() ptraceotlp.ExportPartialSuccess {
			res, answer := post(t, base+"/v1/traces", protobufOf(ghosts), "Content-Type", "application/x-protobuf")
			return readExportAnswer(t, res, answer).PartialSuccess()
		},
		"JSON": func() ptraceotlp.ExportPartialSuccess {
			res, answer := post(t, base+"/v1/traces", jsonOf(ghosts), "Content-Type", "application/json")
			return readExportAnswer(t, res, answer).PartialSuccess()
		},
		"gRPC": func() ptraceotlp.ExportPartialSuccess {
			answer := must(dial(t, l).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(ghosts)))
			return answer.PartialSuccess()
		},
	} {
		partial := export()
		if message := partial.ErrorMessage(); partial.RejectedSpans() != 3 || !strings.Contains(message, `pool "ghost" is not in the configuration`) {
			t.Errorf("%s: %d rejected, %q", name, partial.RejectedSpans(), partial.ErrorMessage())
		}
	}
}

func TestHTTPRefuses(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	proto := []string{"Content-Type", "application/x-protobuf", "Authorization", "Bearer s3cret"}
	with := func(headers ...string) []string { return append(append([]string{}, proto...), headers...) }
	small := protobufOf(traces(1))
	for name, tc := range map[string]struct {
		body    []byte
		headers []string
		store   *memory
		code    int
		retry   bool
	}{
		"token":            {small, proto, &memory{}, 200, false},
		"no token":         {small, proto[:2], &memory{}, 401, false},
		"wrong token":      {small, with("Authorization", "Bearer guess"), &memory{}, 401, false},
		"no scheme":        {small, with("Authorization", "s3cret"), &memory{}, 401, false},
		"content type":     {small, with("Content-Type", "text/plain"), &memory{}, 415, false},
		"no content type":  {small, with("Content-Type", ""), &memory{}, 415, false},
		"encoding":         {small, with("Content-Encoding", "br"), &memory{}, 415, false},
		"malformed":        {[]byte("\x0f\xff"), proto, &memory{}, 400, false},
		"too large":        {make([]byte, 5000), proto, &memory{}, 413, false},
		"too large inside": {gzipped(t, make([]byte, 1<<20)), with("Content-Encoding", "gzip"), &memory{}, 413, false},
		"not gzip":         {small, with("Content-Encoding", "gzip"), &memory{}, 400, false},
		"store fails":      {small, proto, &memory{fail: errors.New("no stream")}, 503, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := onLoopback()
			c.HTTP.TokenFile, c.HTTP.MaxBytes = secret, 4096
			l := serve(t, c, tc.store.Store, tc.store.refuse)
			res, body := post(t, "http://"+l.Addr()+"/v1/traces", tc.body, tc.headers...)
			if res.code != tc.code || (res.header.Get("Retry-After") != "") != tc.retry {
				t.Errorf("%d %q, headers %v; want %d", res.code, body, res.header, tc.code)
			}
			if tc.code != 200 && (len(body) == 0 || len(tc.store.requests()) > 0) {
				t.Errorf("answer %q, stored %+v", body, tc.store.requests())
			}
			if n := requestsBy(l, fmt.Sprint(tc.code)); n != 1 {
				t.Errorf("%d requests counted as %d", n, tc.code)
			}
		})
	}
	t.Run("in kind", func(t *testing.T) {
		l := serve(t, onLoopback(), new(memory).Store, new(memory).refuse)
		for kind, message := range map[string]string{"application/x-protobuf": "\x0f\xff", "application/protobuf": "\x0f\xff", "application/json": "x"} {
			res, body := post(t, "http://"+l.Addr()+"/v1/traces", []byte(message), "Content-Type", kind)
			if got := res.header.Get("Content-Type"); res.code != 400 || got != kind || kind != "application/json" && body[0] != 8 {
				t.Errorf("%s is answered %d with %s: %q", kind, res.code, got, body)
			}
		}
	})
	t.Run("method", func(t *testing.T) {
		l := serve(t, onLoopback(), new(memory).Store, new(memory).refuse)
		res := must(http.Get("http://" + l.Addr() + "/v1/traces"))
		defer res.Body.Close()
		if res.StatusCode != http.StatusMethodNotAllowed || requestsBy(l, "405") != 1 {
			t.Errorf("GET is answered %d", res.StatusCode)
		}
	})
}

func TestHTTPSlowStore(t *testing.T) {
	m := &memory{hold: make(chan struct{})}
	l := serve(t, onLoopback(), m.Store, m.refuse)
	res, _ := post(t, "http://"+l.Addr()+"/v1/traces", protobufOf(traces(1, -1)), "Content-Type", "application/x-protobuf")
	if res.code != http.StatusServiceUnavailable || len(m.refused) > 0 {
		t.Errorf("answered %d, refused %+v; want 503 and no refusal, because the client sends all again", res.code, m.refused)
	}
}

func TestHTTPRate(t *testing.T) {
	c := onLoopback()
	c.HTTP.RequestsPerS = 0.001
	l := serve(t, c, new(memory).Store, new(memory).refuse)
	url := "http://" + l.Addr() + "/v1/traces"
	for i, want := range []int{200, 429, 429} {
		res, _ := post(t, url, protobufOf(traces(1)), "Content-Type", "application/x-protobuf")
		if res.code != want || (want == 429) != (res.header.Get("Retry-After") != "") {
			t.Errorf("request %d is answered %d with %v, want %d", i, res.code, res.header, want)
		}
	}
}

func TestHTTPConcurrency(t *testing.T) {
	c := onLoopback()
	c.HTTP.Concurrent = 1
	m := &memory{hold: make(chan struct{})}
	l := run(t, c, Deps{Store: m.Store, Ignored: func(int) {}, Log: zap.NewNop()}, usualTimeouts)
	url := "http://" + l.Addr() + "/v1/traces"
	body := protobufOf(traces(1))
	codes := make(chan int)
	for range 2 {
		go func() {
			res, err := http.Post(url, "application/x-protobuf", strings.NewReader(string(body)))
			if err != nil {
				codes <- 0
				return
			}
			res.Body.Close()
			codes <- res.StatusCode
		}()
	}
	if code := <-codes; code != http.StatusServiceUnavailable {
		t.Errorf("the request above the bound is answered %d", code)
	}
	close(m.hold)
	if code := <-codes; code != http.StatusOK {
		t.Errorf("the other one is answered %d", code)
	}
}

// TestHTTPSlowBody: a request with half a body is answered after a timeout.
func TestHTTPSlowBody(t *testing.T) {
	l := serve(t, onLoopback(), new(memory).Store, new(memory).refuse)
	conn := must(net.Dial("tcp", l.Addr()))
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nhalf")
	if err := conn.SetReadDeadline(time.Now().Add(20 * patience)); err != nil {
		t.Fatal(err)
	}
	res := must(http.ReadResponse(bufio.NewReader(conn), nil))
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("answered %d %q", res.StatusCode, body)
	}
}

// TestHTTPUnfinishedBodies: many requests with unfinished bodies do not block a complete one.
func TestHTTPUnfinishedBodies(t *testing.T) {
	l := run(t, onLoopback(), Deps{Store: new(memory).Store, Ignored: func(int) {}, Log: zap.NewNop()}, usualTimeouts)
	address := l.Addr()
	for range 200 {
		conn := must(net.Dial("tcp", address))
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1000000\r\n\r\nhalf")
	}
	for range 10 {
		if res, _ := post(t, "http://"+address+"/v1/traces", protobufOf(traces(1)), "Content-Type", "application/x-protobuf"); res.code != http.StatusOK {
			t.Fatalf("answered %d", res.code)
		}
	}
}

// TestHTTPCrossSite: requests that a page of another site makes in a browser are refused and counted. That includes a
// host name of that site that resolves to this machine (DNS rebinding).
func TestHTTPCrossSite(t *testing.T) {
	l := run(t, onLoopback(), Deps{Store: new(memory).Store, Ignored: func(int) {}, Log: zap.NewNop()}, usualTimeouts)
	url := "http://" + l.Addr() + "/v1/telemetry/native"
	for i, header := range [][]string{
		{"Origin", "https://evil.example", "Content-Type", "text/plain"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "null"},
		{"Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"},
	} {
		if res, _ := post(t, url, []byte("{}"), header...); res.code != http.StatusForbidden {
			t.Errorf("%v: answered %d", header, res.code)
		}
		if n := requestsBy(l, "403"); n != uint64(i+1) {
			t.Errorf("%d requests are counted as 403, want %d", n, i+1)
		}
	}
	if res, _ := post(t, url, []byte("{}"), "Origin", "http://"+l.Addr()); res.code == http.StatusForbidden {
		t.Error("a request of the same origin is refused")
	}
}
