package otlp

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/testenv"
)

// own writes metrics of a daemon.
func own(w io.Writer) {
	_, _ = io.WriteString(w, "# HELP a_total As.\n# TYPE a_total counter\na_total{x=\"1\"} 2\nb{y=\"z\"} 3\n")
}

// TestCollectorHangs: a collector that never answers does not delay the daemon. Spans above the bound are dropped and
// counted, and Close returns soon.
func TestCollectorHangs(t *testing.T) {
	hang := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer collector.Close()
	defer close(hang)
	o, err := New(t.Context(), Config{httpclient.Endpoint{URL: collector.URL}}, "v1", "i", own, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	tracer, began := o.Traces.Tracer("t"), time.Now()
	const spans = 20_000
	for range spans {
		_, span := tracer.Start(t.Context(), "s")
		span.End()
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("%d spans took %s", spans, took)
	}
	if dropped, least := o.Dropped.Load(), uint64(spans-spansWaiting-1024); dropped < least { // the exporter may have taken two batches
		t.Errorf("%d spans are dropped, want at least %d", dropped, least)
	}
	began = time.Now()
	o.Close()
	if took := time.Since(began); took > lastExport+time.Second {
		t.Errorf("Close took %s", took)
	}
}

// TestCollectorFails: failed exports are counted, and the first is logged. Later exports are still tried.
func TestCollectorFails(t *testing.T) {
	var fails atomic.Bool
	var taken atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("X-Scope-Orgid") != "llm" {
			t.Errorf("headers: %v", r.Header)
		}
		if fails.Load() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		taken.Add(1)
	}))
	defer collector.Close()
	var logged strings.Builder
	cfg := Config{httpclient.Endpoint{URL: collector.URL + "/otlp/"}}
	cfg.Headers = map[string]string{"X-Scope-OrgID": "llm"}
	o, err := New(t.Context(), cfg, "v1", "i", own, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for want, failing := range []bool{true, true, true, false} {
		fails.Store(failing)
		before := taken.Load()
		for range 512 { // a batch
			_, span := o.Traces.Tracer("t").Start(t.Context(), "s")
			span.End()
		}
		testenv.Await(t, "an answer", func() bool {
			return o.waiting.Load() == 0 && (o.Failures.Load() == uint64(want+1) || taken.Load() > before)
		})
	}
	o.Close() // sends the metrics
	if got := logged.String(); strings.Count(got, "do not reach") != 1 || !strings.Contains(got, "400") {
		t.Errorf("logged:\n%s", got)
	}
	if failed, got := o.Failures.Load(), taken.Load(); failed != 3 || got != 2 || o.Dropped.Load() != 0 {
		t.Errorf("%d exports failed and %d were accepted, want 3 and 2", failed, got)
	}
}

func TestConfig(t *testing.T) {
	for url, want := range map[string]string{
		"":                                 "",
		"https://collector:4318/base":      "",
		"collector:4318":                   `url is "collector:4`,
		"http://collector:4318/v1/traces":  "without /v1/traces",
		"http://collector:4318/v1/metrics": "without /v1/traces",
	} {
		c := Config{httpclient.Endpoint{URL: url}}
		if err := c.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
