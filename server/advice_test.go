package server

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/pipeline"
)

func TestAdvise(t *testing.T) {
	decided := time.Now()
	tests := map[string]struct {
		change func(s *Status, v *PoolView) // changes a pool with valid advice
		pool   string                       // "" is chat
		role   string                       // "" is all
		after  time.Duration                // time since the decision
		want   string                       // part of the error; "" is advice
		code   int                          // status of the error; 0 is 503
	}{
		"valid":                   {},
		"just before it expires":  {after: 15 * time.Minute},
		"advisory":                {change: func(_ *Status, v *PoolView) { v.Decision.Mode = alerting.Advisory }, want: "advisory: it would ask for 8 replicas"},
		"stale":                   {change: func(_ *Status, v *PoolView) { v.Decision.Withheld = "its telemetry is stale" }, want: "stale"},
		"cold":                    {change: func(_ *Status, v *PoolView) { v.Decision.Withheld = "less than 5 min of its traffic is known" }, want: "less than 5 min"},
		"undecided":               {change: func(_ *Status, v *PoolView) { v.Decision = nil }, want: "nothing is decided"},
		"no new ticks":            {after: 15*time.Minute + time.Second, want: "15m1s old and expired after 15m0s"},
		"behind its stream":       {change: func(s *Status, _ *PoolView) { s.Behind = time.Hour }, want: "1h0m0s old and expired after 15m0s"},
		"unknown pool":            {pool: "chatt", want: "/api/v1/pools lists batch, chat", code: http.StatusNotFound},
		"no pool":                 {pool: "", change: func(_ *Status, v *PoolView) { v.Pool = "gone" }, want: "/api/v1/pools lists batch, gone", code: http.StatusNotFound},
		"decode, but one role":    {role: RoleDecode, want: `no role "decode" of pool "chat": the roles are all`, code: http.StatusBadRequest},
		"prefill":                 {change: disaggregate, role: RolePrefill},
		"decode":                  {change: disaggregate, role: RoleDecode},
		"unknown role, undecided": {change: func(_ *Status, v *PoolView) { v.Decision = nil }, role: "decoder", want: "the roles are all, decode, prefill", code: http.StatusBadRequest},
		"unknown role":            {role: "decoder", want: `no role "decoder"`, code: http.StatusBadRequest},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := fullReader()
			v := &r.pools[1]
			r.status.TickedAt, v.Decision.Mode = decided, alerting.Active
			if tt.change != nil {
				tt.change(&r.status, v)
			}
			pool, role := cmp.Or(tt.pool, "chat"), cmp.Or(tt.role, RoleAll)
			replicas, view, err := Advise(r, pool, role, decided.Add(tt.after))
			if tt.want == "" {
				want := 8
				if role == RolePrefill {
					want = 3
				}
				if err != nil || replicas != want || view != v {
					t.Errorf("%d, %v", replicas, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if p, _ := errors.AsType[*Problem](err); p.Status != cmp.Or(tt.code, http.StatusServiceUnavailable) {
				t.Errorf("status %d, want %d", p.Status, tt.code)
			}
		})
	}
}

// TestDesired reads advice from the API.
func TestDesired(t *testing.T) {
	r := fullReader()
	r.pools[1].Decision.Mode = alerting.Active
	s := newTestServer(r)
	for query, want := range map[string]struct {
		code int
		body string
	}{
		"/api/v1/pools/chat/desired":            {http.StatusOK, `"desired_replicas": 8`},
		"/api/v1/pools/batch/desired":           {http.StatusServiceUnavailable, "its telemetry is stale"},
		"/api/v1/pools/chat/desired?role=cache": {http.StatusBadRequest, "the roles are all"},
		"/api/v1/pools/none/desired":            {http.StatusNotFound, "/api/v1/pools lists batch, chat"},
	} {
		w := get(t, s, query)
		body := strings.ReplaceAll(w.Body.String(), `\"`, `"`)
		if w.Code != want.code || !strings.Contains(body, want.body) {
			t.Errorf("%s: %d %s, want %d with %q", query, w.Code, body, want.code, want.body)
		}
		if w.Code != http.StatusOK && strings.Contains(body, "desired_replicas") {
			t.Errorf("%s: an error with a number of replicas: %s", query, body)
		}
	}
}

func disaggregate(_ *Status, v *PoolView) { v.Decision.ByRole = &alerting.Roles{Prefill: 3, Decode: 8} }

// TestRolesAreExported: a disaggregated pool has the replicas of each role, another pool only those of role all.
func TestRolesAreExported(t *testing.T) {
	out := fullOutput()
	prefilling(out)
	text := string(gauges(out))
	for line, want := range map[string]bool{
		`forewarm_desired_replicas{pool="chat",role="all"} 8`: true, `forewarm_desired_replicas{pool="chat",role="decode"} 8`: true,
		`forewarm_desired_replicas{pool="chat",role="prefill"} 3`: true, `forewarm_desired_replicas{pool="batch",role="prefill"}`: false,
		`forewarm_needed_replicas{pool="chat",role="prefill"} 5`: true, `forewarm_needed_replicas{pool="batch",role="prefill"}`: false,
		`forewarm_limit_replicas{pool="chat",role="prefill"} 4`: true, `forewarm_warning_probability{pool="chat",resource="transfer"} 0.7`: true,
		`forewarm_headroom_after_failure_ratio{pool="chat",resource="transfer"} -0.8`:         true,
		`forewarm_saturation_eta_seconds{pool="chat",resource="transfer",quantile="0.5"} 300`: true,
		`forewarm_binding_resource{pool="chat",resource="transfer"}`:                          false, // the alert is about the decode replicas
	} {
		if strings.Contains(text, line) != want {
			t.Errorf("%s is in the gauges: %t, want %t", line, !want, want)
		}
	}
}

// prefilling gives the fixture's first pool two ready prefill replicas, of which one is a reserve, and one that starts.
func prefilling(out *pipeline.Output) {
	d, soon := out.Pools[1].Decision, forecaster.ETA{P50: 5 * time.Minute}
	d.ByRole = &alerting.Roles{Prefill: 3, Decode: 8, PrefillReady: 2, PrefillPending: 1, PrefillNeeded: 5, PrefillLimit: 4, PrefillReserves: capacity.Reserves{Failure: 1}}
	d.Prompts = []alerting.ResourceEvidence{{Dimension: "transfer", Ahead: .7, ETA: soon}}
	p := *out.Pools[1].Projection
	p.Supply, p.Reserve, p.Prompts = forecaster.Supply{Ready: 2}, 1, nil
	p.Resources = []forecaster.ResourceProjection{{Dimension: "transfer", PerReplica: 7000, Demand: 6000, Utilisation: .429, ETA: soon, AfterFailure: &forecaster.Span{P10: -.9, P50: -.8, P90: -.7}}}
	out.Pools[1].Projection.Prompts = &p
}

// TestPrefillOnThePage: page and API show the prefill replicas and their load.
func TestPrefillOnThePage(t *testing.T) {
	b, out := &Board{}, fullOutput()
	prefilling(out)
	b.Observe(out)
	s := newTestServer(fixedReader{pools: b.Pools()})
	for path, wants := range map[string][]string{
		"/pools/chat":        {`2 ready, 1 starting, 3 asked for`, `<dt>prefill replicas in reserve</dt><dd>1 for failures</dd>`, `<data value="0.429">43 %</data>`, "86 %"},
		"/api/v1/pools/chat": {`"prefill_needed": 5`, `"resource": "transfer"`, `"prefill_reserves": {`},
	} {
		body := get(t, s, path).Body.String()
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s has no %s:\n%s", path, want, body)
			}
		}
	}
}
