package daemon

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/forewarm/forewarm/internal/otlp"
	"github.com/forewarm/forewarm/pipeline"
)

// openOTLP exports the daemon's own traces and metrics to the collector that the environment names, if any.
func (d *Daemon) openOTLP(ctx context.Context) error {
	o, err := otlp.New(ctx, d.version, d.instance, d.exporter.WritePrometheus, slogFrom(d.log))
	if err != nil {
		return ConfigError{err}
	}
	d.onClose(func() error { o.Close(); return nil }) // Run may have closed it already
	d.otlp, d.tracer = o, o.Traces.Tracer("github.com/forewarm/forewarm")
	d.exporter.Counter("forewarm_otlp_failures_total", "Exports to the OpenTelemetry collector that failed.", o.Failures.Load)
	return nil
}

// traceRequests makes a span for each request, except probes and Prometheus scrapes.
func (d *Daemon) traceRequests(next http.Handler) http.Handler {
	return otelhttp.NewHandler(next, "request", otelhttp.WithTracerProvider(d.otlp.Traces), otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithPropagators(propagation.TraceContext{}), otelhttp.WithFilter(func(r *http.Request) bool {
			return r.URL.Path != "/metrics" && r.URL.Path != "/healthz" && r.URL.Path != "/readyz"
		}))
}

// endSpan ends a span and records its error.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// tickSpan makes the span of a tick that began at this time.
func (d *Daemon) tickSpan(began time.Time, out *pipeline.Output) trace.Span {
	_, span := d.tracer.Start(context.Background(), "tick", trace.WithTimestamp(began))
	if span.IsRecording() {
		var events []string
		for i := range out.Decisions {
			if x := &out.Decisions[i]; x.Publish {
				events = append(events, x.EventID())
			}
		}
		span.SetAttributes(attribute.String("forewarm.tick", out.Tick.UTC().Format(time.RFC3339)), attribute.Int64("forewarm.sequence", int64(out.Sequence)),
			attribute.Int("forewarm.pools", len(out.Pools)), attribute.Int("forewarm.decisions", len(out.Decisions)),
			attribute.Int("forewarm.alerts", len(out.Alerts)), attribute.StringSlice("forewarm.events", events))
	}
	return span
}
