package sink

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/testenv"
)

func TestAlertmanagerPosts(t *testing.T) {
	var got []postable
	var path, auth string
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, auth = r.Method+" "+r.URL.Path, r.Header.Get("Authorization")
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	defer peer.Close()
	s := newPeer(t, AlertmanagerConfig{URLs: []string{peer.URL + "/am/"}, Config: httpclient.Config{BearerTokenFile: keyFile(t, "s3cret")}, GeneratorURL: "http://forewarm",
		Labels: map[string]string{"cluster": "eu", "pool": "loses"}})
	// The wall clock is long past the alert's event time, as in a replay.
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return now }
	for _, resolved := range []bool{false, true} {
		if err := s.Send(t.Context(), alert("llama", resolved)); err != nil {
			t.Fatal(err)
		}
		ends := now.Add(4 * time.Minute)
		if resolved {
			ends = now
		}
		want := []postable{{
			Labels:      map[string]string{"alertname": "ForewarmTooLateToWarm", "cluster": "eu", "pool": "llama", "resource": "kv", "severity": "page"},
			Annotations: map[string]string{"summary": "KV memory full in ~5 min"},
			StartsAt:    time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), EndsAt: ends, GeneratorURL: "http://forewarm",
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("resolved %t: %s", resolved, diff)
		}
	}
	if path != "POST /am/api/v2/alerts" || auth != "Bearer s3cret" {
		t.Errorf("%s, Authorization %q", path, auth)
	}
	if s.Accepts(decision("llama", 1)) {
		t.Error("Alertmanager accepts a decision, want only alerts")
	}
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer login.Close()
	s = newPeer(t, AlertmanagerConfig{URLs: []string{login.URL}})
	if err := s.Send(t.Context(), alert("llama", false)); err == nil || !strings.Contains(err.Error(), "a web page answers in place of the API") {
		t.Errorf("a login page takes an alert: %v", err)
	}
}

// newPeer builds the sink of the only peer in c.
func newPeer(t *testing.T, c AlertmanagerConfig) *Alertmanager {
	t.Helper()
	peers, err := NewAlertmanagers(c)
	if err != nil || len(peers) != 1 {
		t.Fatalf("%d peers, %v", len(peers), err)
	}
	return peers[0]
}

func TestOpenNamesTheKey(t *testing.T) {
	for want, cfg := range map[string]AlertmanagerConfig{
		`sinks.alertmanager.urls[1]: url is "alertmanager:9093"`:                                  {URLs: []string{"http://a", "alertmanager:9093"}},
		`sinks.alertmanager.urls[1]: "http://a/" is there twice`:                                  {URLs: []string{"http://a", "http://a/"}},
		`sinks.alertmanager.urls[0]: username is "u": it must be set together with password_file`: {URLs: []string{"http://a"}, Config: httpclient.Config{Username: "u"}},
	} {
		if _, err := Open(Config{Alertmanager: cfg}, Deps{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s…", err, want)
		}
	}
	sinks, err := Open(Config{Alertmanager: AlertmanagerConfig{URLs: []string{"http://a", "http://b:9093"}}}, Deps{NATS: struct{ Publisher }{}})
	var names []string
	for _, s := range sinks {
		names = append(names, s.Name())
	}
	if diff := cmp.Diff([]string{"nats", "alertmanager/a", "alertmanager/b:9093"}, names); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
}

// TestRealCluster sends to both peers of a cluster. Each gets all alerts. The receiver gets one notification for the
// group, also after one peer has stopped.
func TestRealCluster(t *testing.T) {
	type notification struct {
		Status      string
		GroupLabels map[string]string
		Alerts      []struct{ Status string }
	}
	notified := make(chan notification, 100)
	pager := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n notification
		if json.NewDecoder(r.Body).Decode(&n) == nil {
			notified <- n
		}
	}))
	defer pager.Close()
	config := "route: {receiver: pager, group_by: [pool], group_wait: 1s, group_interval: 2s}\n" +
		"receivers: [{name: pager, webhook_configs: [{url: '" + pager.URL + "'}]}]\n"
	gossip := testenv.FreeAddress(t)
	cluster := []string{"--cluster.settle-timeout=500ms", "--cluster.gossip-interval=50ms", "--cluster.peer-timeout=1s"}
	first := testenv.StartAlertmanager(t, config, append(cluster, "--cluster.listen-address="+gossip)...)
	second := testenv.StartAlertmanager(t, config, append(cluster, "--cluster.listen-address="+testenv.FreeAddress(t), "--cluster.peer="+gossip)...)

	peers := must(NewAlertmanagers(AlertmanagerConfig{URLs: []string{first.URL, second.URL}}))
	log := newMemoryLog()
	d := NewDispatcher([]alerting.Sink{peers[0], peers[1]}, log.open, nobody)
	stop := dispatch(t, d)
	began := time.Now()
	send := func(resolved bool) {
		var tick []alerting.Notice
		for _, resource := range []string{"kv", "decode"} {
			n := alert("llama70b", resolved)
			n.Alert.StartsAt = began // Alertmanager sends an older alert at once, without waiting for its group
			n.Alert.Labels["resource"] = resource
			tick = append(tick, n)
		}
		log.enqueue(tick...)
	}
	send(false)
	for _, peer := range []string{first.URL, second.URL} {
		testenv.Await(t, "both alerts at "+peer, func() bool { return len(list(t, peer)) == 2 })
		if a := list(t, peer)[0]; a.Labels["alertname"] != "ForewarmTooLateToWarm" || a.Annotations["summary"] != "KV memory full in ~5 min" {
			t.Errorf("%s lists %+v", peer, a)
		}
	}
	n := <-notified
	if n.Status != "firing" || len(n.Alerts) != 2 || n.GroupLabels["pool"] != "llama70b" {
		t.Errorf("the first notification is %+v, want both alerts of the pool together", n)
	}
	testenv.Await(t, "the second peer to hear that it was sent", func() bool {
		_, metrics := testenv.Get(second.URL + "/metrics")
		return regexp.MustCompile(`(?m)^alertmanager_cluster_messages_received_total\{msg_type="update"\} [1-9]`).MatchString(metrics)
	})
	first.Stop()
	send(true)
	testenv.Await(t, "the end of the alerts at the second peer", func() bool { return len(list(t, second.URL)) == 0 })
	// The next notification is that of the end. The first is not repeated.
	for n = range notified {
		if n.Status == "resolved" {
			break
		}
		t.Errorf("the pager got %+v a second time", n)
	}
	_ = stop()
	if sent := d.Stats()[1].Sent; sent != 4 {
		t.Errorf("%d notices reached the second peer, want 4", sent)
	}

	// Alertmanager refuses an invalid alert. It must not be sent again.
	bad := alert("", false)
	bad.Alert.Labels = map[string]string{"no good label": "x"}
	if answer, _ := errors.AsType[alerting.SendError](peers[1].Send(t.Context(), bad)); !answer.Permanent {
		t.Error("a bad label is retried")
	}
}

func list(t *testing.T, url string) (alerts []postable) {
	t.Helper()
	_, body := testenv.Get(url + "/api/v2/alerts")
	if err := json.Unmarshal([]byte(body), &alerts); err != nil {
		t.Fatal(err)
	}
	return alerts
}

// TestWatchdogIsOptIn: only an Alertmanager with watchdog: true gets the watchdog.
func TestWatchdogIsOptIn(t *testing.T) {
	watchdog := alert("", false)
	watchdog.Alert.Name = alerting.Watchdog
	for name, tt := range map[string]struct {
		sink     alerting.Sink
		watchdog bool
	}{
		"alertmanager with watchdog": {newPeer(t, AlertmanagerConfig{URLs: []string{"http://a"}, Watchdog: true}), true},
		"alertmanager":               {newPeer(t, AlertmanagerConfig{URLs: []string{"http://a"}}), false},
		"nats":                       {NewNATS(nil, "fw"), false},
	} {
		if got := tt.sink.Accepts(watchdog); got != tt.watchdog {
			t.Errorf("%s accepts the watchdog: %t", name, got)
		}
		if !tt.sink.Accepts(alert("a", false)) {
			t.Errorf("%s does not accept another alert", name)
		}
	}
}
