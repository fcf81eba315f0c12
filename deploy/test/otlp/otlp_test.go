// Package otlp receives the traces and metrics of a running daemon with the receiver of the OpenTelemetry collector.
package otlp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

const patience = time.Minute

// TestExport: a daemon's spans and all its metrics arrive, and later ones do after an outage of the collector.
func TestExport(t *testing.T) {
	address := freeAddress(t)
	c := startCollector(t, address)
	d := startDaemon(t, address)
	d.replay(t, "2024-01-01T00:00:00Z")
	d.fetch(t, "/api/v1/pools/chat/forecast")

	var tick span
	await(t, "a tick with a decision", func() bool {
		for _, s := range c.spans() {
			if s.Name() == "tick" && s.attribute("forewarm.decisions") == "1" && s.attribute("forewarm.events") != "[]" {
				tick = s
				return true
			}
		}
		return false
	})
	if at := tick.attribute("forewarm.tick"); !strings.HasPrefix(at, "2024-01-01T0") || tick.attribute("forewarm.pools") != "1" {
		t.Errorf("attributes of a tick: %v", tick.Attributes().AsRaw())
	}
	for _, want := range []string{"snapshot", "report", "GET /api/v1/pools/{pool}/forecast"} {
		await(t, "a span "+want, func() bool { return slices.ContainsFunc(c.spans(), func(s span) bool { return s.Name() == want }) })
	}
	for sink, code := range map[string]ptrace.StatusCode{"nats": ptrace.StatusCodeUnset, "webhook/broken": ptrace.StatusCodeError} {
		await(t, "a delivery to "+sink, func() bool {
			return slices.ContainsFunc(c.spans(), func(s span) bool {
				return s.Name() == "deliver" && s.attribute("forewarm.sink") == sink && s.Status().Code() == code && s.attribute("forewarm.notices") != "[]"
			})
		})
	}
	if slices.ContainsFunc(c.spans(), func(s span) bool {
		return strings.HasSuffix(s.Name(), "/metrics") || strings.HasSuffix(s.Name(), "/healthz")
	}) {
		t.Error("there are spans of probes or scrapes")
	}
	for _, s := range c.spans() {
		if s.service != "forewarm" || s.version == "" || s.instance == "" {
			t.Fatalf("a span of service %q, version %q, instance %q", s.service, s.version, s.instance)
		}
	}

	// When nothing changes any more, each metric has the same name and number of series.
	var diff string
	await(t, "all metrics", func() bool {
		diff = cmp.Diff(d.metrics(t), c.newest(t))
		return diff == ""
	}, &diff)

	c.stop()
	d.replay(t, "2024-01-01T03:00:00Z")
	await(t, "exports to fail", func() bool { return d.value(t, "forewarm_otlp_failures_total") > 5 })
	if n := strings.Count(d.log.String(), "do not reach the OpenTelemetry collector"); n != 1 {
		t.Errorf("the daemon logged the failure %d times, want once", n)
	}
	c = startCollector(t, address)
	d.replay(t, "2024-01-01T06:00:00Z")
	await(t, "ticks to arrive again", func() bool {
		return slices.ContainsFunc(c.spans(), func(s span) bool {
			return s.Name() == "tick" && strings.HasPrefix(s.attribute("forewarm.tick"), "2024-01-01T07")
		})
	})
	await(t, "metrics to arrive again", func() bool { return c.metrics.DataPointCount() > 0 })
}

// collector is the receiver, with what it received.
type collector struct {
	traces  *consumertest.TracesSink
	metrics *consumertest.MetricsSink
	stop    func()
}

func startCollector(t *testing.T, address string) *collector {
	t.Helper()
	c := &collector{traces: new(consumertest.TracesSink), metrics: new(consumertest.MetricsSink)}
	factory := otlpreceiver.NewFactory()
	cfg, settings := factory.CreateDefaultConfig(), receivertest.NewNopSettings(otlpreceiver.NewFactory().Type())
	text := map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}}
	if err := confmap.NewFromStringMap(text).Unmarshal(cfg); err != nil {
		t.Fatal(err)
	}
	traces, err := factory.CreateTraces(t.Context(), settings, cfg, c.traces)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := factory.CreateMetrics(t.Context(), settings, cfg, c.metrics)
	if err != nil {
		t.Fatal(err)
	}
	if err := traces.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	if err := metrics.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	c.stop = sync.OnceFunc(func() {
		for _, stop := range []func(context.Context) error{traces.Shutdown, metrics.Shutdown} {
			if err := stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(c.stop)
	return c
}

// span is a received span with its resource.
type span struct {
	ptrace.Span
	service, version, instance string
}

func (s span) attribute(name string) string {
	v, _ := s.Attributes().Get(name)
	return v.AsString()
}

func (c *collector) spans() (all []span) {
	for _, batch := range c.traces.AllTraces() {
		for _, r := range batch.ResourceSpans().All() {
			of := func(key string) string {
				v, _ := r.Resource().Attributes().Get(key)
				return v.AsString()
			}
			for _, scope := range r.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					all = append(all, span{s, of("service.name"), of("service.version"), of("service.instance.id")})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b span) int { return int(int64(a.StartTimestamp()) - int64(b.StartTimestamp())) })
	return all
}

// newest returns the type and the number of points of each metric in the newest export.
func (c *collector) newest(t *testing.T) map[string]string {
	t.Helper()
	all := c.metrics.AllMetrics()
	if len(all) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, r := range all[len(all)-1].ResourceMetrics().All() {
		for _, scope := range r.ScopeMetrics().All() {
			for _, m := range scope.Metrics().All() {
				switch m.Type() {
				case pmetric.MetricTypeGauge:
					out[m.Name()] = fmt.Sprint("gauge ", m.Gauge().DataPoints().Len())
				case pmetric.MetricTypeSum:
					out[m.Name()] = fmt.Sprint("counter ", m.Sum().DataPoints().Len())
				case pmetric.MetricTypeHistogram:
					out[m.Name()] = fmt.Sprint("histogram ", m.Histogram().DataPoints().Len())
				case pmetric.MetricTypeSummary:
					out[m.Name()] = fmt.Sprint("summary ", m.Summary().DataPoints().Len())
				default:
					t.Errorf("%s is a %s", m.Name(), m.Type())
				}
			}
		}
	}
	return out
}

// daemon is a Forewarm process.
type daemon struct {
	program, nats, http string
	log                 lockedBuffer
}

func startDaemon(t *testing.T, collector string) *daemon {
	t.Helper()
	dir := t.TempDir()
	d := &daemon{program: filepath.Join(dir, "forewarm"), nats: freeAddress(t), http: freeAddress(t)}
	build := exec.Command("go", "build", "-o", d.program, "./cmd/forewarm")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "keys"), []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "forewarm.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `
clock: event
storage: {dir: %[1]s/data, snapshot_every: 1s}
server: {listen: %[2]q}
nats: {embedded: {listen: %[3]q}}
report: {schedule: '0 * * * *'}
sinks: {webhooks: [{name: broken, url: 'http://127.0.0.1:1/', secret_file: %[1]s/keys}]}
pools: [{name: chat, decode_tokens_per_s: 400, replicas: {min: 1, max: 9}}]
`, dir, d.http, d.nats), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(d.program, "serve", "-config", config)
	serve.Stderr = &d.log
	serve.Env = append(os.Environ(), "OTEL_METRIC_EXPORT_INTERVAL=1000", "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+collector)
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt)
		if err := serve.Wait(); err != nil || t.Failed() {
			t.Errorf("serve: %v\n%s", err, d.log.String())
		}
	})
	await(t, "the daemon to be alive", func() bool {
		_, err := d.get("/healthz")
		return err == nil
	})
	return d
}

// replay publishes two hours of load, and waits until they are counted.
func (d *daemon) replay(t *testing.T, start string) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace.csv")
	rows := bytes.NewBufferString("t_s,class,prompt_tokens,cached_tokens,output_tokens\n")
	for at := 0; at < 7200; at++ {
		fmt.Fprintf(rows, "%d,talk,500,0,%d\n", at, 900+at%200)
	}
	if err := os.WriteFile(trace, rows.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(d.program, "replay", "-nats", "nats://"+d.nats, "-pool", "chat", "-batch", "100", "-start", start, trace).CombinedOutput(); err != nil {
		t.Fatalf("replay: %v\n%s", err, out)
	}
	begin, err := time.Parse(time.RFC3339, start)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the telemetry to be counted", func() bool {
		return d.value(t, "forewarm_tick_timestamp_seconds") > float64(begin.Add(110*time.Minute).Unix())
	})
}

func (d *daemon) get(path string) ([]byte, error) {
	res, err := http.Get("http://" + d.http + path)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return body, err
}

func (d *daemon) fetch(t *testing.T, path string) []byte {
	t.Helper()
	body, err := d.get(path)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func (d *daemon) families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(d.fetch(t, "/metrics")))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// metrics returns the type and the number of series of each metric of /metrics.
func (d *daemon) metrics(t *testing.T) map[string]string {
	t.Helper()
	families := d.families(t)
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		kind := strings.ToLower(families[name].GetType().String())
		if kind == "untyped" {
			kind = "gauge"
		}
		out[name] = fmt.Sprint(kind, " ", len(families[name].GetMetric()))
	}
	return out
}

// value is that of a metric without labels.
func (d *daemon) value(t *testing.T, name string) float64 {
	t.Helper()
	for _, m := range d.families(t)[name].GetMetric() {
		return m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return 0
}

// lockedBuffer is a log that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// await waits until done. If that takes too long, the error has detail.
func await(t *testing.T, what string, done func() bool, detail ...*string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			for _, d := range detail {
				what += "\n" + *d
			}
			t.Fatalf("waited %s for %s", patience, what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ports are tried in this order, each once. They are below those that the system gives to clients.
var ports = rand.Perm(20_000)

// freeAddress returns a loopback address on which nothing listens, a different one each time.
func freeAddress(t *testing.T) string {
	t.Helper()
	for len(ports) > 0 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+ports[0])
		ports = ports[1:]
		if l, err := net.Listen("tcp", address); err == nil {
			defer l.Close()
			return address
		}
	}
	t.Fatal("no free port was found")
	return ""
}
