package sink

import (
	"strings"
	"testing"

	"github.com/forewarm/forewarm/alerting"
)

// TestWatchdogGoesWhereItIsWanted: to the heartbeat, and to an Alertmanager that asks for it; to nobody else.
func TestWatchdogGoesWhereItIsWanted(t *testing.T) {
	watchdog := alert("", false)
	watchdog.Alert.Name = alerting.Watchdog
	asking := newPeer(t, AlertmanagerConfig{URLs: []string{"http://a"}, Watchdog: true})
	silent := newPeer(t, AlertmanagerConfig{URLs: []string{"http://a"}})
	beat, err := NewHeartbeat(HeartbeatConfig{Target{URL: "https://hc.example.org/ping/x"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		sink              alerting.Sink
		watchdog, another bool
	}{
		"heartbeat": {beat, true, false}, "alertmanager that asks": {asking, true, true}, "alertmanager": {silent, false, true}, "any other": {&script{}, false, true},
	} {
		if got := accepts(tt.sink, watchdog); got != tt.watchdog {
			t.Errorf("%s accepts the watchdog: %t", name, got)
		}
		if got := accepts(tt.sink, alert("a", false)); got != tt.another {
			t.Errorf("%s accepts another alert: %t", name, got)
		}
	}
}

func TestHeartbeatConfig(t *testing.T) {
	for want, c := range map[string]HeartbeatConfig{
		"sinks.heartbeat.url: set it or url_file":               {Target{URL: "https://a", URLFile: "f"}},
		"sinks.heartbeat.url: not an https URL":                 {Target{URL: "hc.example.org"}},
		"sinks.heartbeat.url: http to another machine can be":   {Target{URL: "http://hc.example.org"}},
		"sinks.heartbeat.url: it carries a password; leave tha": {Target{URL: "https://u:p@hc.example.org"}},
	} {
		if _, err := Open(Config{Heartbeat: c}, Deps{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s…", err, want)
		}
	}
}
