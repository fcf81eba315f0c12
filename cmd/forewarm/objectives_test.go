package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
)

// plantedTraffic is the telemetry of a pool's gateway and engines in one minute.
type plantedTraffic struct {
	pool      string
	calls     int                                            // evenly over the minute
	attempts  int                                            // of each call; all but the last fail
	failing   bool                                           // the last attempt fails too
	serve     func(call int) (prompt, output, ttft, itl int) // tokens, and milliseconds to the first and each further token
	replicas  int
	kv, queue float64 // of each replica
}

func (x plantedTraffic) publish(t *testing.T, p *daemonHere, at time.Time) {
	t.Helper()
	var b bytes.Buffer
	for i := range x.calls {
		prompt, output, ttft, itl := x.serve(i)
		for attempt := 1; attempt <= max(x.attempts, 1); attempt++ {
			status := "ok"
			if attempt < x.attempts || x.failing {
				status = "error"
			}
			arrived := at.Add(time.Duration(i)*time.Minute/time.Duration(x.calls) + time.Duration(attempt-1)*2*time.Second).UnixMilli()
			fmt.Fprintf(&b, `{"id":"%d-%d","attempt":%d,"status":%q,"arrived_at":%d,"started_at":%[5]d,"first_token_at":%d,"finished_at":%d,"prompt_tokens":%d,"cached_tokens":0,"output_tokens":%d}`+"\n",
				at.Unix(), i, attempt, status, arrived, arrived+int64(ttft), arrived+int64(ttft+(output-1)*itl), prompt, output)
		}
	}
	if err := p.conn.PublishMsg(&nats.Msg{Subject: "forewarm.telemetry.request." + x.pool + ".chat", Data: b.Bytes(), Header: nats.Header{"Content-Type": {"application/x-ndjson"}}}); err != nil {
		t.Fatal(err)
	}
	for r := range x.replicas {
		p.publish(t, fmt.Sprintf("forewarm.telemetry.replica.%s.r%d", x.pool, r), fmt.Appendf(nil,
			`{"at":%d,"state":"ready","kv_capacity_tokens":400000,"kv_used_ratio":%g,"running":4,"waiting":%g}`, at.Add(59*time.Second).UnixMilli(), x.kv, x.queue))
	}
}

// ask returns the daemon's answer as text, and decodes it as JSON into a value that is not nil.
func (p *daemonHere) ask(t *testing.T, path string, into any) string {
	t.Helper()
	response, err := http.Get(p.base + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, response.Status, err)
	}
	if into != nil {
		if err := json.Unmarshal(body, into); err != nil {
			t.Fatal(err)
		}
	}
	return string(body)
}

// poolAnswer is the part of /api/v1/pools/<pool> that these tests check.
type poolAnswer struct {
	Decision struct {
		Desired     int             `json:"desired_replicas"`
		ByRole      *alerting.Roles `json:"desired_by_role"`
		Reason      string
		Constraints []string
	}
}

// TestRetriesAreBounded: in two pools all attempts begin to fail, and each call has eight attempts. The pool whose
// engines have free capacity asks for no more replicas. The other asks for at most three times the replicas that the
// calls need. API, events and alert say so.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	const begins, minutes, ready = 75, 110, 3
	p := startDaemon(t, "clock: event", "decision: {mode: active}", "features: {lateness: 30s}", `pools:
- {name: room, kv_capacity_tokens: 400000, prefill_tokens_per_s: 270, prefill_target: 1, decode_tokens_per_s: 220, warmup: {p50: 6m, p90: 12m}, replicas: {min: 3, max: 60}}
- {name: full, kv_capacity_tokens: 400000, prefill_tokens_per_s: 270, prefill_target: 1, decode_tokens_per_s: 220, warmup: {p50: 6m, p90: 12m}, replicas: {min: 3, max: 60}}`)
	alerts, events := testenv.Subscribe(t, p.conn, "forewarm.alert.>"), testenv.Subscribe(t, p.conn, "forewarm.prescale.>")
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for m := range minutes {
		for _, x := range []plantedTraffic{{pool: "room", kv: .2}, {pool: "full", kv: .6}} {
			x.calls, x.replicas = 60, ready
			x.serve = func(call int) (prompt, output, ttft, itl int) { return 500 + call*37%100, 40, 2000, 40 }
			if m >= begins {
				x.attempts, x.failing = 8, true
			}
			x.publish(t, p, start.Add(time.Duration(m)*time.Minute))
		}
		if m%10 == 9 {
			p.settle(t)
		}
	}
	p.settle(t)
	storms := map[string]string{}
	for m := range testenv.Messages(alerts) {
		var e alerting.CloudEvent[alerting.AlertData]
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		if e.Data.Name == alerting.RetryStorm {
			storms[e.Data.Labels["pool"]] = testenv.Words(e.Data.Annotations)
		}
	}
	most := map[string]int{}
	for m := range testenv.Messages(events) {
		var e alerting.Event
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		most[e.Data.Pool] = max(most[e.Data.Pool], e.Data.DesiredReplicas)
	}
	for pool, want := range map[string]struct {
		least, most int
		why         string
	}{"room": {3, 3, "fail for other reasons than load"}, "full": {5, 9, "at most 3 times the replicas that calls need"}} {
		var a poolAnswer
		p.ask(t, "/api/v1/pools/"+pool, &a)
		if most[pool] < want.least || most[pool] > want.most || a.Decision.Desired > want.most || len(a.Decision.Constraints) == 0 || !strings.HasPrefix(a.Decision.Constraints[0], "retries ") {
			t.Errorf("%s: %d replicas at most and %d now, want %d to %d; %q", pool, most[pool], a.Decision.Desired, want.least, want.most, a.Decision.Constraints)
		}
		if !strings.Contains(a.Decision.Reason, want.why) || !strings.Contains(storms[pool], want.why) {
			t.Errorf("%s: reason %q or alert %q does not say %q", pool, a.Decision.Reason, storms[pool], want.why)
		}
	}
}

// TestObjectivesRaiseTheirRole: in one disaggregated pool, first tokens become four times as slow, in another, further
// tokens three times. The first pool asks for more prefill replicas, the second for more decode replicas. Alert and
// event say why.
func TestObjectivesRaiseTheirRole(t *testing.T) {
	t.Parallel()
	const begins, minutes, ready = 75, 90, 4
	p := startDaemon(t, "clock: event", "decision: {mode: active}", "features: {lateness: 0s}", `pools:
- {name: ttft, prefill_tokens_per_s: 5000, prefill_target: 1, decode_tokens_per_s: 2000, slo: {ttft: 1s, itl: 40ms}, replicas: {min: 4, max: 30}, disaggregated: {prefill_replicas: {min: 4, max: 30}}}
- {name: itl, prefill_tokens_per_s: 5000, prefill_target: 1, decode_tokens_per_s: 2000, slo: {ttft: 1s, itl: 40ms}, replicas: {min: 4, max: 30}, disaggregated: {prefill_replicas: {min: 4, max: 30}}}`)
	alerts, events := testenv.Subscribe(t, p.conn, "forewarm.alert.>"), testenv.Subscribe(t, p.conn, "forewarm.prescale.>")
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for m := range minutes {
		at := start.Add(time.Duration(m) * time.Minute)
		for _, pool := range []string{"ttft", "itl"} {
			plantedTraffic{pool: pool, calls: 60, replicas: ready, kv: .3, serve: func(call int) (prompt, output, ttft, itl int) {
				ttft, itl = 500+call%10*5, 20
				if m >= begins && pool == "ttft" {
					ttft *= 4
				} else if m >= begins {
					itl *= 3
				}
				return 1000, 100, ttft, itl
			}}.publish(t, p, at)
			p.publish(t, "forewarm.telemetry.watermark."+pool, fmt.Appendf(nil, `{"at":%d}`, at.Add(time.Minute).UnixMilli()))
		}
		if m%10 == 9 {
			p.settle(t)
		}
	}
	p.settle(t)
	raised := map[string]time.Duration{}
	for m := range testenv.Messages(alerts) {
		var e alerting.CloudEvent[alerting.AlertData]
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		if pool := e.Data.Labels["pool"]; e.Data.Name == alerting.LatencyObjective && raised[pool] == 0 {
			raised[pool] = e.Data.StartsAt.Sub(start)
		}
	}
	var reasons []string
	for m := range testenv.Messages(events) {
		var e alerting.Event
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		reasons = append(reasons, e.Data.Pool+": "+e.Data.Reason)
	}
	for pool, want := range map[string]struct {
		prefill, decode int
		reason          string
	}{
		"ttft": {5, 4, "The first token takes 2.2 s (objective 1 s) at the 90th percentile. Asking for 5 prefill replicas (4 now)."},
		"itl":  {4, 5, "Each further token takes 60 ms (objective 40 ms) at the 90th percentile. Asking for 5 decode replicas (4 now)."},
	} {
		var a poolAnswer
		p.ask(t, "/api/v1/pools/"+pool, &a)
		if r := a.Decision.ByRole; r == nil || r.Prefill != want.prefill || r.Decode != want.decode {
			t.Errorf("%s: asks for %+v, want %d prefill and %d decode replicas", pool, r, want.prefill, want.decode)
		}
		if raised[pool] < begins*time.Minute || raised[pool] > (begins+6)*time.Minute {
			t.Errorf("%s: the alert is after %s, want it within six minutes of minute %d", pool, raised[pool], begins)
		}
		if !slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(reason, want.reason) }) {
			t.Errorf("%s: no event says %q: %q", pool, want.reason, reasons)
		}
	}
}

// TestPlanSaysWhichRates: a plan says whether the daemon uses learned or stated rates.
func TestPlanSaysWhichRates(t *testing.T) {
	t.Parallel()
	const minutes = 150
	p := startDaemon(t, "clock: event", "decision: {mode: active}", "features: {lateness: 0s}", `pools:
- {name: learned, kv_capacity_tokens: 400000, max_num_seqs: 32, slo: {itl: 40ms}, replicas: {min: 1, max: 30, initial: 1}}
- {name: stated, kv_capacity_tokens: 400000, max_num_seqs: 32, slo: {itl: 40ms}, replicas: {min: 1, max: 30, initial: 1}, prefill_tokens_per_s: 3000, prefill_target: 1, decode_tokens_per_s: 500, rates: stated}`)
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for m := range minutes {
		at := start.Add(time.Duration(m) * time.Minute)
		calls := int(600 * (.6 + .4*math.Sin(float64(m)/9)))
		for _, pool := range []string{"learned", "stated"} {
			plantedTraffic{pool: pool, calls: calls, replicas: 1, kv: .3, serve: func(call int) (prompt, output, ttft, itl int) {
				prompt = 200 + call*371%2000
				return prompt, 100, 100 + prompt/10, 15 + calls/40
			}}.publish(t, p, at)
			p.publish(t, "forewarm.telemetry.watermark."+pool, fmt.Appendf(nil, `{"at":%d}`, at.Add(time.Minute).UnixMilli()))
		}
		if m%10 == 9 {
			p.settle(t)
		}
	}
	p.settle(t)
	for pool, prefill := range map[string]string{"learned": "", "stated": "3k"} {
		code, sheet, errs := runHere(t.Context(), "plan", "-from", p.base, "-pool", pool)
		if !strings.Contains(sheet, "Service rates of a replica are "+pool+".") || strings.Contains(sheet, "without telemetry") {
			t.Errorf("%s (%d, %s):\n%s", pool, code, errs, sheet)
		}
		for line := range strings.Lines(sheet) {
			if cells := strings.Split(line, "|"); len(cells) > 4 && strings.TrimSpace(cells[1]) == "prompt tokens/s to prefill" && prefill != "" && strings.TrimSpace(cells[4]) != prefill {
				t.Errorf("%s: %s", pool, line)
			}
		}
	}
}
