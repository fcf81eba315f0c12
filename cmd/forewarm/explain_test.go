package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestExplain: a daemon explains its decision as text, JSON and a page.
func TestExplain(t *testing.T) {
	p := startDaemon(t, "clock: event", "features: {lateness: 0s}", "pools: [{name: chat, decode_tokens_per_s: 400, itl: 25ms, replicas: {max: 4}}]")
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for seconds := 0; seconds < 600; seconds += 5 {
		p.publish(t, "forewarm.telemetry.request.chat.talk", fmt.Appendf(nil,
			`{"arrived_at":%d,"prompt_tokens":100,"output_tokens":10}`, start.Add(time.Duration(seconds)*time.Second).UnixMilli()))
	}
	p.settle(t)
	id := fmt.Sprintf("chat-%d", start.Unix()/60+1)
	testenv.Await(t, "a decision", func() bool { code, _ := testenv.Get(p.base + "/explain/" + id); return code == http.StatusOK })

	code, live, errs := runHere(t.Context(), "explain", "-url", p.base, id)
	if code != 0 || !strings.HasPrefix(live, id+", decided at 2026-03-02 08:01 UTC, advisory mode") || !strings.Contains(live, "needed without a forecast") {
		t.Errorf("%d, %s\n%s", code, errs, live)
	}
	for _, path := range []string{"/api/v1/explain/" + id, "/api/v1/explain/chat"} {
		code, body := testenv.Get(p.base + path)
		var x struct {
			ID       string
			Decision struct{ Pool, Mode string }
			Basis    struct {
				Warmup struct {
					P50 float64 `json:"p50_seconds"`
				}
			}
		}
		if err := json.Unmarshal([]byte(body), &x); code != http.StatusOK || err != nil || x.ID != id || x.Decision.Mode != "advisory" || x.Basis.Warmup.P50 != 360 {
			t.Errorf("%s: %d, %v\n%s", path, code, err, body)
		}
	}
	if code, body := testenv.Get(p.base + "/explain/" + id); code != http.StatusOK || !strings.Contains(body, "<title>"+id+" · Forewarm</title>") {
		t.Errorf("page: %d\n%s", code, body)
	}
	for path, want := range map[string]int{"/explain/nobody-7": 404, "/api/v1/explain/nobody-7": 404, "/api/v1/explain/" + id + "?format=pdf": 400} {
		if code, body := testenv.Get(p.base + path); code != want {
			t.Errorf("%s: %d, %s", path, code, body)
		}
	}
	if code, _, errs := runHere(t.Context(), "explain", "-url", p.base, "nobody-7"); code != 1 || !strings.Contains(errs, "no such decision") {
		t.Errorf("unknown: %d, %s", code, errs)
	}
}
