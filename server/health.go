package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/pipeline"
)

// Check is one condition of being ready.
type Check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Degraded bool   `json:"degraded,omitempty"` // ready, but with a problem; see the detail
	Detail   string `json:"detail"`
}

type readiness struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
}

// healthz answers that the process is alive. It needs nothing else: an outage of NATS must not restart all daemons.
func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	code, r := s.readiness()
	_ = writeJSON(w, "application/json", code, r) // it can be encoded
}

// probeReady answers without reasons, which are not public.
func (s *Server) probeReady(w http.ResponseWriter, _ *http.Request) {
	code, r := s.readiness()
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, "ready: %t\n", r.Ready)
}

func (s *Server) readiness() (code int, r readiness) {
	r.Checks = checks(s.reader.Status(), s.reader.Pools(), time.Now())
	r.Ready = !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.OK })
	if !r.Ready {
		return http.StatusServiceUnavailable, r
	}
	return http.StatusOK, r
}

// Limits beyond which the daemon is not ready.
const (
	lagLimit  = 10_000          // messages that are not read yet
	tickLimit = 3 * time.Minute // age of the newest tick by the wall clock; ticks come each minute
)

func checks(st Status, pools []PoolView, now time.Time) []Check {
	lag := Check{Name: "lag", Detail: "not known yet"}
	if st.Lag != nil {
		lag.OK = *st.Lag <= lagLimit
		lag.Detail = fmt.Sprintf("%d messages behind the stream, limit %d", *st.Lag, lagLimit)
	}
	return []Check{
		troubleCheck("config", "the newest that was read is in use", st.Config),
		{Name: "nats", OK: st.Connected, Detail: st.Connection},
		{Name: "restore", OK: st.Restored, Detail: st.Restore},
		lag,
		tickCheck(st, now),
		troubleCheck("stream", "as it should be", st.Stream),
		poolsCheck(st, pools),
		troubleCheck("telemetry", "none refused", st.Refused),
		troubleCheck("scrape", "no target of scrape.jobs fails", st.Scrape),
		troubleCheck("storage", "written", st.Storage),
		troubleCheck("sinks", "delivering", st.Sinks),
	}
}

func tickCheck(st Status, now time.Time) Check {
	if st.Clock != pipeline.WallClock {
		return Check{Name: "tick", OK: true, Detail: "comes as telemetry does"}
	}
	since := st.TickedAt
	if since.IsZero() {
		since = st.Began
	}
	if age := now.Sub(since).Round(time.Second); age > tickLimit {
		detail := fmt.Sprintf("no tick for %s, and one is due each minute: see the other checks and the log for what keeps it", age)
		return Check{Name: "tick", Detail: detail}
	}
	return Check{Name: "tick", OK: true, Detail: "one each minute"}
}

// troubleCheck never makes the daemon unready: decisions continue in memory and to the other sinks.
func troubleCheck(name, fine, trouble string) Check {
	if trouble == "" {
		return Check{Name: name, OK: true, Detail: fine}
	}
	return Check{Name: name, OK: true, Degraded: true, Detail: trouble}
}

// poolsCheck never makes the daemon unready: cold and stale pools safely hold their replicas.
func poolsCheck(st Status, pools []PoolView) Check {
	switch {
	case len(pools) == 0 && st.Tick.IsZero():
		return troubleCheck("pools", "", "no tick yet, nothing is decided")
	case len(pools) == 0:
		return troubleCheck("pools", "", "no telemetry of any pool had been counted by the last tick, at "+st.Tick.UTC().Format("15:04 MST"))
	}
	var missing, stale, cold, trouble []string
	for _, name := range st.Configured {
		if !slices.ContainsFunc(pools, func(v PoolView) bool { return v.Pool == name }) {
			missing = append(missing, name)
		}
	}
	for i := range pools {
		switch p := &pools[i]; {
		case p.Forecast.Stale:
			stale = append(stale, p.Pool)
		case p.Projection == nil || p.Projection.Confidence == forecaster.Cold:
			cold = append(cold, p.Pool)
		}
	}
	for _, x := range []struct {
		what  string
		pools []string
	}{{"no telemetry yet", missing}, {"no current telemetry", stale}, {"less than an hour of history", cold}} {
		if x.pools != nil {
			trouble = append(trouble, x.what+" of "+some(x.pools)+": no replica is removed there")
		}
	}
	return troubleCheck("pools", "warm", strings.Join(trouble, "; "))
}

// some names up to eight of the names, and how many more there are.
func some(names []string) string {
	const most = 8
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
