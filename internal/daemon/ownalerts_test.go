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

	"github.com/forewarm/forewarm/internal/testenv"
)

// firingAt is what a real Alertmanager lists as firing: summaries by name and resource. What is resolved is not among
// it.
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

// raised waits until each alert fires at Alertmanager and says what is wanted, and prints it.
func raised(t *testing.T, url string, want map[string]string) {
	t.Helper()
	for key, part := range want {
		var said string
		testenv.Await(t, key, func() bool {
			said = firingAt(t, url)[key]
			return said != ""
		})
		if !strings.Contains(said, part) {
			t.Errorf("%s says %q, want %q", key, said, part)
		}
		t.Logf("%s\n%s", key, said)
	}
}

// over waits until none of the alerts fires any more.
func over(t *testing.T, url string, alerts map[string]string) {
	t.Helper()
	for key := range alerts {
		testenv.Await(t, key+" to be over", func() bool { return firingAt(t, url)[key] == "" })
	}
}

// TestOwnAlerts plants, in a daemon on the wall clock, a producer whose clock is ahead, one that holds its records
// back, records that are refused, and a consumer that refuses; each is an alert in Alertmanager, and over once its
// cause is fixed. The watchdog fires while ticks come.
func TestOwnAlerts(t *testing.T) {
	t.Parallel()
	alertmanager := testenv.StartAlertmanager(t, testenv.Silent).URL
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

	now, w := time.Now(), newSelfWatch()
	p.checkSelf(w, now)
	minutes, looks := 0, 0
	// minute goes on by one: the watermark that the ticker would write, and requests that end now by their producer's
	// clock, or ended a while ago.
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
		"ForewarmSinkFailing webhook/ops": "Forewarm has not reached webhook/ops since ",
	}
	raised(t, alertmanager, alerts)
	raised(t, alertmanager, map[string]string{"ForewarmWatchdog": "This alert always fires."})
	if p.ticks(time.Now().Add(11*time.Minute)) || !p.ticks(time.Now()) {
		t.Error("the watchdog fires 11 minutes after the newest tick, or not right after it")
	}
	raised(t, alertmanager, map[string]string{"ForewarmTelemetryFault": " The records of producer gw-3 come about "})

	broken.Store(false)
	testenv.Await(t, "the webhook to get what waited", func() bool { return p.sinkTrouble() == "" })
	for range 30 { // a clock is judged by ten to twenty minutes, telemetry by fifteen, and an alert is over after five
		minute(0, 0, false)
	}
	over(t, alertmanager, alerts)
}

// TestSilentProducerAndBack: of two gateways one falls silent for a while, in a daemon that follows the telemetry's own
// time.
func TestSilentProducerAndBack(t *testing.T) {
	t.Parallel()
	alertmanager := testenv.StartAlertmanager(t, testenv.Silent).URL
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
	raised(t, alertmanager, silent)
	if _, body := testenv.Get(p.base + "/metrics"); !strings.Contains(body, `forewarm_producer_fault{pool="chat",source="gw-2",kind="silent"} 1`) {
		t.Error("no metric names the producer")
	}
	minutes(15, usual())
	over(t, alertmanager, silent)
}
