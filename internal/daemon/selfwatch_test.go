package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestSelfWatch: a daemon that refuses telemetry and cannot reach a consumer says so where it can, and is called alive only
// while it ticks.
func TestSelfWatch(t *testing.T) {
	var mu sync.Mutex
	alerts := map[string]string{} // summaries by name and resource
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var got []struct{ Labels, Annotations map[string]string }
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		for _, a := range got {
			alerts[strings.TrimSpace(a.Labels["alertname"]+" "+a.Labels["resource"]+" "+a.Labels["severity"])] = testenv.Words(a.Annotations)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	keys := testenv.WriteFile(t, filepath.Join(dir, "keys"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	p := startDaemonIn(t, dir, "clock: event", "features: {lateness: 0s}", "pools: [{name: chat, replicas: {max: 4}}]",
		"sinks: {alertmanager: {urls: ['"+server.URL+"'], watchdog: true},",
		"        webhooks: [{name: dead, url: 'http://127.0.0.1:1/', secret_file: "+keys+"}]}")
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(alerts)
	}

	now, w := time.Now(), newSelfWatch(p.cfg.Decision)
	p.checkSelf(w, now)
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for seconds := 0; seconds < 150; seconds += 5 {
		p.publish(t, "forewarm.telemetry.request.chat.talk", fmt.Appendf(nil,
			`{"arrived_at":%d,"prompt_tokens":100,"output_tokens":10}`, start.Add(time.Duration(seconds)*time.Second).UnixMilli()))
		p.publish(t, "forewarm.telemetry.request.chat.talk", []byte(`{"arrived_at":"yesterday","prompt_tokens":100}`))
	}
	p.settle(t)
	testenv.Await(t, "the webhook to fail", func() bool { return strings.Contains(p.sinkTrouble(), "webhook/dead") })
	if n := count(); n > 0 {
		t.Errorf("before the first look %d alerts", n)
	}
	for minute := range 2 {
		p.checkSelf(w, now.Add(time.Duration(minute+1)*time.Minute))
	}
	testenv.Await(t, "alerts", func() bool { return count() >= 3 })
	mu.Lock()
	for key, part := range map[string]string{
		"ForewarmWatchdog  none":                   "This alert always fires.",
		"ForewarmInputDropped  warning":            "In 15 min 30 of 60 records were refused: 30 as bad_time.",
		"ForewarmSinkFailing webhook/dead warning": "Forewarm has not reached webhook/dead since",
	} {
		if !strings.Contains(alerts[key], part) {
			t.Errorf("%s says %q, want %s; all: %q", key, alerts[key], part, alerts)
		}
	}
	mu.Unlock()

	if p.ticks(time.Now().Add(11*time.Minute)) || !p.ticks(time.Now()) {
		t.Error("a daemon whose newest tick is 11 minutes old is called alive, or one that has just ticked is not")
	}
}

// TestSelfWatchWindow: only what came within the window counts.
func TestSelfWatchWindow(t *testing.T) {
	w := newSelfWatch(alerting.DefaultConfig())
	for look := range 40 {
		now := intake{records: uint64(10 * look), lost: uint64(min(look, 5)), refused: map[string]uint64{"bad_time": uint64(look)}}
		v, _ := w.count(now)
		if look < selfWindow {
			continue
		}
		if v.Records != 10*selfWindow || v.Refused["bad_time"] != selfWindow || look >= 20 && v.Lost != 0 || len(w.intake) > selfWindow+1 {
			t.Errorf("look %d: %+v, %d remembered", look, v, len(w.intake))
		}
	}
}
