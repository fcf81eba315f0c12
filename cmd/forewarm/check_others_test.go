package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestCheckOthers checks configurations that name a real Prometheus, and servers that refuse.
func TestCheckOthers(t *testing.T) {
	dir := t.TempDir()
	prometheus := testenv.StartPrometheus(t, nil, filepath.Join(dir, "prometheus"), "", "--web.enable-remote-write-receiver")
	readOnly := testenv.StartPrometheus(t, nil, filepath.Join(dir, "other"), "")
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/api/v2/alerts" && string(body) != "[]" {
			t.Errorf("alerts were posted: %s", body)
		}
		if raw, err := snappy.Decode(nil, body); r.URL.Path == "/write" && (err != nil || len(raw) > 0) {
			t.Errorf("samples were sent: %x (%v)", raw, err)
		}
		http.Error(w, "who are you", http.StatusUnauthorized)
	}))
	defer refusing.Close()
	taking := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer taking.Close()
	mail, err := net.Listen("tcp", "127.0.0.1:0") // it refuses each client
	if err != nil {
		t.Fatal(err)
	}
	defer mail.Close()
	go func() {
		for {
			conn, err := mail.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "554 no service here\r\n")
			_ = conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(mail.Addr().String())
	testChecks(t, map[string]checked{
		"all is well": {"remote_write: {url: '" + prometheus.URL + "/api/v1/write'}\nbackfill: {url: '" + prometheus.URL + "'}\nsinks: {alertmanager: {urls: ['" + taking.URL + "']}}", 0,
			[]string{"ok  remote_write: ", "warning: backfill: requests of chat has no value in the last hour", "ok  alertmanager/127.0.0.1"}},
		"a query with a value":  {"backfill: {url: '" + prometheus.URL + "', sources: [{pool: chat, queries: {requests: 'vector(1)', prefill: none, decode: none, kv: none}}]}", 0, []string{"ok  backfill: requests of chat: values for 60 of the last 60 minutes"}},
		"a query that is none":  {"backfill: {url: '" + prometheus.URL + "', sources: [{pool: chat, queries: {requests: 'sum('}}]}", 2, []string{"backfill: requests of chat: ", ", backfill.sources[].queries or match, and "}},
		"not a Prometheus":      {"backfill: {url: '" + taking.URL + "'}", 2, []string{"check backfill.url"}},
		"nobody there":          {"backfill: {url: 'http://127.0.0.1:1'}\nremote_write: {url: 'http://127.0.0.1:1/w'}\nsinks: {alertmanager: {urls: ['http://127.0.0.1:1']}}", 2, []string{"check backfill.url", "check remote_write.url", "check sinks.alertmanager.urls"}},
		"no receiver":           {"remote_write: {url: '" + readOnly.URL + "/api/v1/write'}", 2, []string{"--web.enable-remote-write-receiver"}},
		"unknown to a receiver": {"remote_write: {url: '" + refusing.URL + "/write'}\nsinks: {alertmanager: {urls: ['" + refusing.URL + "']}}", 2, []string{"401 Unauthorized: \"who are you\"; check remote_write.url", "alertmanager/"}},
		"no mail":               {"report: {mail: {host: 127.0.0.1, port: " + port + ", tls: none, from: a@example.org, to: [b@example.org]}}", 2, []string{"report/mail: ", "554", "check report.mail.host"}},
	})
}

// checked is a configuration, with the exit code and the texts that check must print.
type checked struct {
	lines string
	code  int
	want  []string
}

func testChecks(t *testing.T, table map[string]checked) {
	t.Helper()
	for name, c := range table {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			path := testenv.WriteFile(t, filepath.Join(t.TempDir(), "forewarm.yaml"), validPool, "storage: {dir: "+data+"}", c.lines)
			code, out, errs := runHere(t.Context(), "check", "-config", path)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out+errs, want) {
					t.Errorf("does not say %q:\n%s%s", want, out, errs)
				}
			}
			if _, err := os.Stat(data); err == nil {
				t.Error("check created the data directory")
			}
		})
	}
}

// TestCheckNames checks files.
func TestCheckNames(t *testing.T) {
	words := testenv.WriteFile(t, filepath.Join(t.TempDir(), "words"), "words")
	file := testenv.WriteFile(t, filepath.Join(t.TempDir(), "file"), "")
	testChecks(t, map[string]checked{
		"a missing secret": {"sinks: {webhooks: [{name: a, url: 'http://127.0.0.1:1', secret_file: /nope}]}\nreport: {mail: {host: h, from: a@b.de, to: [a@b.de], username: u, password_file: " + file + "}}", 2,
			[]string{"forewarm.yaml:3: sinks.webhooks[0].secret_file = \"/nope\": cannot be read", "forewarm.yaml:4: report.mail.password_file = ", "must not be empty"}},
		"no web configuration": {"server: {web_config: " + words + "}", 2, []string{"server.web_config is "}},
		"no certificate":       {"keda: {listen: '127.0.0.1:0', tls: {cert_file: " + words + ", key_file: " + words + "}}", 2, []string{"keda.tls.cert_file is ", "PEM"}},
	})
}
