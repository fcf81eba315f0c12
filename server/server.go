package server

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/internal/httpguard"
)

const (
	maxHeaderBytes  = 16 << 10
	shutdownTimeout = 5 * time.Second
)

// Server answers HTTP requests from the data of its reader.
type Server struct {
	cfg     Config
	reader  Reader
	metrics *Exporter
	log     *zap.Logger
	extra   map[string]http.Handler // by pattern

	// Foreign counts the requests refused because another web site may have sent them.
	Foreign atomic.Uint64

	// Data from other parts of the daemon. It must be set before Handler or Run.
	History History
	Explain func(ctx context.Context, ref string) (alerting.Explanation, error)
	Plan    func(ctx context.Context, query url.Values) (*plan.Sheet, error)
}

// Handle adds a route with data from other parts of the daemon, such as reports. Call it before Handler or Run.
func (s *Server) Handle(pattern string, h http.Handler) { s.extra[pattern] = h }

// New returns a server; it starts nothing.
func New(cfg Config, reader Reader, metrics *Exporter, log *zap.Logger) *Server {
	return &Server{cfg: cfg, reader: reader, metrics: metrics, log: log, extra: map[string]http.Handler{}}
}

// Handler routes all paths of the server; all are GET (and HEAD).
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /metrics", s.writeMetrics)
	routes := maps.Clone(s.extra)
	routes["GET /api/v1/openapi.json"] = http.HandlerFunc(getOpenAPI)
	for path, get := range map[string]answer{
		"status":                          func(*http.Request) (any, error) { return s.status(), nil },
		"pools":                           s.getPools,
		"pools/{pool}":                    ofPool(s, func(_ *http.Request, p *PoolView) (any, error) { return poolToJSON(p), nil }),
		"pools/{pool}/timeline":           ofPool(s, s.timeline),
		"pools/{pool}/forecast":           ofPool(s, getForecast),
		"pools/{pool}/classes/{class...}": ofPool(s, s.class),
		"pools/{pool}/desired":            s.getDesired,
		"explain":                         s.getForecastBasis,
		"explain/{id...}":                 s.getExplanation,
	} {
		routes["GET /api/v1/"+path] = get
	}
	for pattern, h := range routes { // paths that are not in the document, such as PromQL's, accept any parameter
		_, path, _ := strings.Cut(pattern, " ")
		if names, ok := parametersOf[strings.Replace(path, "...", "", 1)]; ok {
			h = checkQuery(names, h)
		}
		mux.Handle(pattern, h)
	}
	s.routePages(mux)
	refuse := func(w http.ResponseWriter, _ *http.Request, why string) {
		s.Foreign.Add(1)
		http.Error(w, why, http.StatusForbidden)
	}
	return securityHeaders(httpguard.Guard(s.cfg.Listen, s.cfg.Hosts, mux, refuse))
}

// checkQuery refuses a request with a parameter that is not one of the names, such as a misspelt one.
func checkQuery(names []string, next http.Handler) http.Handler {
	help := "this path has no parameters"
	if len(names) > 0 {
		help = "the parameters are " + strings.Join(names, ", ")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			WriteProblem(w, Problemf(http.StatusBadRequest, "the query is not well formed: %v", err))
			return
		}
		for _, name := range slices.Sorted(maps.Keys(query)) {
			if !slices.Contains(names, name) {
				WriteProblem(w, Problemf(http.StatusBadRequest, "unknown parameter %q: %s", name, help))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// pagePolicy is the Content-Security-Policy of all answers that have no policy of their own.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// DocumentPolicy is the Content-Security-Policy of a document with inline style, such as a report.
const DocumentPolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

// HeaderAPI is in each answer of a daemon but the 401 of server.web_config. Its value is the version of the API. Clients
// know by it that no other server answered.
const HeaderAPI = "Forewarm-Api"

// securityHeaders sets the headers that name the daemon, and that restrict a browser to showing an answer.
func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set(HeaderAPI, "1")
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// Listen opens the configured address. It is separate from [Server.Run], so that a used port is found before the start.
func (s *Server) Listen() (net.Listener, error) {
	if err := web.Validate(s.cfg.WebConfig); err != nil {
		return nil, fmt.Errorf("server.web_config = %s: %w", s.cfg.WebConfig, err)
	}
	return listen("server.listen", s.cfg.Listen)
}

func listen(key, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s = %s: %w; choose another address, or port 0 for a free one", key, address, err)
	}
	return l, nil
}

// Run answers requests on l until ctx ends, then waits a few seconds for running ones. It closes l.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          zap.NewStdLog(s.log),
	}
	// The package web logs at level info where it listens. IncreaseLevel must not lower the level.
	log := slog.New(zapslog.NewHandler(s.log.WithOptions(zap.IncreaseLevel(max(zap.WarnLevel, s.log.Level()))).Core()))
	return httpguard.ServeBy(ctx, srv, shutdownTimeout, func() error {
		return web.Serve(l, srv, &web.FlagConfig{WebConfigFile: &s.cfg.WebConfig}, log)
	})
}

// ListenProbes opens the address for probes, which is configured.
func (s *Server) ListenProbes() (net.Listener, error) { return listen("server.probes", s.cfg.Probes) }

// RunProbes answers probes on l until ctx ends. It closes l.
func (s *Server) RunProbes(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", s.probeReady)
	srv := &http.Server{
		Handler:        securityHeaders(mux),
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   5 * time.Second,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       zap.NewStdLog(s.log),
	}
	return httpguard.Serve(ctx, srv, l, shutdownTimeout)
}

func (s *Server) writeMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	s.metrics.WritePrometheus(w)
}
