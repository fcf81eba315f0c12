// Package otlp sends the daemon's own traces to an OpenTelemetry collector, by OTLP over HTTP.
//
// Goroutines of the OpenTelemetry SDK send, so callers do not wait. Bounds: spansWaiting spans in the queue, otlpTimeout
// for a request, lastExport at shutdown.
package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"

	"github.com/forewarm/forewarm/internal/httpclient"
)

// Config configures the collector.
type Config struct {
	URL               string `yaml:"url"` // without /v1/traces; "" sends nothing
	httpclient.Config `yaml:",inline"`
}

// tracesPath is the path of traces in OTLP over HTTP.
const tracesPath = "/v1/traces"

// Check returns an error that names the key, its value and the fix, or nil.
func (c *Config) Check() error {
	if c.URL == "" {
		return nil
	}
	if u, err := url.Parse(c.URL); err == nil && strings.HasSuffix(u.Path, tracesPath) {
		return fmt.Errorf("url is %q: it must be without %s, which is added", httpclient.Redacted(c.URL), tracesPath)
	}
	return c.Config.Check(c.URL)
}

const (
	otlpTimeout  = 10 * time.Second // of one request
	lastExport   = 3 * time.Second  // for the last export at shutdown
	spansWaiting = 2048             // spans in the queue; more are dropped
)

// Exporter exports traces.
type Exporter struct {
	Traces   trace.TracerProvider // no-op without a collector
	Failures atomic.Uint64        // exports that failed
	Dropped  atomic.Uint64        // spans dropped because the queue was full
	waiting  atomic.Int64         // spans
	stop     func(context.Context) error
}

// New starts the export. version and instance describe this daemon. Errors are of cfg. An unreachable collector is
// logged every five minutes.
func New(ctx context.Context, cfg Config, version, instance string, log *slog.Logger) (*Exporter, error) {
	e := &Exporter{Traces: noop.NewTracerProvider(), stop: func(context.Context) error { return nil }}
	if cfg.URL == "" {
		return e, nil
	}
	transport, err := cfg.Transport("otlp")
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: transport, Timeout: otlpTimeout, CheckRedirect: httpclient.Stay}
	self, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "forewarm"), attribute.String("service.version", version), attribute.String("service.instance.id", instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimSuffix(cfg.URL, "/")+tracesPath),
		otlptracehttp.WithHTTPClient(client), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		return nil, err
	}
	queue := sdktrace.NewBatchSpanProcessor(spanExporter{exporter, e, log, &rate.Sometimes{Interval: 5 * time.Minute}}, sdktrace.WithMaxQueueSize(spansWaiting))
	p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spanQueue{queue, e}), sdktrace.WithResource(self))
	e.Traces, e.stop = p, p.Shutdown
	return e, nil
}

// Close exports the queue, for up to lastExport.
func (e *Exporter) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	_ = e.stop(ctx) // an unreachable collector was already logged
}

// spanQueue drops and counts spans when the queue is full.
type spanQueue struct {
	sdktrace.SpanProcessor
	of *Exporter
}

func (q spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	switch {
	case !s.SpanContext().IsSampled():
	case q.of.waiting.Add(1) > spansWaiting:
		q.of.waiting.Add(-1)
		q.of.Dropped.Add(1)
	default:
		q.SpanProcessor.OnEnd(s)
	}
}

// spanExporter counts and logs errors. It hides them from the SDK, which would print them to standard error.
type spanExporter struct {
	sdktrace.SpanExporter
	of     *Exporter
	log    *slog.Logger
	logged *rate.Sometimes
}

func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.of.waiting.Add(-int64(len(spans)))
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.of.Failures.Add(1)
		e.logged.Do(func() {
			e.log.Warn("traces do not reach the OpenTelemetry collector; they are dropped and counted", "cause", err.Error())
		})
	}
	return nil
}
