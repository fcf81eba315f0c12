package server

import (
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
)

// Exporter is the content of /metrics: counters of this process, and the gauges of the last tick. The gauges are
// withdrawn after some time without a tick, so that nothing scales on values of a stuck daemon. All methods are safe
// for concurrent use.
//
// Cardinality: pools × resources × 8, and pools × (classes + 2) × dimensions × 9, where classes are those with
// forecasts: the 64 heaviest of a pool, and temporarily up to 80. Traffic has (stored classes + pools) × 4 × 10 series.
// Each producer has 5 more; features bounds the number of producers.
type Exporter struct {
	*prometheus.Registry

	Records atomic.Uint64 // of telemetry, counted
	Ignored atomic.Uint64 // records that carry no demand

	refused   map[ingest.Reason]*atomic.Uint64
	decisions *prometheus.CounterVec
	calls     *prometheus.CounterVec
	events    atomic.Uint64

	staleAfter time.Duration

	tick     atomic.Int64  // origin of the last one, Unix ms; 0 before it
	sequence atomic.Uint64 // that it has read

	mu      sync.Mutex
	gauges  []prometheus.Metric
	decided time.Time // when the gauges were set, by the clock of this process
}

// NewExporter returns an exporter that withdraws gauges after staleAfter.
func NewExporter(version string, staleAfter time.Duration) *Exporter {
	e := &Exporter{Registry: prometheus.NewRegistry(), refused: map[ingest.Reason]*atomic.Uint64{}, staleAfter: staleAfter}
	e.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), samples(e.ofTick))
	e.decisions = e.counters("forewarm_decisions_total", "Decisions made, one for each pool and tick.", "action")
	e.calls = e.counters("forewarm_rpc_calls_total", "Calls that autoscalers made, by their outcome.", "service", "method", "code")
	for _, action := range []alerting.Action{alerting.ScaleOut, alerting.ScaleIn, alerting.Hold} {
		e.decisions.WithLabelValues(string(action))
	}
	e.Counter("forewarm_ingest_records_total", "Telemetry records read from the stream.", e.Records.Load)
	e.Counter("forewarm_ingest_ignored_total", "Valid telemetry records that carry no demand, such as tool events.", e.Ignored.Load)
	e.Counter("forewarm_prescale_events_total", "Pre-scale events issued.", e.events.Load)
	for _, reason := range ingest.Reasons {
		e.refused[reason] = new(atomic.Uint64)
		e.Counter("forewarm_ingest_refused_total", "Telemetry records refused, by reason.", e.refused[reason].Load, "reason", string(reason))
	}
	e.Gauge("forewarm_build_info", "Version of this build.", func() float64 { return 1 }, "version", version, "goversion", runtime.Version())
	e.Gauge("forewarm_tick_timestamp_seconds", "Origin of the last tick, in Unix time of the pipeline's clock; 0 before the first.", func() float64 {
		return float64(e.tick.Load()) / 1e3
	})
	e.Gauge("forewarm_stream_sequence", "Sequence number in the telemetry stream up to which the last tick has read.", func() float64 { return float64(e.sequence.Load()) })
	return e
}

// Observe sets the gauges from the output of a tick.
func (e *Exporter) Observe(out *pipeline.Output) {
	for i := range out.Decisions {
		e.decisions.WithLabelValues(string(out.Decisions[i].Action)).Inc()
		if out.Decisions[i].Publish {
			e.events.Add(1)
		}
	}
	e.tick.Store(out.Tick.UnixMilli())
	e.sequence.Store(out.Sequence)
	if len(out.Decisions) > 0 {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.gauges, e.decided = sampled(func(add add) { collect(out, add) }), time.Now() // the output is used again
	}
}

// ofTick returns the gauges of the last tick with decisions; none if it is too long ago.
func (e *Exporter) ofTick() []prometheus.Metric {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.decided) > e.staleAfter {
		return nil
	}
	return e.gauges
}

// Refused counts the records that could not be used; reason is one of ingest.Reasons.
func (e *Exporter) Refused(reason ingest.Reason) *atomic.Uint64 { return e.refused[reason] }

// CountCall adds a finished call at a gRPC listener; all three values are from small fixed sets.
func (e *Exporter) CountCall(service, method, code string) {
	e.calls.WithLabelValues(service, method, code).Inc()
}

// Gauge exposes what f returns; labels alternate names and values. A name with its labels is registered once.
func (e *Exporter) Gauge(name, help string, f func() float64, labels ...string) {
	e.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: constant(labels)}, f))
}

// Counter is like Gauge; name ends in _total.
func (e *Exporter) Counter(name, help string, f func() uint64, labels ...string) {
	value := func() float64 { return float64(f()) }
	e.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: constant(labels)}, value))
}

// Histogram exposes a histogram of observed values; buckets are upper bounds. A name is registered once.
func (e *Exporter) Histogram(name, help string, buckets []float64) (observe func(float64)) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	e.MustRegister(h)
	return h.Observe
}

// Traffic exposes the shape of demand that f returns.
func (e *Exporter) Traffic(f func() Traffic) {
	e.MustRegister(samples(func() []prometheus.Metric { return sampled(func(add add) { collectTraffic(f(), add) }) }))
}

// counters exposes counters with labels.
func (e *Exporter) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	e.MustRegister(c)
	return c
}

func constant(labels []string) prometheus.Labels {
	all := prometheus.Labels{}
	for pair := range slices.Chunk(labels, 2) {
		all[pair[0]] = pair[1]
	}
	return all
}

// ServeHTTP answers with all metrics, without those that cannot be collected.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	promhttp.HandlerFor(e, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
}

// samples collects what the function returns.
type samples func() []prometheus.Metric

// Describe implements [prometheus.Collector]: which samples there are is not known before.
func (samples) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (s samples) Collect(out chan<- prometheus.Metric) {
	for _, m := range s() {
		out <- m
	}
}
