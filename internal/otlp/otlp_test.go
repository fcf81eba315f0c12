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

	"github.com/forewarm/forewarm/internal/testenv"
)

// own writes metrics of a daemon.
func own(w io.Writer) {
	_, _ = io.WriteString(w, "# HELP a_total As.\n# TYPE a_total counter\na_total{x=\"1\"} 2\nb{y=\"z\"} 3\n")
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
	t.Setenv(endpoint, collector.URL+"/otlp/")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Scope-OrgID=llm")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	o, err := New(t.Context(), "v1", "i", own, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, failing := range []bool{true, false} {
		fails.Store(failing)
		for range 2048 { // some batches
			_, span := o.Traces.Tracer("t").Start(t.Context(), "s")
			span.End()
		}
		testenv.Await(t, "exports", func() bool { return failing && o.Failures.Load() > 1 || taken.Load() > 1 })
	}
	o.Close()
	if got := logged.String(); strings.Count(got, "do not reach") != 1 || !strings.Contains(got, "400") {
		t.Errorf("logged:\n%s", got)
	}
}

// TestCollectorHangs: a collector that never answers does not delay the daemon. Spans above the bound of the SDK are
// dropped, and Close returns soon.
func TestCollectorHangs(t *testing.T) {
	hang := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer collector.Close()
	defer close(hang)
	t.Setenv(endpoint, collector.URL)
	o, err := New(t.Context(), "v1", "i", own, slog.New(slog.DiscardHandler))
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
	began = time.Now()
	o.Close()
	if took := time.Since(began); took > lastExport+time.Second {
		t.Errorf("Close took %s", took)
	}
}
