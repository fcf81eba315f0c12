package scrape

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/tlsconfig"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newTarget(t *testing.T, j Job, address string) *target {
	t.Helper()
	c := must(newClient(j))
	t.Cleanup(c.http.CloseIdleConnections)
	return c.target(address, noon.Add(-time.Hour))
}

// summary has a line for each replica: pool, name, state, running requests, and when and in how long it started.
func summary(replicas []ingest.Replica) (lines []string) {
	for _, r := range replicas {
		line := fmt.Sprint(r.Pool, " ", r.Name, " ", r.State, " ", r.Running)
		if r.StartupSeconds > 0 {
			line += fmt.Sprint(" started ", r.StartedAt.Format(time.TimeOnly), " in ", r.StartupSeconds)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestTargetLife scrapes one target from before its start to after its end.
func TestTargetLife(t *testing.T) {
	var answer http.HandlerFunc
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	server.Config.SetKeepAlivesEnabled(false)
	address := server.Listener.Addr().String()
	server.Listener.Close()
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	const one, two = "vllm:num_requests_running 5\n", "vllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"1\"} 2\n"
	began := func(at time.Time) string { return fmt.Sprintf("process_start_time_seconds %d\n", at.Unix()) }
	target := newTarget(t, Job{Pool: "p"}, address)
	for i, step := range []struct {
		at     time.Duration
		answer http.HandlerFunc // nil: the port is closed
		fault  string           // "" for none
		want   []string
	}{
		{0, nil, "connection refused", nil},
		{15 * time.Second, status(503), "it answers 503", []string{"p ADDRESS loading -1"}},
		{30 * time.Second, text(one + began(noon.Add(-80*time.Second))), "", []string{"p ADDRESS ready 5 started 11:58:40 in 110"}},
		{45 * time.Second, text(one + began(noon.Add(-80*time.Second))), "", []string{"p ADDRESS ready 5"}},
		{60 * time.Second, status(503), "it answers 503", []string{"p ADDRESS loading -1"}},                             // busy
		{75 * time.Second, text(one + began(noon.Add(-80*time.Second))), "", []string{"p ADDRESS ready 5"}},             // no new start: it was only busy
		{90 * time.Second, status(500), "it answers 500", nil},                                                          // state unknown
		{105 * time.Second, text("<html>"), "no exposition of metrics", nil},                                            // detected as text/html
		{120 * time.Second, text("go_goroutines 5\n"), "no metrics of", nil},                                            // state unknown
		{135 * time.Second, text(two), "", []string{"p ADDRESS/0 ready 1", "p ADDRESS/1 ready 2", "p ADDRESS gone -1"}}, // two ranks now
		{150 * time.Second, nil, "connection refused", []string{"p ADDRESS/0 gone -1", "p ADDRESS/1 gone -1"}},          // reported once
		{165 * time.Second, nil, "connection refused", nil},
		{180 * time.Second, text(one + began(noon.Add(-time.Hour*24))), "", []string{"p ADDRESS ready 5"}}, // started before the target was known
		{195 * time.Second, nil, "connection refused", []string{"p ADDRESS gone -1"}},
		{210 * time.Second, text("sglang:num_running_reqs 5\nsglang:engine_startup_time 60\n"), "", []string{"p ADDRESS ready 5 started 12:02:30 in 60"}},
		{225 * time.Second, text("sglang:num_running_reqs 5\nsglang:engine_startup_time 60\n"), "", []string{"p ADDRESS ready 5"}},
		{240 * time.Second, status(503), "it answers 503", []string{"p ADDRESS loading -1"}}, // busy again
		{255 * time.Second, text("sglang:num_running_reqs 5\nsglang:engine_startup_time 60\n"), "", []string{"p ADDRESS ready 5"}},
	} {
		var serving *http.Server
		if step.answer != nil {
			answer = step.answer
			listener := must(net.Listen("tcp", address))
			serving = &http.Server{Handler: server.Config.Handler}
			go serving.Serve(listener)
		}
		got, err := target.scrape(t.Context(), func() time.Time { return noon.Add(step.at) })
		if fault := fmt.Sprint(err); (err != nil) != (step.fault != "") || !strings.Contains(fault, step.fault) {
			t.Errorf("step %d: %v, want %q", i, err, step.fault)
		}
		want := strings.Split(strings.ReplaceAll(strings.Join(step.want, "\n"), "ADDRESS", address), "\n")
		if len(step.want) == 0 {
			want = nil
		}
		if d := cmp.Diff(want, summary(got)); d != "" {
			t.Errorf("step %d: %s", i, d)
		}
		for _, r := range got {
			if !r.At.Equal(noon.Add(step.at)) {
				t.Errorf("step %d: %s has the time %s", i, r.Name, r.At)
			}
		}
		if serving != nil {
			serving.Close()
			target.client.http.CloseIdleConnections()
		}
	}
}

// TestWorkersOfFrontend: while a frontend is unavailable, its workers keep their state. A worker that it does not list
// any more is gone.
func TestWorkersOfFrontend(t *testing.T) {
	const worker = "dynamo_frontend_worker_active_decode_blocks{worker_id=%q,dp_rank=\"0\",worker_type=\"decode\"} 1\nprocess_start_time_seconds 1795262390\n"
	target := newTarget(t, Job{Pool: "p"}, "frontend:1")
	for i, step := range []struct {
		status int // 0: the port is closed
		body   string
		want   []string
	}{
		{200, fmt.Sprintf(worker, "a"), []string{"p a-0 ready -1"}},
		{200, "go_goroutines 5\n", nil},
		{503, "", nil},
		{0, "", nil},
		{200, fmt.Sprintf(worker, "b"), []string{"p b-0 ready -1", "p a-0 gone -1"}},
	} {
		target.client.http.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			if step.status == 0 {
				return nil, syscall.ECONNREFUSED
			}
			return &http.Response{StatusCode: step.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(step.body))}, nil
		})
		got, _ := target.scrape(t.Context(), func() time.Time { return noon })
		if d := cmp.Diff(step.want, summary(got)); d != "" {
			t.Errorf("step %d: %s", i, d)
		}
	}
	if got := target.end(noon); len(got) > 0 {
		t.Errorf("at the end: %v, want nothing", summary(got))
	}
}

// TestFrontendIsNoReplica: a frontend that has always been unavailable is not a replica, but an engine is.
func TestFrontendIsNoReplica(t *testing.T) {
	for i := range engines {
		target := newTarget(t, Job{Pool: "p", Engine: engines[i].name}, "frontend:1")
		target.client.http.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody}, nil
		})
		got, err := target.scrape(t.Context(), func() time.Time { return noon })
		if !errors.Is(err, errUnavailable) || len(got) > 0 == engines[i].workers {
			t.Errorf("%s: %v, %v", engines[i].name, summary(got), err)
		}
	}
}

func TestUnusableAnswers(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			for range 20 {
				w.Write([]byte(strings.Repeat("# a comment of sixteen bytes....\n", 1<<20/32)))
			}
		case "/ok":
			io.WriteString(w, "vllm:num_requests_running 5\n")
		case "/redirect":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "vllm:num_requests_running 5\n")
		case "/token":
			if r.Header.Get("Authorization") != "Bearer secret" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			io.WriteString(w, "vllm:num_requests_running 5\n")
		case "/slow":
			<-release
		}
	}))
	defer server.Close()
	defer close(release)
	address := server.Listener.Addr().String()
	ask := func(j Job, address string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if j.Path == "/slow" {
			ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
		}
		_, err := newTarget(t, j, address).client.ask(ctx, address)
		return err
	}
	for name, tc := range map[string]struct {
		job     Job
		address string
		want    string
	}{
		"20 MB":              {Job{Path: "/large"}, address, "more than 16777216 bytes"},
		"redirect":           {Job{Path: "/redirect"}, address, "it answers 302"},
		"connection cut":     {Job{Path: "/cut"}, address, "unexpected EOF"},
		"too slow":           {Job{Path: "/slow"}, address, "deadline exceeded"},
		"token unreadable":   {Job{Path: "/token", Config: httpclient.Config{BearerTokenFile: token}}, address, "token: no such file"},
		"plain text for TLS": {Job{Scheme: "https"}, address, "HTTP response to HTTPS client"},
		"no such name":       {Job{}, "forewarm.invalid:80", "lookup forewarm.invalid"},
	} {
		if err := ask(tc.job, tc.address); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	for content, want := range map[string]bool{"secret\n": true, "stale": false} {
		if err := os.WriteFile(token, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ask(Job{Path: "/token", Config: httpclient.Config{BearerTokenFile: token}}, address); (err == nil) != want {
			t.Errorf("token %q: %v", content, err)
		}
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "vllm:num_requests_running 5\n") }))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	address := server.Listener.Addr().String()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newTarget(t, Job{Scheme: "https", Config: httpclient.Config{TLS: tlsconfig.Client{CAFile: ca}}}, address).client.ask(t.Context(), address); err != nil {
		t.Errorf("with the CA: %v", err)
	}
	if _, err := newTarget(t, Job{Scheme: "https"}, address).client.ask(t.Context(), address); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the CA: %v", err)
	}
	if _, err := newTarget(t, Job{Scheme: "https", Config: httpclient.Config{TLS: tlsconfig.Client{CAFile: ca, ServerName: "other"}}}, address).client.ask(t.Context(), address); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with another server name: %v", err)
	}
}

// TestProbePath: without a path, or with the path that browsers add, the metrics are at /metrics.
func TestProbePath(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "vllm:num_requests_running{model_name=\"m\"} 1\n")
	}))
	defer server.Close()
	for _, path := range []string{"", "/", "/metrics"} {
		if seen, err := Probe(t.Context(), server.URL+path); err != nil || seen.Engine != "vllm" {
			t.Errorf("path %q: %q, %v", path, seen.Engine, err)
		}
	}
}
