// Package otlp sends the daemon's own traces and metrics to an OpenTelemetry collector, by OTLP over HTTP.
//
// Goroutines of the OpenTelemetry SDK send, so callers do not wait. Bounds: spansWaiting spans in the queue, pointsAtOnce
// points in a request, otlpTimeout for a request, lastExport at shutdown.
package otlp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"

	"github.com/forewarm/forewarm/internal/httpclient"
)

// Config configures the collector. Its URL is without /v1/traces and /v1/metrics; "" sends nothing.
type Config struct {
	httpclient.Endpoint `yaml:",inline"`
}

// Paths of OTLP over HTTP.
const (
	tracesPath  = "/v1/traces"
	metricsPath = "/v1/metrics"
)

// Check returns an error that names the key, its value and the fix, or nil.
func (c *Config) Check() error {
	if u, err := url.Parse(c.URL); err == nil && (strings.HasSuffix(u.Path, tracesPath) || strings.HasSuffix(u.Path, metricsPath)) {
		return fmt.Errorf("url is %q: it must be without %s and %s, which are added", httpclient.Redacted(c.URL), tracesPath, metricsPath)
	}
	return c.Endpoint.Check()
}

const (
	otlpTimeout  = 10 * time.Second // of one request
	lastExport   = 3 * time.Second  // for the last export at shutdown
	spansWaiting = 2048             // spans in the queue; more are dropped
	pointsAtOnce = 10_000           // points of metrics in one request
)

// Exporter exports traces and metrics.
type Exporter struct {
	Traces   trace.TracerProvider // no-op without a collector
	Failures atomic.Uint64        // exports that failed
	Dropped  atomic.Uint64        // spans dropped because the queue was full
	waiting  atomic.Int64         // spans
	log      *slog.Logger
	logged   rate.Sometimes
	stops    []func(context.Context) error
}

// New starts the export. version and instance describe this daemon. exposition writes its metrics in Prometheus' text
// format. They are exported once a minute, or every OTEL_METRIC_EXPORT_INTERVAL milliseconds. Errors are of cfg. An
// unreachable collector is logged every five minutes.
func New(ctx context.Context, cfg Config, version, instance string, exposition func(io.Writer), log *slog.Logger) (*Exporter, error) {
	e := &Exporter{Traces: noop.NewTracerProvider(), log: log, logged: rate.Sometimes{Interval: 5 * time.Minute}}
	if cfg.URL == "" {
		return e, nil
	}
	transport, err := cfg.API("otlp")
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: transport, Timeout: otlpTimeout, CheckRedirect: httpclient.NoRedirect}
	self, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "forewarm"), attribute.String("service.version", version), attribute.String("service.instance.id", instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	base := strings.TrimSuffix(cfg.URL, "/")
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base+tracesPath), otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		return nil, err
	}
	points, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(base+metricsPath), otlpmetrichttp.WithHTTPClient(client),
		otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
	if err != nil {
		return nil, err
	}
	queue := sdktrace.NewBatchSpanProcessor(spanExporter{spans, e}, sdktrace.WithMaxQueueSize(spansWaiting))
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spanQueue{queue, e}), sdktrace.WithResource(self))
	reader := metric.NewPeriodicReader(metricExporter{points, e}, metric.WithMaxExportBatchSize(pointsAtOnce),
		metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(gatherer(exposition)))))
	metrics := metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(self))
	e.Traces, e.stops = traces, []func(context.Context) error{traces.Shutdown, metrics.Shutdown}
	return e, nil
}

// ended counts and logs the error of an export. The error is not returned to the SDK, which would print it to standard
// error.
func (e *Exporter) ended(err error) {
	if err != nil {
		e.Failures.Add(1)
		e.logged.Do(func() {
			e.log.Warn("traces or metrics do not reach the OpenTelemetry collector; they are dropped and counted", "cause", err.Error())
		})
	}
}

// Close exports the queue and the metrics, for up to lastExport.
func (e *Exporter) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	for _, stop := range e.stops {
		_ = stop(ctx) // an unreachable collector was already logged
	}
}

// spanQueue drops and counts spans when the queue is full.
type spanQueue struct {
	sdktrace.SpanProcessor
	of *Exporter
}

func (q spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if q.of.waiting.Add(1) > spansWaiting {
		q.of.waiting.Add(-1)
		q.of.Dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// spanExporter reports errors to ended.
type spanExporter struct {
	sdktrace.SpanExporter
	of *Exporter
}

func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.of.waiting.Add(-int64(len(spans)))
	e.of.ended(e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// metricExporter reports errors to ended.
type metricExporter struct {
	metric.Exporter
	of *Exporter
}

func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	e.of.ended(e.Exporter.Export(ctx, m))
	return nil
}

// gatherer parses what the function writes, so that exported metrics have the names of /metrics.
type gatherer func(io.Writer)

// Gather implements prometheus.Gatherer.
func (g gatherer) Gather() ([]*dto.MetricFamily, error) {
	var text bytes.Buffer
	g(&text)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(&text)
	if err != nil {
		return nil, fmt.Errorf("own metrics: %w", err)
	}
	return slices.Collect(maps.Values(families)), nil
}
