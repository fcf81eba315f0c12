package remote

import (
	"bytes"
	"context"
	"errors"
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

// OTLPConfig configures the collector for the daemon's own traces and metrics, by OTLP over HTTP.
type OTLPConfig struct {
	Endpoint        `yaml:",inline"` // its URL is without /v1/traces and /v1/metrics
	Traces          bool             `yaml:"traces"`
	MetricsInterval time.Duration    `yaml:"metrics_interval"` // 0 sends no metrics
}

// DefaultOTLP sends nothing.
func DefaultOTLP() OTLPConfig { return OTLPConfig{Traces: true, MetricsInterval: time.Minute} }

// Paths of OTLP over HTTP.
const (
	tracesPath  = "/v1/traces"
	metricsPath = "/v1/metrics"
)

// Check returns an error that names the key, its value and the fix, or nil.
func (c *OTLPConfig) Check() error {
	u, err := url.Parse(c.URL)
	switch {
	case err == nil && (strings.HasSuffix(u.Path, tracesPath) || strings.HasSuffix(u.Path, metricsPath)):
		return fmt.Errorf("url is %q: it must be without %s and %s, which are added", httpclient.Redacted(c.URL), tracesPath, metricsPath)
	case c.MetricsInterval != 0 && (c.MetricsInterval < time.Second || c.MetricsInterval > time.Hour):
		return fmt.Errorf("metrics_interval is %s: it must be 1s to 1h, or 0s to send no metrics", c.MetricsInterval)
	case c.URL != "" && !c.Traces && c.MetricsInterval == 0:
		return errors.New("traces is false: it must be true where metrics_interval is 0s, or nothing is sent; remove otlp.url to switch all off")
	}
	return c.check()
}

const (
	otlpTimeout  = 10 * time.Second // of one request
	lastExport   = 3 * time.Second  // for the last export at shutdown
	spansWaiting = 2048             // spans in the queue; more are dropped
	pointsAtOnce = 10_000           // in one request
)

// OTLP exports the daemon's own traces and metrics. Goroutines of the OpenTelemetry SDK send, so callers do not wait.
type OTLP struct {
	Traces   trace.TracerProvider // no-op without traces
	Failures atomic.Uint64        // exports that failed
	Dropped  atomic.Uint64        // spans dropped because the queue was full
	waiting  atomic.Int64         // spans
	stops    []func(context.Context) error
}

// NewOTLP starts the export. version and instance describe this daemon. exposition writes its metrics in Prometheus'
// text format, once per interval. Errors are of cfg. An unreachable collector is logged every five minutes.
func NewOTLP(ctx context.Context, cfg OTLPConfig, version, instance string, exposition func(io.Writer), log *slog.Logger) (*OTLP, error) {
	o := &OTLP{Traces: noop.NewTracerProvider()}
	if cfg.URL == "" {
		return o, nil
	}
	transport, err := cfg.Transport("otlp")
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: bounded{transport}, Timeout: otlpTimeout, CheckRedirect: httpclient.Stay}
	self, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "forewarm"), attribute.String("service.version", version), attribute.String("service.instance.id", instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	logged := rate.Sometimes{Interval: 5 * time.Minute}
	ended := func(err error) {
		if err != nil {
			o.Failures.Add(1)
			logged.Do(func() {
				log.Warn("traces or metrics do not reach the OpenTelemetry collector; they are dropped and counted", "cause", err.Error())
			})
		}
	}
	base := strings.TrimSuffix(cfg.URL, "/")
	if cfg.Traces {
		exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base+tracesPath), otlptracehttp.WithHTTPClient(client), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
		if err != nil {
			return nil, err
		}
		queue := sdktrace.NewBatchSpanProcessor(spanExporter{exporter, o, ended}, sdktrace.WithMaxQueueSize(spansWaiting))
		p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spanQueue{queue, o}), sdktrace.WithResource(self))
		o.Traces, o.stops = p, append(o.stops, p.Shutdown)
	}
	if cfg.MetricsInterval > 0 {
		exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(base+metricsPath), otlpmetrichttp.WithHTTPClient(client), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
		if err != nil {
			return nil, err
		}
		reader := metric.NewPeriodicReader(metricExporter{exporter, ended}, metric.WithInterval(cfg.MetricsInterval), metric.WithMaxExportBatchSize(pointsAtOnce),
			metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(gatherer(exposition)))))
		o.stops = append(o.stops, metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(self)).Shutdown)
	}
	return o, nil
}

// Close exports the queue, for up to lastExport.
func (o *OTLP) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	for _, stop := range o.stops {
		_ = stop(ctx) // an unreachable collector was already logged
	}
}

// spanQueue drops and counts spans when the queue is full.
type spanQueue struct {
	sdktrace.SpanProcessor
	of *OTLP
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

// spanExporter records results. It hides errors from the SDK, which would print them to standard error.
type spanExporter struct {
	sdktrace.SpanExporter
	of    *OTLP
	ended func(error)
}

func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.of.waiting.Add(-int64(len(spans)))
	e.ended(e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// metricExporter does the same for metrics.
type metricExporter struct {
	metric.Exporter
	ended func(error)
}

func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	e.ended(e.Exporter.Export(ctx, m))
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
