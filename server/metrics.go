package server

import (
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/common/expfmt"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
)

// Exporter is the content of /metrics: counters of this process, and the gauges of the last tick. The gauges are
// withdrawn after some time without a tick, so that nothing scales on values of a stuck daemon. All methods are safe for
// concurrent use.
//
// Cardinality: pools × resources × 8, and pools × (classes + 2) × dimensions × 9, where classes are those with
// forecasts: the 64 heaviest of a pool, and temporarily up to 80. Each producer has 5 more; features bounds the number
// of producers.
type Exporter struct {
	Records atomic.Uint64 // of telemetry, counted
	Ignored atomic.Uint64 // records that carry no demand
	refused map[ingest.Reason]*atomic.Uint64

	registry       *prometheus.Registry
	decisions      *prometheus.CounterVec
	events         prometheus.Counter
	calls          *prometheus.CounterVec
	tick, sequence prometheus.Gauge
	staleAfter     time.Duration

	mu      sync.Mutex
	gauges  []byte    // of the last tick with decisions, rendered
	decided time.Time // time of that tick, by the clock of this process
}

// NewExporter returns an exporter that withdraws gauges after staleAfter.
func NewExporter(version string, staleAfter time.Duration) *Exporter {
	e := &Exporter{staleAfter: staleAfter, registry: prometheus.NewRegistry(), refused: map[ingest.Reason]*atomic.Uint64{}}
	e.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e.Counter("forewarm_ingest_records_total", "Telemetry records read from the stream.", e.Records.Load)
	e.Counter("forewarm_ingest_ignored_total", "Valid telemetry records that carry no demand, such as tool events.", e.Ignored.Load)
	for _, reason := range ingest.Reasons {
		e.refused[reason] = &atomic.Uint64{}
		e.Counter("forewarm_ingest_refused_total", "Telemetry records refused, by reason. A message that is refused as a whole counts as one.",
			e.refused[reason].Load, "reason", string(reason))
	}
	e.decisions = e.counters("forewarm_decisions_total", "Decisions made, one for each pool and tick.", "action")
	for _, action := range []alerting.Action{alerting.ScaleOut, alerting.ScaleIn, alerting.Hold} {
		e.decisions.WithLabelValues(string(action))
	}
	e.events = e.counters("forewarm_prescale_events_total", "Pre-scale events issued.").WithLabelValues()
	e.calls = e.counters("forewarm_rpc_calls_total", "Calls that autoscalers made, by their outcome.", "service", "method", "code")
	e.Gauge("forewarm_build_info", "Version of this build.", func() float64 { return 1 }, "version", version, "goversion", runtime.Version())
	ofTick := func(name, help string) prometheus.Gauge {
		g := promauto.With(e.registry).NewGauge(prometheus.GaugeOpts{Name: name, Help: help + "; NaN before the first."})
		g.Set(math.NaN())
		return g
	}
	e.tick = ofTick("forewarm_tick_timestamp_seconds", "Origin of the last tick, in Unix time of the pipeline's clock")
	e.sequence = ofTick("forewarm_stream_sequence", "Sequence number in the telemetry stream up to which the last tick has read")
	return e
}

// Observe sets the gauges from the output of a tick.
func (e *Exporter) Observe(out *pipeline.Output) {
	for i := range out.Decisions {
		e.decisions.WithLabelValues(string(out.Decisions[i].PoolAction())).Inc()
		if out.Decisions[i].Publish {
			e.events.Inc()
		}
	}
	e.tick.Set(float64(out.Tick.UnixMilli()) / 1e3)
	e.sequence.Set(float64(out.Sequence))
	if len(out.Decisions) > 0 {
		gauges := render(families, func(add add) { collect(out, add) })
		e.mu.Lock()
		defer e.mu.Unlock()
		e.gauges, e.decided = gauges, time.Now()
	}
}

// Refused counts the records that could not be used; reason is one of ingest.Reasons.
func (e *Exporter) Refused(reason ingest.Reason) *atomic.Uint64 { return e.refused[reason] }

// CountCall adds a finished call at a gRPC listener; all three values are from small fixed sets.
func (e *Exporter) CountCall(service, method, code string) {
	e.calls.WithLabelValues(service, method, code).Inc()
}

// Gauge exposes what f returns; labels alternate names and values. A name is registered once with the same labels.
func (e *Exporter) Gauge(name, help string, f func() float64, labels ...string) {
	promauto.With(e.registry).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labelsOf(labels)}, f)
}

// Counter exposes a counter that f returns; name ends in _total, and labels are as of [Exporter.Gauge].
func (e *Exporter) Counter(name, help string, f func() uint64, labels ...string) {
	count := func() float64 { return float64(f()) }
	promauto.With(e.registry).NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labelsOf(labels)}, count)
}

// counters are counters with labels of these names.
func (e *Exporter) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(e.registry).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Histogram exposes a histogram of observed values; buckets are upper bounds.
func (e *Exporter) Histogram(name, help string, buckets []float64) (observe func(float64)) {
	return promauto.With(e.registry).NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}).Observe
}

func labelsOf(pairs []string) prometheus.Labels {
	out := prometheus.Labels{}
	for pair := range slices.Chunk(pairs, 2) {
		out[pair[0]] = pair[1]
	}
	return out
}

// WritePrometheus writes everything in the text exposition format.
func (e *Exporter) WritePrometheus(w io.Writer) {
	e.mu.Lock()
	gauges := e.gauges
	if time.Since(e.decided) > e.staleAfter {
		gauges = nil
	}
	e.mu.Unlock()
	families, _ := e.registry.Gather() // on an error, those that could be gathered
	for _, f := range families {
		_, _ = expfmt.MetricFamilyToText(w, f) // the client may have disconnected
	}
	_, _ = w.Write(gauges)
}
