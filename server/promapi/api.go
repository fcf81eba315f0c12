// Package promapi answers Prometheus' HTTP API (query, query_range, series, labels, label values, metadata, buildinfo,
// rules) over stored series, so that Grafana and other programs read Forewarm as a Prometheus data source.
//
// The handlers are Prometheus' own (web/api/v1). This package chooses the routes and bounds them. A test compares the
// answers with those of a real Prometheus (compare_test.go).
//
// It is read-only. Bounds: time and samples of queries, concurrency of requests; 11,000 points a series, as in
// Prometheus; 1 MiB of form. It reads the series through an interface, and imports no other package of this module.
package promapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/route"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/gate"
	v1 "github.com/prometheus/prometheus/web/api/v1"
)

const (
	maxFormBytes = 1 << 20
	maxRequests  = 4                // concurrent; others wait
	maxSamples   = 2_000_000        // that one query may hold in memory, 16 bytes each; as JSON a sample takes some 30
	queryTimeout = 20 * time.Second // of a request, including the wait; the listener gives an answer 30 s
	lookback     = 5 * time.Minute  // how long a sample is valid
)

// prometheusVersion is the release of the module v0.315.0. Clients derive the supported API from it.
const prometheusVersion = "3.15.0"

// patterns are the routes of Prometheus' API that exist here. Prometheus' router has more, such as those that write.
var patterns = []string{
	"GET /api/v1/query", "POST /api/v1/query",
	"GET /api/v1/query_range", "POST /api/v1/query_range",
	"GET /api/v1/series", "POST /api/v1/series",
	"GET /api/v1/labels", "POST /api/v1/labels",
	"GET /api/v1/label/{name}/values",
	"GET /api/v1/status/buildinfo",
	"GET /api/v1/rules",
}

// Register adds the API's routes over data, given as patterns of [http.ServeMux]. data must be safe for concurrent use.
// All series are gauges; help describes them by name. version is the program's.
func Register(
	handle func(pattern string, h http.Handler), data storage.Queryable, help map[string]string, version string, log *slog.Logger,
) {
	register(handle, data, help, version, log, maxSamples, queryTimeout)
}

func register(
	handle func(pattern string, h http.Handler), data storage.Queryable, help map[string]string, version string, log *slog.Logger,
	samples int, timeout time.Duration,
) {
	p := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: log, MaxSamples: samples, Timeout: timeout,
		LookbackDelta: lookback, NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: p,
	})
	router := sync.OnceValue(func() *route.Router { // Prometheus takes half a second to make its API
		noRules := func(context.Context) v1.RulesRetriever { return &rules.Manager{} }
		noOrigin := regexp.MustCompile("^$") // no page of another web site reads answers
		build := &v1.PrometheusVersion{Version: prometheusVersion, Revision: version, GoVersion: runtime.Version()}
		api := v1.NewAPI( // without what only routes outside of patterns use
			engine,
			struct {
				storage.Queryable
				storage.ChunkQueryable
			}{Queryable: data}, // only remote read uses chunks
			nil, nil, nil, // appenders, exemplars
			nil, nil, nil, // scrape pools, targets, Alertmanagers
			nil, nil, v1.GlobalURLOptions{}, // configuration, flags
			bounds(timeout),
			nil, "", false, // administration of a TSDB
			false, 0, // search
			log,
			noRules,
			0, 0, 0, // bounds of remote read
			false, // agent
			noOrigin,
			nil, build,
			nil, nil, // notifications
			nil, nil, nil, // own metrics, statistics of queries
			false, nil, // remote write
			false, false, false, false, // OTLP
			lookback,
			false, false, // metadata of written samples
			nil, nil, v1.OpenAPIOptions{IncludePaths: []string{"/openapi.yaml"}}, // its document is not served, and takes long to make
			p,
		)
		r := route.New()
		api.Register(r.WithPrefix("/api/v1"))
		return r
	})
	for _, pattern := range patterns {
		handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { router().ServeHTTP(w, r) }))
	}
	handle("GET /api/v1/metadata", metricMetadata(help))
}

// bounds returns a wrapper that bounds the form, the time and the concurrency of requests.
func bounds(timeout time.Duration) func(http.HandlerFunc) http.HandlerFunc {
	turns := gate.New(maxRequests)
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
			if err := r.ParseForm(); err != nil {
				refuse(w, http.StatusBadRequest, "bad_data", fmt.Errorf("error parsing form values: %w", err))
				return
			}
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			defer cancel()
			if err := turns.Start(ctx); err != nil {
				refuse(w, http.StatusServiceUnavailable, "timeout", fmt.Errorf("no turn for the request came in time: %w", err))
				return
			}
			defer turns.Done()
			next(w, r.WithContext(ctx))
		}
	}
}

// metricMetadata answers with type, help and unit of series by name. Prometheus' own handler reads them from targets.
func metricMetadata(help map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		found, metric := map[string][]metadata.Metadata{}, r.URL.Query().Get("metric")
		for name, text := range help {
			if metric == "" || metric == name {
				found[name] = []metadata.Metadata{{Type: model.MetricTypeGauge, Help: text}}
			}
		}
		write(w, http.StatusOK, v1.Response{Status: "success", Data: found})
	}
}

func refuse(w http.ResponseWriter, status int, kind string, cause error) {
	write(w, status, v1.Response{Status: "error", ErrorType: kind, Error: cause.Error()})
}

func write(w http.ResponseWriter, status int, x v1.Response) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(x) // the client may have disconnected
}
