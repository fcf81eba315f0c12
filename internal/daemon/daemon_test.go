package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/server"
)

// inProcess is a daemon in the process of the test, so that the race detector sees it, and a NATS client.
type inProcess struct {
	*Daemon
	data string // directory
	conn *nats.Conn
	base string // URL of its HTTP server
	stop func()
}

// startDaemon runs a daemon with these lines of configuration until the test ends. It adds a directory, addresses, and
// a logger that logs nothing.
func startDaemon(t *testing.T, lines ...string) *inProcess {
	t.Helper()
	return startDaemonIn(t, t.TempDir(), lines...)
}

func startDaemonIn(t *testing.T, dir string, lines ...string) *inProcess {
	t.Helper()
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "nats:") }) {
		lines = append(lines, "nats: {embedded: {listen: '127.0.0.1:0'}}")
	}
	return runDaemon(t, must(newDaemon(t, dir, lines...)))
}

func runDaemon(t *testing.T, d *Daemon) *inProcess {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	conn := must(nats.Connect(d.NATSURL()))
	p := &inProcess{Daemon: d, data: d.cfg.Storage.Dir, conn: conn, base: "http://" + d.listener.Addr().String()}
	p.stop = func() {
		conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		p.stop = func() {}
	}
	t.Cleanup(func() { p.stop() })
	return p
}

// TestFailedOutput: a daemon whose HTTP server ends stops with its error.
func TestFailedOutput(t *testing.T) {
	d := must(newDaemon(t, t.TempDir(), "nats: {embedded: {listen: '127.0.0.1:0'}}", "default_pool: {replicas: {max: 2}}"))
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	testenv.Await(t, "the HTTP server to answer", func() bool {
		code, _ := testenv.Get("http://" + d.HTTPAddress() + "/healthz")
		return code == 200
	})
	if err := d.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || ctx.Err() != nil {
		t.Errorf("Run ended with %v, want the error of the server at once", err)
	}
}

// newDaemon creates a daemon with these lines of configuration. Its data is in dir. It adds an address of the server.
func newDaemon(t *testing.T, dir string, lines ...string) (*Daemon, error) {
	t.Helper()
	lines = append(slices.Clip(lines), "storage: {dir: "+filepath.Join(dir, "data")+"}")
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "server:") }) {
		lines = append(lines, "server: {listen: '127.0.0.1:0'}")
	}
	cfg := must(config.Load(testenv.WriteFile(t, filepath.Join(dir, "forewarm.yaml"), lines...)))
	return New(t.Context(), cfg, Options{Log: zap.NewNop()})
}

// publish sends a message as a gateway does. The headers are pairs of name and value.
func (p *inProcess) publish(t *testing.T, subject string, data []byte, headers ...string) {
	t.Helper()
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	for pair := range slices.Chunk(headers, 2) {
		m.Header.Set(pair[0], pair[1])
	}
	if err := p.conn.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
}

// publishMinute sends n requests that arrive evenly in a minute. The argument of is the pool and the class, as
// "chat.talk".
func (p *inProcess) publishMinute(t *testing.T, of string, at time.Time, n, prompt, output int) {
	t.Helper()
	for i := range n {
		p.publish(t, "forewarm.telemetry.request."+of, fmt.Appendf(nil, `{"arrived_at":%d,"prompt_tokens":%d,"output_tokens":%d}`,
			at.Add(time.Duration(i)*time.Minute/time.Duration(n)).UnixMilli(), prompt, output))
	}
}

// getJSON reads an answer of the daemon's HTTP server.
func (p *inProcess) getJSON(t *testing.T, path string, into any) (code int) {
	t.Helper()
	code, body := testenv.Get(p.base + path)
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("%s: %d, %v in %s", path, code, err, body)
	}
	return code
}

// settle waits until the stream has everything that was published, the daemon has applied it, and the log has the
// decisions.
func (p *inProcess) settle(t *testing.T) {
	t.Helper()
	sequence := testenv.StoredSequence(t, p.conn)
	testenv.Await(t, "the daemon to reach the end of the stream", func() bool {
		return p.Status().Sequence >= sequence
	})
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	if err := p.decisions.Await(ctx, p.decisions.Added()); err != nil {
		t.Fatal(err)
	}
}

// TestDaemon raises the traffic of a pool to its limit, with JSON over core NATS. It checks forecasts, events, alerts
// and HTTP answers.
func TestDaemon(t *testing.T) {
	t.Parallel()
	alertmanager := testenv.StartAlertmanager(t, silent).URL
	dir, config := t.TempDir(), []string{
		"clock: event",
		"features: {lateness: 0s}",
		"sinks: {alertmanager: {urls: ['" + alertmanager + "']}}",
		"pools:",
		"  - {name: chat, decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 4}}",
	}
	p := startDaemonIn(t, dir, config...)
	forecasts := testenv.Subscribe(t, p.conn, "forewarm.forecast.>")
	events := testenv.Subscribe(t, p.conn, "forewarm.prescale.chat")

	const minutes = 120
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	random := rand.New(rand.NewPCG(3, 3))
	requests := 0
	for minute := range minutes {
		perMinute := 12 + max(0, minute-60)*4 // doubles in three minutes, and grows further
		for i := range perMinute {
			at := start.Add(time.Duration(minute)*time.Minute + time.Duration(i)*time.Minute/time.Duration(perMinute))
			class := []string{"talk", "code"}[i%2]
			requests++
			p.publish(t, "forewarm.telemetry.request.chat."+class, fmt.Appendf(nil,
				`{"id":"r%d","arrived_at":%q,"prompt_tokens":%d,"output_tokens":%d}`, requests, at.Format(time.RFC3339Nano), 500+random.IntN(500), 200+random.IntN(200)))
		}
		if minute%10 == 9 {
			p.settle(t)
		}
	}
	last := start.Add((minutes - 1) * time.Minute) // the last minute has not ended

	t.Run("forecasts", func(t *testing.T) { checkForecasts(t, forecasts, start, last) })
	t.Run("events", func(t *testing.T) { checkEvents(t, events) })
	t.Run("http", func(t *testing.T) { checkHTTP(t, p, requests) })
	t.Run("alertmanager", func(t *testing.T) { checkAlerts(t, alertmanager) })
}

// checkForecasts checks that there is a forecast of each class and of the pool in every minute, after the first
// minutes.
func checkForecasts(t *testing.T, s *nats.Subscription, start, last time.Time) {
	origins := map[string][]time.Time{}
	for m := range testenv.Messages(s) {
		f := parse[server.ClassForecast](t, m.Data)
		if want := ingest.Subject("forewarm", ingest.ForecastSubject, f.Pool, f.Class); m.Subject != want {
			t.Fatalf("a forecast of %s is on %s", want, m.Subject)
		}
		for _, d := range []string{"requests", "prefill", "decode", "kv"} {
			if q := f.Dimensions[d]; len(q.Values) != len(f.Minutes) || len(q.Values[0]) != len(f.Quantiles) || len(q.Max15To30) != len(f.Quantiles) {
				t.Fatalf("%s at %s: %s has %v", f.Class, f.Origin, d, q)
			}
		}
		origins[f.Class] = append(origins[f.Class], f.Origin)
	}
	var want []time.Time
	for at := start.Add(3 * time.Minute); !at.After(last); at = at.Add(time.Minute) {
		want = append(want, at)
	}
	for _, class := range []string{"*", "talk", "code"} {
		if diff := cmp.Diff(want, origins[class]); diff != "" {
			t.Errorf("origins of the forecasts for %s (-want +got):\n%s", class, diff)
		}
	}
}

func checkEvents(t *testing.T, s *nats.Subscription) {
	generation, most := int64(0), 0
	for m := range testenv.Messages(s) {
		e := parse[alerting.Event](t, m.Data)
		if e.SpecVersion != "1.0" || e.Type != alerting.EventType || e.Subject != "chat" || e.Source == "" || e.Time.IsZero() ||
			e.ID != "chat-"+strconv.FormatInt(e.Data.Generation, 10) || m.Header.Get("ce-id") != "" || m.Header.Get("Nats-Msg-Id") != e.ID {
			t.Errorf("not a valid CloudEvent: %s, headers %v", m.Data, m.Header)
		}
		if e.Data.Generation <= generation {
			t.Errorf("generation %d came after %d", e.Data.Generation, generation)
		}
		if e.Data.Reason == "" || !e.Data.ExpiresAt.After(e.Data.IssuedAt) {
			t.Errorf("no reason or no expiry: %s", m.Data)
		}
		generation, most = e.Data.Generation, max(most, e.Data.DesiredReplicas)
	}
	if most != 4 {
		t.Errorf("at most %d replicas were asked for, want all 4", most)
	}
}

func checkHTTP(t *testing.T, p *inProcess, requests int) {
	for path, want := range map[string]string{
		"/healthz":                                  "ok\n",
		"/readyz":                                   `"ready": true`,
		"/metrics":                                  fmt.Sprintf("\nforewarm_ingest_records_total %d\n", requests),
		"/metrics?sinks":                            "\nforewarm_sink_queued{sink=\"nats\"} 0\n",
		"/metrics?bounds":                           "\nforewarm_dedup_forgotten_total 0\n",
		"/api/v1/pools":                             `"pool": "chat"`,
		"/api/v1/pools/chat":                        `"desired_replicas": 4`,
		"/api/v1/pools/chat/forecast?class=*":       `"decode"`,
		"/api/v1/status":                            `"stream_lag_messages": 0`,
		"/api/v1/report":                            "# Forewarm report",
		"/api/v1/plan?pool=chat&launch=2":           "<h1>Launch sheet of chat</h1>",
		"/api/v1/plan?format=json":                  `"name": "silent"`,
		"/api/v1/label/__name__/values":             `"forewarm_desired_replicas"`,
		"/api/v1/metadata?metric=forewarm_forecast": `"type":"gauge"`,
		"/api/v1/query?query=1%2B1&time=0":          `[0,"2"]`,
		"/":                                         "chat",
	} {
		if code, body := testenv.Get(p.base + path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d, no %q in\n%.600s", path, code, want, body)
		}
	}
	for _, path := range []string{"/", "/pools/chat", "/what-if"} {
		_, body := testenv.Get(p.base + path)
		page, links := must(url.Parse(p.base+path)), regexp.MustCompile(`href="([^"#]+)"`).FindAllStringSubmatch(body, -1)
		for _, m := range links {
			link := must(page.Parse(html.UnescapeString(m[1])))
			if link.Host != page.Host {
				continue // a runbook
			}
			if code, _ := testenv.Get(link.String()); code != http.StatusOK {
				t.Errorf("%s links to %s: %d", path, link, code)
			}
		}
		if len(links) < 5 {
			t.Errorf("%s has %d links:\n%s", path, len(links), body)
		}
	}
}

// checkAlerts reads the alerts of Alertmanager. Labels identify an alert, so they contain no numbers, which change.
func checkAlerts(t *testing.T, url string) {
	var alerts []struct {
		Labels, Annotations map[string]string
	}
	testenv.Await(t, "alerts at Alertmanager", func() bool {
		_, body := testenv.Get(url + "/api/v2/alerts")
		return json.Unmarshal([]byte(body), &alerts) == nil && len(alerts) > 0
	})
	for _, a := range alerts {
		for name, value := range a.Labels {
			if strings.ContainsAny(value, "0123456789") {
				t.Errorf("label %s is %q: numbers belong in annotations", name, value)
			}
		}
		if a.Labels["pool"] != "chat" || a.Labels["severity"] == "" || !strings.HasPrefix(a.Labels["alertname"], "Forewarm") || a.Annotations["summary"] == "" {
			t.Errorf("alert %v, annotations %v", a.Labels, a.Annotations)
		}
	}
}

// TestDaemonOnTheWallClock publishes the watermarks that the daemon's ticker writes in the next minutes. There is a
// decision for each.
func TestDaemonOnTheWallClock(t *testing.T) {
	t.Parallel()
	p := startDaemon(t, "features: {future_bound: 10m}", "pools: [{name: chat, decode_tokens_per_s: 400, replicas: {max: 4}}]")
	const minutes = 6
	var want, ticks []time.Time
	now := time.Now().UTC().Truncate(time.Minute).Add(time.Minute) // the daemon itself ends the minute before
	for m := range minutes {
		minute := now.Add(time.Duration(m) * time.Minute)
		want = append(want, minute)
		for i := range 10 {
			p.publish(t, "forewarm.telemetry.request.chat.talk", fmt.Appendf(nil,
				`{"id":"%d-%d","arrived_at":%d,"prompt_tokens":100,"output_tokens":100}`, m, i, minute.Add(-time.Second).UnixMilli()))
		}
		p.publish(t, "forewarm.telemetry.watermark._", fmt.Appendf(nil, `{"at":%d}`, minute.UnixMilli()))
	}
	p.settle(t)
	for _, d := range decisionsOf(t, p) {
		ticks = append(ticks, d.Tick)
	}
	if diff := cmp.Diff(want, ticks); diff != "" {
		t.Errorf("ticks with decisions (-want +got):\n%s", diff)
	}
	if records := testenv.Metric(t, p.base, "forewarm_ingest_records_total"); records != 10*minutes {
		t.Errorf("%g records were counted, want %d", records, 10*minutes)
	}
}

// TestDaemonDecidesAgainAfterACrash: a daemon stopped before a tick was in the log, and so nothing of the tick was
// delivered. The next one makes the same decisions and stores them. Decisions that are in the log are compared, and not
// delivered twice.
func TestDaemonDecidesAgainAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := []string{"clock: event", "features: {lateness: 0s}", "pools: [{name: a, replicas: {max: 4}}, {name: b, replicas: {max: 4}}]"}
	p := startDaemonIn(t, dir, config...)
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for seconds := 0; seconds < 250; seconds += 10 {
		for _, pool := range []string{"a", "b"} {
			p.publish(t, "forewarm.telemetry.request."+pool+".talk", fmt.Appendf(nil,
				`{"arrived_at":%d,"prompt_tokens":100,"output_tokens":10}`, start.Add(time.Duration(seconds)*time.Second).UnixMilli()))
		}
	}
	p.settle(t)
	testenv.Await(t, "the events of both pools to be delivered", func() bool { return p.dispatcher.Stats()[0].Sent == 2 })
	all := decisionsOf(t, p)
	if len(all) < 4 {
		t.Fatalf("%d decisions", len(all))
	}
	log := must(p.js.Stream(t.Context(), "FOREWARM_DECISIONS"))
	// After a crash there is no snapshot, and nothing of the last tick.
	for _, pool := range []string{"a", "b"} {
		m, err := log.GetLastMsgForSubject(t.Context(), ingest.Subject("forewarm", ingest.DecisionSubject, pool))
		if err == nil {
			err = log.DeleteMsg(t.Context(), m.Sequence)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p.stop()
	s := openOffline(t, p.data)
	if err := s.js.DeleteObjectStore(t.Context(), "FOREWARM_STATE"); err != nil {
		t.Fatal(err)
	}
	s.close()

	p = startDaemonIn(t, dir, config...)
	p.settle(t)
	if n := p.decisions.Counters(); n.Repeated != uint64(len(all)-2) || n.Stored != 2 || n.Divergent != 0 {
		t.Errorf("counters of the log %+v, want %d repeated and 2 stored decisions", n, len(all)-2)
	}
	if diff := cmp.Diff(all, decisionsOf(t, p)); diff != "" {
		t.Error(diff)
	}
	if n := p.dispatcher.Stats()[0].Sent; n > 0 {
		t.Errorf("%d notices were delivered again", n)
	}
}

// offline is the NATS server of a stopped daemon.
type offline struct {
	js    natsjs.JetStream
	close func()
}

func openOffline(t *testing.T, data string) offline {
	t.Helper()
	c := jetstream.DefaultConfig()
	c.Embedded.Listen, c.Embedded.StoreDir = "none", filepath.Join(data, "nats")
	server := must(jetstream.StartEmbedded(t.Context(), c, zap.NewNop()))
	conn := must(jetstream.Connect(c, server))
	return offline{must(natsjs.New(conn)), func() {
		conn.Close()
		server.Shutdown()
	}}
}

func decisionsOf(t *testing.T, p *inProcess) (all []alerting.Decision) {
	t.Helper()
	if err := p.Daemon.reader.Decisions(t.Context(), time.Time{}, time.Now().Add(time.Hour), func(d *alerting.Decision) error {
		all = append(all, *d)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// onePool is the shortest valid configuration.
const onePool = "pools: [{name: chat, replicas: {max: 4}}]"

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// parse reads JSON.
func parse[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}
