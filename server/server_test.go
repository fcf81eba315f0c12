package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/testenv"
)

func newTestServer(r Reader) *Server {
	return newServer(DefaultConfig(), r, NewExporter("v1.2.3"))
}

// newServer makes a server whose history has only the newest alert. It has no reports and no traffic.
func newServer(cfg Config, r Reader, m *Exporter) *Server {
	s := New(cfg, r, m, zap.NewNop())
	s.History = noHistory{}
	s.Explain = func(context.Context, string) (alerting.Explanation, error) {
		return alerting.Explanation{}, Problemf(http.StatusNotFound, "no such decision")
	}
	s.Plan = func(context.Context, url.Values) (*plan.Sheet, error) {
		return nil, Problemf(http.StatusNotFound, "there is no traffic to plan from")
	}
	return s
}

type noHistory struct{}

func (noHistory) Values(context.Context, string, map[string]string, time.Time, time.Time) ([]float64, error) {
	return nil, nil
}

func (noHistory) Forecast(context.Context, features.Key, string, time.Time, time.Time) (*forecaster.Forecast, error) {
	return nil, nil
}

func (noHistory) PoolDecisions(context.Context, string, time.Time, time.Time) ([]alerting.Decision, error) {
	return nil, nil
}

func (noHistory) Alerts(context.Context, string) ([]alerting.Alert, error) {
	return fullOutput().Alerts[:1], nil
}

func get(t *testing.T, s *Server, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
	return w
}

func TestGoldens(t *testing.T) {
	s := newTestServer(fullReader())
	for path, file := range map[string]string{
		"/api/v1/status":                      "status.json",
		"/api/v1/pools":                       "pools.json",
		"/api/v1/pools/chat":                  "pool.json",
		"/api/v1/pools/nope":                  "unknown_pool.json",
		"/readyz":                             "readyz.json",
		"/api/v1/pools/chat/forecast?class=*": "forecast.json",
		"/api/v1/explain?pool=chat&dimension=requests": "explain.json",
		"/api/v1/explain?pool=chat&class=nope":         "unknown_explanation.json",
		"/api/v1/explain?pool=nope":                    "unknown_pool.json",
	} {
		w := get(t, s, path)
		want := http.StatusOK
		if strings.HasPrefix(file, "unknown") {
			want = http.StatusNotFound
		}
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: not JSON: %s", path, w.Body)
		}
		golden(t, file, w.Body.Bytes())
	}
}

// TestPageShowsTroubleAndEscapes: the page says that NATS is disconnected, and what to do without pools. It escapes
// names.
func TestPageShowsTroubleAndEscapes(t *testing.T) {
	r := fullReader()
	r.status.Connected, r.status.Connection = false, "connection refused"
	r.pools[0].Pool = "<script>alert(1)</script>"
	body := get(t, newTestServer(r), "/").Body.String()
	if strings.Contains(body, "<script>") {
		t.Error("the name of a pool is not escaped")
	}
	if !strings.Contains(body, "connection refused") {
		t.Error("the page does not say that NATS is disconnected")
	}
	empty := get(t, newTestServer(fixedReader{status: Status{Tick: time.Unix(1, 0)}}), "/").Body.String()
	if !strings.Contains(empty, "forewarm publish -config FILE -pool POOL") {
		t.Error("an empty page does not say what to do")
	}
}

func TestReadiness(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Status)
		ready   bool
		failing string
	}{
		"healthy":         {func(*Status) {}, true, ""},
		"no connection":   {func(s *Status) { s.Connected = false }, false, "nats"},
		"lag not known":   {func(s *Status) { s.Lag = nil }, false, "lag"},
		"lag at limit":    {func(s *Status) { s.Lag = new(uint64(lagLimit)) }, true, ""},
		"lag over limit":  {func(s *Status) { s.Lag = new(uint64(lagLimit + 1)) }, false, "lag"},
		"restoring":       {func(s *Status) { s.Restored = false }, false, "restore"},
		"before any tick": {func(s *Status) { s.Tick = time.Time{} }, true, ""},
		"degraded":        {func(s *Status) { s.Storage, s.Sinks, s.Scrape, s.Config = "disk full", "unreachable", "404", "line 2" }, true, ""},
	} {
		r := fullReader()
		c.change(&r.status)
		w := get(t, newTestServer(r), "/readyz")
		var got readiness
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		probe := httptest.NewRecorder()
		newTestServer(r).probeReady(probe, nil)
		if probe.Code != w.Code || probe.Body.String() != fmt.Sprintf("ready: %t\n", c.ready) {
			t.Errorf("%s: a probe gets %d %s", name, probe.Code, probe.Body)
		}
		if got.Ready != c.ready || (w.Code == http.StatusOK) != c.ready {
			t.Errorf("%s: ready %v with status %d, want %v", name, got.Ready, w.Code, c.ready)
		}
		for _, check := range got.Checks {
			if check.OK == (check.Name == c.failing) {
				t.Errorf("%s: check %s is %v", name, check.Name, check.OK)
			}
			if check.Name == "pools" && !check.Degraded { // the fixture has a stale pool
				t.Errorf("%s: pools are not marked degraded: %s", name, check.Detail)
			}
			trouble := map[string]string{
				"storage": r.status.Storage, "sinks": r.status.Sinks, "scrape": r.status.Scrape, "config": r.status.Config,
			}[check.Name]
			if check.Name != "pools" &&
				(check.Degraded != (trouble != "") || !strings.Contains(check.Detail, trouble)) {
				t.Errorf("%s: check %s is degraded: %v, %s", name, check.Name, check.Degraded, check.Detail)
			}
		}
	}
}

// TestUnknownParameters: a misspelt parameter of the API is refused with the names of the accepted ones. Other paths,
// such as PromQL's, accept any.
func TestUnknownParameters(t *testing.T) {
	s := newTestServer(fullReader())
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	s.Handle("GET /api/v1/plan", ok)
	s.Handle("GET /api/v1/query", ok)
	for path, want := range map[string]string{
		"/api/v1/pools/chat/forecast?clas=*": `unknown parameter "clas": the parameters are class`,
		"/api/v1/status?pool=chat":           `unknown parameter "pool": this path has no parameters`,
		"/api/v1/openapi.json?v=1":           `unknown parameter "v"`,
		"/api/v1/plan?pool=chat&lunch=2":     `unknown parameter "lunch": the parameters are pool, launch`,
		"/api/v1/explain?pool=chat;class=*":  "the query is not well formed",
		"/api/v1/explain?pool=chat&class=*":  "",
		"/api/v1/plan?launch=2":              "",
		"/api/v1/query?query=up&from=me":     "",
		"/?from=me":                          "",
	} {
		w := get(t, s, path)
		body := strings.ReplaceAll(w.Body.String(), `\"`, `"`)
		if (w.Code == http.StatusBadRequest) != (want != "") || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %q", path, w.Code, body, want)
		}
	}
}

func TestReadOnly(t *testing.T) {
	s := newTestServer(fullReader())
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/api/v1/pools"} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader("x")))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: status %d, want 405", path, w.Code)
		}
	}
	if w := get(t, s, "/elsewhere"); w.Code != http.StatusNotFound {
		t.Errorf("unknown path: status %d, want 404", w.Code)
	}
	if csp := get(t, s, "/").Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy %q allows other sources", csp)
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	s := newServer(cfg, fullReader(), NewExporter("v1"))
	l := must(s.Listen())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l) }()
	if _, body := testenv.Get("http://" + l.Addr().String() + "/healthz"); body != "ok\n" {
		t.Errorf("healthz answers %q", body)
	}
	taken := cfg
	taken.Listen = l.Addr().String()
	if _, err := New(taken, nil, nil, zap.NewNop()).Listen(); err == nil || !strings.Contains(err.Error(), "server.listen") {
		t.Errorf("a taken port: %v, want an error that names server.listen", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("still listening after Run returned")
	}
}

func TestConfigCheck(t *testing.T) {
	for listen, ok := range map[string]bool{
		"127.0.0.1:9464": true, ":0": true, "[::1]:9464": true, "localhost:http": false, "127.0.0.1": false, "127.0.0.1:99999": false, "": false,
	} {
		c := DefaultConfig()
		c.Listen, c.Open = listen, true
		if err := c.Check(); (err == nil) != ok {
			t.Errorf("listen %q: %v", listen, err)
		}
	}
}

// silentLog is a history whose log is on a NATS server that does not answer.
type silentLog struct{ noHistory }

func (silentLog) PoolDecisions(context.Context, string, time.Time, time.Time) ([]alerting.Decision, error) {
	return nil, context.DeadlineExceeded
}

// TestSilentNATS: in an outage of NATS the timeline says so, and that it is no fault of the daemon.
func TestSilentNATS(t *testing.T) {
	r := fullReader()
	s := newTestServer(r)
	s.History = silentLog{}
	w := get(t, s, "/api/v1/pools/"+r.pools[0].Pool+"/timeline")
	if body := w.Body.String(); w.Code != http.StatusServiceUnavailable || !strings.Contains(body, "NATS did not answer") {
		t.Errorf("%d %s", w.Code, body)
	}
}

// TestForeignHosts: requests with a foreign host name are refused and counted, also if it resolves to this machine (DNS
// rebinding). Configured names are accepted.
func TestForeignHosts(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Hosts = []string{"forewarm.example"}
	s := newServer(cfg, fullReader(), nil)
	for host, want := range map[string]int{"localhost:9464": 200, "127.0.0.1": 200, "[::1]:9464": 200, "forewarm.example": 200, "Forewarm.Example:80": 200, "evil.example:9464": 403} {
		r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
	if s.Foreign.Load() != 1 {
		t.Errorf("%d requests are counted, want 1", s.Foreign.Load())
	}
}

// TestOldTick: on the wall clock, a daemon without a tick for some minutes is not ready.
func TestOldTick(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		status Status
		want   bool
	}{
		"just started": {Status{Clock: "wall", Began: now.Add(-time.Minute)}, true},
		"never a tick": {Status{Clock: "wall", Began: now.Add(-4 * time.Minute)}, false},
		"a new tick":   {Status{Clock: "wall", Began: now.Add(-time.Hour), TickedAt: now.Add(-time.Minute)}, true},
		"an old tick":  {Status{Clock: "wall", Began: now.Add(-time.Hour), TickedAt: now.Add(-4 * time.Minute)}, false},
		"event clock":  {Status{Clock: "event", Began: now.Add(-time.Hour)}, true},
	} {
		if c := tickCheck(tc.status, now); c.OK != tc.want {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestAuthentication: a server on the network needs authentication, or the word that it is open.
func TestAuthentication(t *testing.T) {
	open := DefaultConfig()
	open.Listen = "0.0.0.0:9464"
	if err := open.Check(); err == nil || !strings.Contains(err.Error(), "asks for no credentials") {
		t.Errorf("open to the network: %v", err)
	}
	open.Open = true
	if err := open.Check(); err != nil {
		t.Error(err)
	}
}

// TestWebConfig: with a web configuration file of Prometheus, users need a password. Probes need none, and their
// answers have no details.
func TestWebConfig(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Listen, cfg.Probes, cfg.WebConfig = "127.0.0.1:0", "127.0.0.1:0", filepath.Join(t.TempDir(), "web.yaml")
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err == nil {
		err = os.WriteFile(cfg.WebConfig, []byte("basic_auth_users: {ann: '"+string(hash)+"'}\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(cfg, fullReader(), NewExporter("v1"))
	l := must(s.Listen())
	probes := must(s.ListenProbes())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- s.Run(ctx, l) }()
	go func() { done <- s.RunProbes(ctx, probes) }()
	for path, want := range map[string]string{"/healthz": "200 ok\n", "/readyz": "200 ready: true\n", "/metrics": "404 404 page not found\n"} {
		if code, body := testenv.Get("http://" + probes.Addr().String() + path); fmt.Sprint(code, " ", body) != want {
			t.Errorf("%s: %d %q, want %q", path, code, body, want)
		}
	}
	for password, want := range map[string]int{"secret": 200, "wrong": 401} {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+"/api/v1/pools", nil)
		r.SetBasicAuth("ann", password)
		response := must(http.DefaultClient.Do(r))
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("password %s: %d", password, response.StatusCode)
		}
	}
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	s.cfg.WebConfig += ".gone"
	if _, err := s.Listen(); err == nil || !strings.Contains(err.Error(), "server.web_config") {
		t.Errorf("a missing file: %v", err)
	}
}

// A minute without a ready replica is the worst one, though its headroom is no number.
func TestWorstMinute(t *testing.T) {
	f := ramp("chat", features.TotalClass, features.DimKV, 400_000)
	r := &forecaster.ResourceProjection{PerReplica: 100_000}
	soon := &forecaster.Projection{Lead: 10 * time.Minute, Supply: forecaster.Supply{Pending: []time.Time{origin}}}
	if w := worst(r, soon, &f, 1); w == nil || w.P10.Known() || !w.At.Equal(origin) {
		t.Errorf("no replica for ten minutes: %+v", w)
	}
	if w := worst(r, &forecaster.Projection{Supply: forecaster.Supply{Ready: 5}}, &f, 1); w == nil || !w.P10.Known() {
		t.Errorf("five replicas: %+v", w)
	}
}
