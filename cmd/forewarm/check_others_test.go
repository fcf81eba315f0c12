package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestCheckOthers checks configurations that name servers that take alerts, refuse them, or are absent.
func TestCheckOthers(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/api/v2/alerts" && string(body) != "[]" {
			t.Errorf("alerts were posted: %s", body)
		}
		http.Error(w, "who are you", http.StatusUnauthorized)
	}))
	defer refusing.Close()
	taking := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer taking.Close()
	testChecks(t, map[string]checked{
		"all is well":             {"sinks: {alertmanager: {urls: ['" + taking.URL + "']}}", 0, []string{"ok  alertmanager/127.0.0.1"}},
		"nobody there":            {"sinks: {alertmanager: {urls: ['http://127.0.0.1:1']}}", 2, []string{"check sinks.alertmanager.urls"}},
		"unknown to Alertmanager": {"sinks: {alertmanager: {urls: ['" + refusing.URL + "']}}", 2, []string{"401 Unauthorized: \"who are you\"; check sinks.alertmanager.urls", "alertmanager/"}},
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
		"a missing secret": {"sinks: {webhooks: [{name: a, url: 'http://127.0.0.1:1', secret_file: /nope}, {name: b, url: 'http://127.0.0.1:1', secret_file: " + file + "}]}", 2,
			[]string{"forewarm.yaml:3: sinks.webhooks[0].secret_file = \"/nope\": cannot be read", "forewarm.yaml:3: sinks.webhooks[1].secret_file = ", "must not be empty"}},
		"no web configuration": {"server: {web_config: " + words + "}", 2, []string{"server.web_config is "}},
		"no certificate":       {"keda: {listen: '127.0.0.1:0', tls: {cert_file: " + words + ", key_file: " + words + "}}", 2, []string{"keda.tls.cert_file is ", "PEM"}},
	})
}
