package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
)

// firingAt returns the texts of the alerts that a real Alertmanager lists as firing, by name and resource.
func firingAt(t *testing.T, url string) map[string]string {
	t.Helper()
	_, body := testenv.Get(url + "/api/v2/alerts?active=true")
	var alerts []struct{ Labels, Annotations map[string]string }
	if err := json.Unmarshal([]byte(body), &alerts); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	firing := map[string]string{}
	for _, a := range alerts {
		firing[strings.TrimSpace(a.Labels["alertname"]+" "+a.Labels["resource"])] = testenv.Words(a.Annotations)
	}
	return firing
}

// awaitAlerts waits until each alert fires at Alertmanager, checks its text, and logs it.
func awaitAlerts(t *testing.T, url string, want map[string]string) {
	t.Helper()
	for key, part := range want {
		var text string
		testenv.Await(t, key, func() bool {
			text = firingAt(t, url)[key]
			return text != ""
		})
		if !strings.Contains(text, part) {
			t.Errorf("%s: %q, want %q", key, text, part)
		}
		t.Logf("%s\n%s", key, text)
	}
}

// awaitResolved waits until none of the alerts fires.
func awaitResolved(t *testing.T, url string, alerts map[string]string) {
	t.Helper()
	for key := range alerts {
		testenv.Await(t, key+" to be resolved", func() bool { return firingAt(t, url)[key] == "" })
	}
}

// TestOwnAlerts: a daemon on the wall clock has a producer whose clock is ahead, one whose records come late, records
// that are refused, and a sink that fails. Each is an alert in Alertmanager, which is resolved after the cause ends.
// The watchdog fires while there are ticks.
func TestOwnAlerts(t *testing.T) {
	t.Parallel()
	alertmanager := testenv.StartAlertmanager(t, silent).URL
	var broken atomic.Bool
	broken.Store(true)
	consumer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
		}
	}))
	defer consumer.Close()
	dir := t.TempDir()
	keys := testenv.WriteFile(t, filepath.Join(dir, "keys"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	p := startDaemonIn(t, dir, "features: {future_bound: 1h, stale_after: 1h, revise: 1h}", "decision: {mode: active}", "pools: [{name: chat, decode_tokens_per_s: 400, replicas: {max: 4}}]",
		"sinks: {alertmanager: {urls: ['"+alertmanager+"'], watchdog: true}, webhooks: [{name: ops, url: '"+consumer.URL+"', secret_file: "+keys+"}]}")

	now := time.Now()
	w := &selfWatch{began: now.Truncate(time.Second), alerts: new(alerting.AlertTracker)}
	p.checkSelf(w, now)
	minutes, looks := 0, 0
	// minute publishes the requests of one minute, and a watermark as the ticker does. Requests of gw-2 end ahead of
	// the clock, those of gw-3 ended some time ago.
	minute := func(ahead, behind time.Duration, bad bool) {
		minutes++
		at := now.Add(time.Duration(minutes) * time.Minute).Truncate(time.Minute)
		for source, off := range map[string]time.Duration{"gw-1": 0, "gw-2": ahead, "gw-3": -behind, "gw-4": 0} {
			var b bytes.Buffer
			for i := range 12 {
				finished := time.Now().Add(off).UnixMilli()
				if fmt.Fprintf(&b, `{"id":"%s-%d-%d","arrived_at":%d,"finished_at":%d,"prompt_tokens":100,"output_tokens":100}`+"\n", source, minutes, i, finished-2000, finished); bad {
					b.WriteString(`{"arrived_at":"yesterday","prompt_tokens":100}` + "\n")
				}
			}
			p.publish(t, "forewarm.telemetry.request.chat.talk", b.Bytes(), "Content-Type", "application/x-ndjson", "Forewarm-Source", source)
		}
		p.publish(t, "forewarm.telemetry.watermark.chat", fmt.Appendf(nil, `{"at":%d}`, at.UnixMilli()))
		p.publish(t, "forewarm.telemetry.watermark._", fmt.Appendf(nil, `{"at":%d}`, at.UnixMilli()))
		p.settle(t)
		looks++
		p.checkSelf(w, now.Add(time.Duration(looks)*time.Minute))
	}
	for range 4 {
		minute(90*time.Second, 5*time.Minute, true)
	}
	testenv.Await(t, "the webhook to fail", func() bool { return strings.Contains(p.sinkTrouble(), "webhook/ops") })
	for range 2 {
		minute(90*time.Second, 5*time.Minute, true)
	}
	alerts := map[string]string{
		"ForewarmTelemetryFault":          "The clock of producer gw-2 is about ",
		"ForewarmInputDropped":            "Forewarm refuses 50 % of ",
		"ForewarmSinkFailing webhook/ops": "Forewarm has failed to deliver to webhook/ops since ",
	}
	awaitAlerts(t, alertmanager, alerts)
	awaitAlerts(t, alertmanager, map[string]string{"ForewarmWatchdog": "This alert always fires."})
	if p.isTicking(time.Now().Add(11*time.Minute)) || !p.isTicking(time.Now()) {
		t.Error("the watchdog fires 11 minutes after the last tick, or does not fire directly after it")
	}
	awaitAlerts(t, alertmanager, map[string]string{"ForewarmTelemetryFault": " The records of producer gw-3 come about "})

	broken.Store(false)
	testenv.Await(t, "the webhook to get the waiting notices", func() bool { return p.sinkTrouble() == "" })
	for range 30 { // the clock needs ten to twenty minutes, telemetry needs fifteen, and an alert is resolved after five
		minute(0, 0, false)
	}
	awaitResolved(t, alertmanager, alerts)
}

// TestSilentProducerAndBack: on the event clock, one of two gateways sends nothing for fifteen minutes. An alert names
// it, and is resolved when it sends again.
func TestSilentProducerAndBack(t *testing.T) {
	t.Parallel()
	alertmanager := testenv.StartAlertmanager(t, silent).URL
	p := startDaemon(t, "clock: event", "features: {lateness: 30s, stale_after: 5m}", "decision: {mode: active}",
		"sinks: {alertmanager: {urls: ['"+alertmanager+"']}}", "pools: [{name: chat, decode_tokens_per_s: 4000, replicas: {max: 4}}]")
	start, m := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), 0
	minutes := func(n int, traffic []class) {
		for until := m + n; m < until; m++ {
			p.minute(t, "chat", start.Add(time.Duration(m)*time.Minute), traffic)
		}
		p.settle(t)
	}
	minutes(40, usual())
	minutes(15, usual()[:1])
	silent := map[string]string{"ForewarmTelemetryFault": "Producer gw-2 has sent nothing since 08:40 UTC. Demand may be higher than Forewarm sees."}
	awaitAlerts(t, alertmanager, silent)
	if _, body := testenv.Get(p.base + "/metrics"); !strings.Contains(body, `forewarm_producer_fault{pool="chat",source="gw-2",kind="silent"} 1`) {
		t.Error("no metric names the producer")
	}
	minutes(15, usual())
	awaitResolved(t, alertmanager, silent)
}
