package daemon

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestScenarioTraffic: in four hours there is one burst of ten minutes. The expressions of the cookbook, the page of a
// class and reports show it.
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

	page := string(must(os.ReadFile("../../docs/cookbook.md")))
	recipes := regexp.MustCompile(`(?m)^    \w+_over_time\(.*$`).FindAllString(page, -1)
	if len(recipes) != 3 {
		t.Fatalf("the cookbook has the expressions %q", recipes)
	}
	query := func(expression string) string {
		return "/api/v1/query?" + url.Values{"query": {expression}, "time": {last.Format(time.RFC3339)}}.Encode()
	}
	for _, c := range []struct{ path, want string }{
		{query("round(100*" + recipes[0] + ")"), `"503"`}, // 120 requests a minute over a mean of (249·20 + 10·120)/259
		{query(recipes[1] + " > 2"), `"class":"*"`},
		{query(recipes[2] + " > 330"), `"class":"*"`},
		{"/pools/chat/classes/talk", "Length of prompts"},
		{"/api/v1/report?format=md&from=2026-03-02T08:30:00Z&to=2026-03-02T12:00:00Z", "| all | "},
	} {
		if code, body := testenv.Get(p.base + c.path); code != http.StatusOK || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d, no %q in\n%.3000s", c.path, code, c.want, body)
		}
	}
	testenv.Await(t, "the report at 12:00 of the event clock", func() bool {
		r, err := p.decisions.Reported(t.Context())
		return err == nil && r != nil
	})
}
