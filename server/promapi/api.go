package promapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

const (
	maxFormBytes = 1 << 20
	maxPoints    = 11_000          // of a series in one answer
	maxQueries   = 4               // concurrent; others wait
	lookback     = 5 * time.Minute // how long a sample is valid
)

// Metadata describes the series of one name.
type Metadata struct {
	Type string `json:"type"` // gauge, counter …, as in the exposition format
	Help string `json:"help"`
	Unit string `json:"unit"`
}

// API answers queries. It is safe for concurrent use.
type API struct {
	cfg      Config
	data     storage.Queryable
	metadata map[string]Metadata
	version  string
	log      *slog.Logger
	engine   *promql.Engine
	parser   parser.Parser
	now      func() time.Time
}

// New returns an API over data, which must be safe for concurrent use. metadata is by series name; version is the
// program's.
func New(cfg Config, data storage.Queryable, metadata map[string]Metadata, version string, log *slog.Logger) *API {
	p := parser.NewParser(parser.Options{})
	return &API{
		cfg: cfg, data: data, metadata: metadata, version: version, log: log, parser: p, now: time.Now,
		engine: promql.NewEngine(promql.EngineOpts{
			Logger: log, MaxSamples: cfg.MaxSamples, Timeout: cfg.Timeout, ActiveQueryTracker: make(gate, maxQueries),
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
		{both, "query_exemplars", a.queryExemplars},
		{both, "format_query", a.formatQuery},
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
type endpoint func(ctx context.Context, r *http.Request) (answer, *failure)

// answer is the result of an endpoint. done releases memory that data uses; nil data has no body.
type answer struct {
	data     any
	warnings annotations.Annotations
	done     func()
}

func (a *API) serve(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		if err := r.ParseForm(); err != nil {
			a.respondFailure(w, refuse(fmt.Errorf("error parsing form values: %w", err)))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), a.cfg.Timeout)
		defer cancel()
		x, f := e(ctx, r)
		if x.done != nil {
			defer x.done()
		}
		switch {
		case f != nil:
			a.respondFailure(w, f)
		case x.data == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			a.respond(w, r.Form.Get("query"), &x)
		}
	})
}
