package daemon

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestScenarioTraffic: in four hours there is one burst of ten minutes. Metrics, API, page and report show it.
func TestScenarioTraffic(t *testing.T) {
	t.Parallel()
	p := startDaemon(t, "clock: event", "features: {lateness: 0s}", "log: {level: error}", "report: {schedule: '0 12 * * *'}",
		"pools: [{name: chat, kv_capacity_tokens: 400000, prefill_tokens_per_s: 12000, decode_tokens_per_s: 2400, itl: 25ms, replicas: {min: 1, max: 4}}]")
	start := time.Date(2026, 3, 2, 8, 30, 0, 0, time.UTC)
	const minutes = 260
	for m := range minutes {
		perMinute := 20
		if m >= 60 && m < 70 {
			perMinute = 120
		}
		p.publishMinute(t, "chat.talk", start.Add(time.Duration(m)*time.Minute), perMinute, 1000, 100)
	}
	p.settle(t)
	last := start.Add((minutes - 1) * time.Minute)
	testenv.Await(t, "the last tick", func() bool { return !p.Status().Tick.Before(last) })

	for _, c := range []struct{ path, want string }{
		{"/metrics", `forewarm_traffic_burst_seconds{pool="chat",class="*",dimension="requests",quantile="1"} 600` + "\n"},
		{"/metrics", `forewarm_traffic_bursts{pool="chat",class="talk",dimension="requests"} 1` + "\n"},
		{"/api/v1/pools/chat/traffic", `"peak_to_mean_1m": 4.9`}, // 120 over (240·20 + 10·120)/250
		{"/pools/chat/classes/talk", "Length of prompts"},
		{"/api/v1/report?format=md&from=2026-03-02T08:30:00Z&to=2026-03-02T12:00:00Z", "| all | "},
	} {
		if code, body := testenv.Get(p.base + c.path); code != http.StatusOK || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d, no %q in\n%.3000s", c.path, code, c.want, body)
		}
	}
	testenv.Await(t, "the report at 12:00 of the event clock", func() bool { return p.Daemon.reporter.made.Load() == 1 })
}
