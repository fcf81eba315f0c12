// Package promapi answers Prometheus' HTTP API (query, query_range, series, labels, label values, metadata, buildinfo,
// rules) over stored series, so that Grafana and other programs read Forewarm as a Prometheus data source.
//
// Prometheus' own engine parses and evaluates; this package does parameters, limits, errors and JSON. A test compares
// the answers with those of a real Prometheus (compare_test.go). Prometheus' own web/api/v1 would add service
// discovery, scraping, rules and their libraries: 150 packages and 14 MB of binary for these handlers.
//
// It is read-only. Bounds: time, samples and concurrency of queries; 11,000 points a series, as in Prometheus; 1 MiB of
// form. The parameters limit, timeout and lookback_delta have no effect. It reads the series through an interface, and
// imports no other package of this module.
package promapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"golang.org/x/sync/semaphore"
)

const (
	maxFormBytes = 1 << 20
	maxPoints    = 11_000           // of a series in one answer
	maxQueries   = 4                // concurrent; others wait
	maxSamples   = 2_000_000        // that one query may hold in memory, 16 bytes each; as JSON a sample takes some 30
	queryTimeout = 20 * time.Second // of a query, including the wait; the listener gives an answer 30 s
	lookback     = 5 * time.Minute  // how long a sample is valid
)

// prometheusVersion is the release of the built-in Prometheus engine: module v0.315.0 is release 3.15.0.
const prometheusVersion = "3.15.0"

// API answers queries. It is safe for concurrent use.
type API struct {
	data    storage.Queryable
	help    map[string]string // by series name
	version string
	log     *slog.Logger
	timeout time.Duration
	turns   *semaphore.Weighted // one per running query
	engine  *promql.Engine
	parser  parser.Parser
}

// New returns an API over data, which must be safe for concurrent use. All series are gauges; help describes them by
// name. version is the program's.
func New(data storage.Queryable, help map[string]string, version string, log *slog.Logger) *API {
	return newAPI(data, help, version, log, maxSamples, queryTimeout)
}

func newAPI(data storage.Queryable, help map[string]string, version string, log *slog.Logger, samples int, timeout time.Duration) *API {
	p := parser.NewParser(parser.Options{})
	return &API{
		data: data, help: help, version: version, log: log, parser: p, timeout: timeout, turns: semaphore.NewWeighted(maxQueries),
		engine: promql.NewEngine(promql.EngineOpts{
			Logger: log, MaxSamples: samples, Timeout: timeout,
			LookbackDelta: lookback, NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
			EnableAtModifier: true, EnableNegativeOffset: true, Parser: p,
		}),
	}
}

// Register adds the API's routes, given as patterns of [http.ServeMux].
func (a *API) Register(handle func(pattern string, h http.Handler)) {
	both := []string{http.MethodGet, http.MethodPost}
	for _, e := range []struct {
		methods []string
		path    string
		answer  endpoint
	}{
		{both, "query", a.query},
		{both, "query_range", a.queryRange},
		{both, "series", a.series},
		{both, "labels", a.labelNames},
		{both[:1], "label/{name}/values", a.labelValues},
		{both[:1], "metadata", a.metricMetadata},
		{both[:1], "status/buildinfo", a.buildInfo},
		{both[:1], "rules", a.rules},
	} {
		for _, method := range e.methods {
			handle(method+" /api/v1/"+e.path, a.serve(e.answer))
		}
	}
}

// An endpoint answers one request with a parsed form.
type endpoint func(ctx context.Context, r *http.Request) (answer, error)

// answer is the result of an endpoint. done releases memory that data uses.
type answer struct {
	data     any
	warnings annotations.Annotations
	done     func()
}

// failure is an error of Prometheus' API: kind is the errorType of the answer.
type failure struct {
	status int
	kind   string
	error
}

// statusClientClosed means that the client closed the connection before the answer, as in nginx and Prometheus.
const statusClientClosed = 499

// refuse is the failure of a wrong request.
func refuse(cause error) error { return &failure{http.StatusBadRequest, "bad_data", cause} }

// invalid is the failure of an invalid parameter.
func invalid(parameter string, cause error) error {
	return refuse(fmt.Errorf("invalid parameter %q: %w", parameter, cause))
}

// failureOf classifies an error. One that is not a failure comes from the engine or from the series.
func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	var (
		gone    promql.ErrQueryCanceled
		late    promql.ErrQueryTimeout
		storage promql.ErrStorage
	)
	switch {
	case errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		return &failure{http.StatusServiceUnavailable, "timeout", err}
	case errors.As(err, &gone), errors.Is(err, context.Canceled):
		return &failure{statusClientClosed, "canceled", err}
	case errors.As(err, &storage):
		return &failure{http.StatusInternalServerError, "internal", err}
	}
	return &failure{http.StatusUnprocessableEntity, "execution", err}
}

// reply is the JSON of an answer or a failure.
type reply struct {
	Status    string   `json:"status"`
	Data      any      `json:"data,omitempty"`
	ErrorType string   `json:"errorType,omitempty"`
	Error     string   `json:"error,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	Infos     []string `json:"infos,omitempty"`
}

func (a *API) serve(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		if err := r.ParseForm(); err != nil {
			a.writeError(w, refuse(fmt.Errorf("error parsing form values: %w", err)))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), a.timeout)
		defer cancel()
		x, err := e(ctx, r)
		if x.done != nil {
			defer x.done()
		}
		if err != nil {
			a.writeError(w, err)
			return
		}
		warnings, infos := x.warnings.AsStrings(r.Form.Get("query"), 10, 10)
		a.write(w, http.StatusOK, reply{Status: "success", Data: x.data, Warnings: warnings, Infos: infos})
	})
}

func (a *API) writeError(w http.ResponseWriter, err error) {
	f := failureOf(err)
	a.write(w, f.status, reply{Status: "error", ErrorType: f.kind, Error: f.Error()})
}

func (a *API) write(w http.ResponseWriter, status int, x reply) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(x); err != nil {
		a.log.Debug("write of an answer failed", "cause", err.Error())
	}
}

// metricMetadata returns type, help and unit of series by name.
func (a *API) metricMetadata(_ context.Context, r *http.Request) (answer, error) {
	found, metric := map[string][]map[string]string{}, r.Form.Get("metric")
	for name, help := range a.help {
		if metric == "" || metric == name {
			found[name] = []map[string]string{{"type": "gauge", "help": help, "unit": ""}}
		}
	}
	return answer{data: found}, nil
}

// buildInfo returns the Prometheus version, from which clients derive the supported API, and Forewarm's version.
func (a *API) buildInfo(context.Context, *http.Request) (answer, error) {
	return answer{data: map[string]string{
		"version": prometheusVersion, "revision": a.version, "branch": "", "buildUser": "", "buildDate": "",
		"goVersion": runtime.Version(), "application": "Forewarm",
	}}, nil
}

// rules answers with no rules: Forewarm evaluates none.
func (a *API) rules(context.Context, *http.Request) (answer, error) {
	return answer{data: map[string][]string{"groups": {}}}, nil
}
