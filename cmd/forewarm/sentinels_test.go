package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestNoSentinels checks each field of all JSON outputs of cold and warm daemons, and of one with fewer replicas than
// its reserve. An unknown value is missing or null, never a number or a time. Most zeros are not checked.
func TestNoSentinels(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	pool := "{name: chat, decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {max: 4}"
	for name, tc := range map[string]struct {
		pool    string
		minutes int
		report  string // of a replica, for each minute
		silent  int    // further minutes without telemetry
	}{
		"cold":        {pool + "}", 0, "", 0},
		"one minute":  {pool + "}", 1, "", 0},
		"no capacity": {"{name: chat, replicas: {max: 4}}", 3, "", 0},
		"reserve":     {pool + ", reserves: {failure: 2}}", 90, `{"state":"ready","kv_capacity_tokens":100000,"at":%d}`, 0},
		"none ready":  {pool + ", reserves: {failure: 1}}", 90, `{"state":"loading","at":%d}`, 0},
		"stale":       {pool + "}", 30, `{"state":"ready","kv_capacity_tokens":100000,"kv_used_ratio":0.5,"running":3,"at":%d}`, 40},
		"warm":        {pool + "}", 100, `{"state":"ready","kv_capacity_tokens":100000,"kv_used_ratio":0.5,"running":3,"waiting":0,"at":%d}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startDaemon(t, "clock: event", "features: {lateness: 0s}", "pools: ["+tc.pool+"]")
			prescale, alerts := testenv.Subscribe(t, p.conn, "forewarm.prescale.>"), testenv.Subscribe(t, p.conn, "forewarm.alert.>")
			if err := p.conn.Flush(); err != nil {
				t.Fatal(err)
			}
			for minute := range tc.minutes {
				at := start.Add(time.Duration(minute) * time.Minute)
				if tc.report != "" {
					p.publish(t, "forewarm.telemetry.replica.chat.r1", fmt.Appendf(nil, tc.report, at.UnixMilli()))
				}
				for i := range 12 + max(0, minute-60)*4 {
					p.publish(t, "forewarm.telemetry.request.chat.talk", fmt.Appendf(nil, `{"arrived_at":%d,"prompt_tokens":700,"output_tokens":300}`, at.UnixMilli()+int64(i)*200))
				}
			}
			for _, minutes := range []int{tc.minutes, tc.minutes + tc.silent} {
				if tc.minutes > 0 {
					p.publish(t, "forewarm.telemetry.watermark._", fmt.Appendf(nil, `{"at":%d}`, start.Add(time.Duration(minutes)*time.Minute).UnixMilli()))
					p.settle(t)
				}
			}
			look := func(path string) string {
				code, body := testenv.Get(p.base + path)
				if strings.Contains(path, "format=json") && code >= 400 {
					return "" // the answer is a sentence, such as that there is no traffic to plan for
				}
				walkJSON(t, path, []byte(body))
				return body
			}
			for _, path := range []string{"/api/v1/status", "/api/v1/pools/chat", "/api/v1/pools/chat/desired", "/api/v1/pools/chat/forecast",
				"/api/v1/pools/chat/timeline?resource=kv", "/api/v1/pools/chat/classes/*", "/api/v1/plan?pool=chat&launch=2&format=json",
				"/api/v1/report?format=json", "/api/v1/report?format=json&to=" + start.Add(3*time.Hour).Format(time.RFC3339)} {
				look(path)
			}
			var answer struct {
				Pools []struct{ Decision *struct{ ID string } }
			}
			if err := json.Unmarshal([]byte(look("/api/v1/pools")), &answer); err != nil {
				t.Fatal(err)
			}
			for _, x := range answer.Pools {
				if x.Decision != nil {
					look("/api/v1/explain/" + x.Decision.ID)
				}
			}
			for _, s := range []*nats.Subscription{prescale, alerts} {
				for n := 0; ; n++ {
					m, err := s.NextMsg(300 * time.Millisecond)
					if err != nil {
						t.Logf("%d events on %s", n, s.Subject)
						break
					}
					walkJSON(t, m.Subject, m.Data)
					if name == "no capacity" && s == prescale && !bytes.Contains(m.Data, []byte(`"saturation_probability":null`)) {
						t.Errorf("a probability although no capacity is known: %s", m.Data)
					}
				}
			}
		})
	}
}

// walkJSON checks each value of a JSON text. Names are paths such as pools[0].tick.
func walkJSON(t *testing.T, name string, text []byte) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Errorf("%s is not JSON: %v: %.200s", name, err, text)
		return
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, x := range v {
				if x == json.Number("0") && slices.Contains([]string{"stated", "learned", "floor_replicas"}, key) {
					t.Errorf("%s.%s is 0", path, key)
				}
				walk(path+"."+key, x)
			}
		case []any:
			for i, x := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), x)
			}
		case json.Number:
			f, err := v.Float64()
			if err != nil || f == -1 || f <= -1e5 || math.Abs(f) >= 1e15 {
				t.Errorf("%s is %s", path, v)
			}
		case string:
			if v == "" || strings.HasPrefix(v, "0001-01-01") || strings.HasPrefix(v, "1970-01-01") || strings.Contains(v, "NaN") || strings.Contains(v, "+Inf") ||
				strings.Contains(v, "999999") || strings.Contains(v, "2562047h") || strings.Contains(v, "292277026596") {
				t.Errorf("%s is %q", path, v)
			}
		}
	}
	walk(name, v)
}
