package server

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
)

// Exporter is the content of /metrics: metrics of this process, and the gauges of the last tick. The gauges are
// withdrawn after some time without a tick, so that nothing scales on values of a stuck daemon. All methods are safe
// for concurrent use.
//
// Cardinality: pools × resources × 8, and pools × (classes + 2) × dimensions × 9, where classes are those with
// forecasts: the 64 heaviest of a pool, and temporarily up to 80. Each producer has 3 more; features bounds the number
// of producers.
type Exporter struct {
	registry *prometheus.Registry
	records  prometheus.Counter
	ignored  prometheus.Counter
	refused  *prometheus.CounterVec

	staleAfter time.Duration

	mu      sync.Mutex
	gauges  []byte    // of the last tick with decisions, rendered
	decided time.Time // time of that tick, by the clock of this process
	tick    time.Time
}

// NewExporter returns an exporter that withdraws gauges after staleAfter.
func NewExporter(version string, staleAfter time.Duration) *Exporter {
	e := &Exporter{
		registry: prometheus.NewRegistry(), staleAfter: staleAfter,
		records: prometheus.NewCounter(prometheus.CounterOpts{Name: "forewarm_ingest_records_total", Help: "Telemetry records read from the stream."}),
		ignored: prometheus.NewCounter(prometheus.CounterOpts{Name: "forewarm_ingest_ignored_total", Help: "Telemetry records that are sound and carry no demand, such as tool events."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "forewarm_ingest_refused_total", Help: "Telemetry records refused, by reason."}, []string{"reason"}),
	}
	e.registry.MustRegister(e.records, e.ignored, e.refused, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, reason := range ingest.Reasons {
		e.CountRefused(reason, 0)
	}
	e.Gauge("forewarm_build_info", "Version of this build.", func() float64 { return 1 }, "version", version, "goversion", runtime.Version())
	e.Gauge("forewarm_tick_timestamp_seconds", "Origin of the last tick, in Unix time of the pipeline's clock; 0 before the first.", func() float64 {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.tick.IsZero() {
			return 0
		}
		return float64(e.tick.UnixMilli()) / 1e3
	})
	return e
}

// Observe sets the gauges from the output of a tick.
func (e *Exporter) Observe(out *pipeline.Output) {
	gauges := render(out, slices.Concat(families, demand))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tick = out.Tick
	if len(out.Decisions) > 0 {
		e.gauges, e.decided = gauges, time.Now()
	}
}

// CountRecords adds n records read.
func (e *Exporter) CountRecords(n int) { e.records.Add(float64(n)) }

// CountIgnored adds n records that carry no demand.
func (e *Exporter) CountIgnored(n int) { e.ignored.Add(float64(n)) }

// CountRefused adds n records that could not be used; reason is one of ingest.Reasons.
func (e *Exporter) CountRefused(reason ingest.Reason, n int) {
	e.refused.WithLabelValues(string(reason)).Add(float64(n))
}

// Gauge exposes what f returns; labels alternate names and values. A name is registered once with the same labels.
func (e *Exporter) Gauge(name, help string, f func() float64, labels ...string) {
	e.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labelsOf(labels)}, f))
}

// Counter exposes a counter that f returns; name ends in _total, labels are those of [Exporter.Gauge].
func (e *Exporter) Counter(name, help string, f func() uint64, labels ...string) {
	e.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labelsOf(labels)}, func() float64 { return float64(f()) }))
}

// Histogram exposes a histogram of observed values; buckets are upper bounds.
func (e *Exporter) Histogram(name, help string, buckets []float64) (observe func(float64)) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	e.registry.MustRegister(h)
	return h.Observe
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

	families, _ := e.registry.Gather() // on an error, export what was gathered before it
	var own bytes.Buffer
	for _, f := range families {
		_, _ = expfmt.MetricFamilyToText(&own, f) // a buffer takes all
	}
	_, _ = w.Write(own.Bytes())
	_, _ = w.Write(gauges)
}
