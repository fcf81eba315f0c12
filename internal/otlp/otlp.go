// Package otlp sends the daemon's own traces and metrics to an OpenTelemetry collector, by OTLP over HTTP.
//
// Goroutines of the OpenTelemetry SDK send, so callers do not wait. Its variables OTEL_… configure it, with its bounds on
// the queue of spans and on the time of a request.
package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"
)

// endpoint is the variable with the collector's URL. Nothing is sent without it.
const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

const (
	lastExport   = 3 * time.Second // for the last export at shutdown
	pointsAtOnce = 10_000          // points of metrics in one request
)

// Exporter exports traces and metrics.
type Exporter struct {
	Traces   trace.TracerProvider // no-op without a collector
	Failures atomic.Uint64        // exports that failed
	stops    []func(context.Context) error
}

// New starts the export if there is a collector. version and instance describe this daemon. exposition writes its metrics
// in Prometheus' text format. They are exported once a minute, or every OTEL_METRIC_EXPORT_INTERVAL milliseconds. An
// unreachable collector is logged every five minutes. New replaces the error handler of the SDK.
func New(ctx context.Context, version, instance string, exposition func(io.Writer), log *slog.Logger) (*Exporter, error) {
	e := &Exporter{Traces: noop.NewTracerProvider()}
	if os.Getenv(endpoint) == "" {
		return e, nil
	}
	logged := rate.Sometimes{Interval: 5 * time.Minute}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		e.Failures.Add(1)
		logged.Do(func() {
			log.Warn("traces or metrics do not reach the OpenTelemetry collector; they are dropped and counted", "cause", err.Error())
		})
	}))
	self, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "forewarm"), attribute.String("service.version", version), attribute.String("service.instance.id", instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	spans, err := otlptracehttp.New(ctx)
	points, err2 := otlpmetrichttp.New(ctx)
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("%s: %w", endpoint, err)
	}
	traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithResource(self))
	reader := metric.NewPeriodicReader(points, metric.WithMaxExportBatchSize(pointsAtOnce),
		metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(gatherer(exposition)))))
	metrics := metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(self))
	e.Traces, e.stops = traces, []func(context.Context) error{traces.Shutdown, metrics.Shutdown}
	return e, nil
}

// Close exports the queue and the metrics, for up to lastExport.
func (e *Exporter) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	for _, stop := range e.stops {
		_ = stop(ctx) // an unreachable collector was already logged
	}
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
