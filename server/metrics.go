package server

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
)

// Exporter is the content of /metrics: counters of this process, and the gauges of the last tick. After StaleAfter
// the gauges are withdrawn, so that nothing scales on values of a stuck daemon. It is safe for concurrent use.
//
// Cardinality: pools × resources × 8, pools × (classes + 2) × dimensions × 9, and producers × 5. The classes are those
// with forecasts: the 64 heaviest of a pool, and temporarily up to 80. features bounds the number of producers.
type Exporter struct {
	Records *metrics.Counter // of telemetry, counted
	Ignored *metrics.Counter // records that carry no demand

	set    *metrics.Set
	events *metrics.Counter

	tick     *metrics.Gauge // origin of the last one
	sequence *metrics.Gauge // that it has read

	mu      sync.Mutex
	help    map[string]string
	gauges  []byte    // of the last tick with decisions, rendered
	decided time.Time // see Observe
}

// StaleAfter is the wall-clock age of the last decision at which gauges are withdrawn.
const StaleAfter = 10 * time.Minute

// NewExporter returns an exporter without a tick. It enables metadata in the metrics library for the whole process.
func NewExporter(version string) *Exporter {
	metrics.ExposeMetadata(true)
	e := &Exporter{set: metrics.NewSet(), help: map[string]string{}}
	e.Records = e.counter("forewarm_ingest_records_total", "Telemetry records read from the stream.")
	e.Ignored = e.counter("forewarm_ingest_ignored_total", "Valid telemetry records that carry no demand, such as tool events.")
	for _, reason := range ingest.Reasons {
		e.Refused(reason)
	}
	for _, action := range []alerting.Action{alerting.ScaleOut, alerting.ScaleIn, alerting.Hold} {
		e.decisions(action)
	}
	e.events = e.counter("forewarm_prescale_events_total", "Pre-scale events issued.")
	e.Gauge("forewarm_build_info{version="+strconv.Quote(version)+",goversion="+strconv.Quote(runtime.Version())+"}",
		"Version of this build.", func() float64 { return 1 })
	ofTick := func(name, help string) *metrics.Gauge {
		e.describe(name, help+"; NaN before the first.")
		g := e.set.NewGauge(name, nil)
		g.Set(math.NaN())
		return g
	}
	e.tick = ofTick("forewarm_tick_timestamp_seconds", "Origin of the last tick, in Unix time of the pipeline's clock")
	e.sequence = ofTick("forewarm_stream_sequence", "Sequence number in the telemetry stream up to which the last tick has read")
	return e
}

// Observe sets the gauges from the output of a tick. Their age counts from decided.
func (e *Exporter) Observe(out *pipeline.Output, decided time.Time) {
	for _, d := range out.Decisions() {
		e.decisions(d.PoolAction()).Inc()
		if d.Publish {
			e.events.Inc()
		}
	}
	e.tick.Set(float64(out.Tick.UnixMilli()) / 1e3)
	e.sequence.Set(float64(out.Sequence))
	if out.Pools != nil {
		gauges := render(families, func(add add) { collect(out, add) })
		e.mu.Lock()
		defer e.mu.Unlock()
		e.gauges, e.decided = gauges, decided
	}
}

func (e *Exporter) decisions(action alerting.Action) *metrics.Counter {
	return e.counter(`forewarm_decisions_total{action="`+string(action)+`"}`, "Decisions made, one for each pool and tick.")
}

// Refused counts the records that could not be used; reason is one of ingest.Reasons.
func (e *Exporter) Refused(reason ingest.Reason) *metrics.Counter {
	return e.counter(`forewarm_ingest_refused_total{reason="`+string(reason)+`"}`,
		"Telemetry records refused, by reason. A message that is refused as a whole counts as one.")
}

// CountCall adds a finished call at a gRPC listener; all three values are from small fixed sets.
func (e *Exporter) CountCall(service, method, code string) {
	e.counter("forewarm_rpc_calls_total{service="+strconv.Quote(service)+",method="+strconv.Quote(method)+",code="+strconv.Quote(code)+"}",
		"Calls that autoscalers made, by their outcome.").Inc()
}

// Gauge exposes what f returns; name may carry labels. A name is registered once.
func (e *Exporter) Gauge(name, help string, f func() float64) {
	e.describe(name, help)
	e.set.NewGauge(name, f)
}

// Flag exposes a gauge that is 1 if f returns true, and else 0.
func (e *Exporter) Flag(name, help string, f func() bool) {
	e.Gauge(name, help, func() float64 { return boolean(f()) })
}

// Histogram exposes a histogram of observed values; buckets are upper bounds.
func (e *Exporter) Histogram(name, help string, buckets []float64) (observe func(float64)) {
	e.describe(name, help)
	return e.set.GetOrCreatePrometheusHistogramExt(name, buckets).Update
}

// Counter exposes a counter that f returns; name ends in _total and may have labels.
func (e *Exporter) Counter(name, help string, f func() uint64) {
	e.describe(name, help)
	e.set.RegisterMetricsWriter(func(w io.Writer) { metrics.WriteCounterUint64(w, name, f()) })
}

// WritePrometheus writes everything in the text exposition format.
func (e *Exporter) WritePrometheus(w io.Writer) {
	e.mu.Lock()
	gauges := e.gauges
	if time.Since(e.decided) > StaleAfter {
		gauges = nil
	}
	e.mu.Unlock()

	var own bytes.Buffer
	e.set.WritePrometheus(&own)
	metrics.WriteProcessMetrics(&own)
	_, _ = w.Write(e.describeAll(own.Bytes()))
	_, _ = w.Write(gauges)
}

func (e *Exporter) counter(name, help string) *metrics.Counter {
	e.describe(name, help)
	return e.set.GetOrCreateCounter(name)
}

func (e *Exporter) describe(name, help string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	family, _, _ := strings.Cut(name, "{")
	e.help[family] = help
}

// describeAll adds the help texts, which the metrics library leaves empty, and deletes repeated metadata of a family.
func (e *Exporter) describeAll(text []byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out bytes.Buffer
	seen := map[string]bool{}
	for line := range bytes.Lines(text) {
		s := string(line)
		if !strings.HasPrefix(s, "# ") {
			out.Write(line)
			continue
		}
		fields := strings.Fields(s) // # HELP name …
		kind, name := fields[1], fields[2]
		if seen[kind+name] {
			continue
		}
		seen[kind+name] = true
		if kind == "HELP" && len(fields) == 3 {
			help := cmp.Or(e.help[name], "Resource use of the process or the Go runtime.")
			s = "# HELP " + name + " " + help + "\n"
		}
		out.WriteString(s)
	}
	return out.Bytes()
}
