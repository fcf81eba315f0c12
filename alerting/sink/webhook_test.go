package sink

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	testKey  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // from the tests of the Standard Webhooks specification
	otherKey = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// keyFile writes a file with these lines.
func keyFile(t *testing.T, lines ...string) string {
	t.Helper()
	return testenv.WriteFile(t, filepath.Join(t.TempDir(), "secret"), lines...)
}

// TestSignatureVector signs the test vector of the reference libraries.
func TestSignatureVector(t *testing.T) {
	got, err := sign(testKey, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want || err != nil {
		t.Errorf("%s, want %s: %v", got, want, err)
	}
}

// consumer calls take for messages that the reference library verifies with key, and answers 401 to others.
func consumer(t *testing.T, key string, take func(id string, body []byte)) *httptest.Server {
	t.Helper()
	verifier := must(standardwebhooks.NewWebhook(key))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := verifier.Verify(body, r.Header); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		take(r.Header.Get("webhook-id"), body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return server
}

// TestWebhookVerifies: the reference library accepts the signatures before and during a change of keys. It refuses a
// signature with another key.
func TestWebhookVerifies(t *testing.T) {
	for name, tt := range map[string]struct {
		keys []string
		ok   bool
	}{
		"one key":          {keys: []string{testKey}, ok: true},
		"new and old keys": {keys: []string{"# new, then old", otherKey, "", testKey}, ok: true},
		"another key":      {keys: []string{otherKey}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			server := consumer(t, testKey, func(id string, body []byte) {
				var event struct{ ID, Type, Subject, SpecVersion string }
				if err := json.Unmarshal(body, &event); err != nil {
					t.Error(err)
				}
				got = append(got, id, event.ID, event.Type, event.Subject)
			})
			s := must(NewWebhook(WebhookConfig{Name: "ops", URL: server.URL, SecretFile: keyFile(t, tt.keys...)}))
			err := s.Send(t.Context(), decision("llama 70.b", 4))
			if answer, _ := errors.AsType[alerting.SendError](err); answer.Permanent == tt.ok || (err == nil) != tt.ok {
				t.Fatalf("error %v", err)
			}
			if !tt.ok {
				return
			}
			if err := s.Send(t.Context(), alert("llama", true)); err != nil {
				t.Fatal(err)
			}
			want := []string{"llama%2070%2Eb-4", "llama 70.b-4", "forewarm.prescale.v1", "llama 70.b",
				"ForewarmTooLateToWarm/llama/kv@1772452800/resolved", "ForewarmTooLateToWarm/llama/kv@1772452800/resolved", "forewarm.alert.v1", "llama"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestInvalidKeys: the error says what is wrong, and does not contain the key.
func TestInvalidKeys(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "no key",
		"hunter2hunter2":             "line 1: a key is whsec_",
		testKey + "\nwhsec_c2hvcnQ=": "line 2: a key is whsec_ and 24 or more random bytes",
		"whsec_***":                  "line 1: a key is whsec_",
	} {
		_, err := sign(text, "a-1", time.Unix(1614265330, 0), nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s…", err, want)
			continue
		}
		for _, secret := range []string{"hunter2", "c2hvcnQ", "MfKQ"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%v contains a key", err)
			}
		}
	}
}

// TestWebhookReloadsSecrets: a changed file of a key or URL is used from the next attempt on, without a restart. Errors
// do not contain the URL, because it may be a secret.
func TestWebhookReloadsSecrets(t *testing.T) {
	taken := 0
	server := consumer(t, testKey, func(string, []byte) { taken++ })
	secret, url := keyFile(t, otherKey), keyFile(t, "http://127.0.0.1:1/old/SECRET")
	s := must(NewWebhook(WebhookConfig{Name: "ops", URLFile: url, SecretFile: secret}))
	if err := s.Send(t.Context(), decision("a", 1)); err == nil || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("error %v", err)
	}
	for path, text := range map[string]string{secret: testKey, url: server.URL} {
		testenv.WriteFile(t, path, text)
	}
	if err := s.Send(t.Context(), decision("a", 1)); err != nil || taken != 1 {
		t.Errorf("%d taken, error %v", taken, err)
	}
	testenv.WriteFile(t, url, "http://elsewhere.example/SECRET")
	s = must(NewWebhook(WebhookConfig{Name: "ops", URLFile: url, SecretFile: secret}))
	if err := s.Send(t.Context(), decision("a", 4)); err == nil || !strings.Contains(err.Error(), "http to another machine") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("error %v", err)
	}
}

func TestWebhookConfig(t *testing.T) {
	valid := WebhookConfig{Name: "ops", URL: "https://hooks.example.org/x", SecretFile: "k"}
	for want, change := range map[string]func(c *WebhookConfig){
		`sinks.webhooks[1].name: "" is no name`:                                        func(c *WebhookConfig) { c.Name = "" },
		`sinks.webhooks[1].name: "other" is taken`:                                     func(c *WebhookConfig) { c.Name = "other" },
		`sinks.webhooks[1].format: "teams" is unknown; set cloudevents or slack`:       func(c *WebhookConfig) { c.Format = "teams" },
		`sinks.webhooks[1].send[0]: "all" is unknown; set alerts, prescale or reports`: func(c *WebhookConfig) { c.Send = []string{"all"} },
		`sinks.webhooks[1].url: set it or url_file, one of the two`:                    func(c *WebhookConfig) { c.URLFile = "f" },
		`sinks.webhooks[1].url: not an https URL`:                                      func(c *WebhookConfig) { c.URL = "hooks.example.org" },
		`sinks.webhooks[1].url: it carries a password`:                                 func(c *WebhookConfig) { c.URL = "https://u:p@hooks.example.org" },
		`sinks.webhooks[1].url: http to another machine can be read on the way`:        func(c *WebhookConfig) { c.URL = "http://10.0.0.1/" },
		`sinks.webhooks[1].secret_file: not set, so that the consumer could not`:       func(c *WebhookConfig) { c.SecretFile = "" },
	} {
		c := valid
		change(&c)
		other := valid
		other.Name = "other"
		if _, err := Open(Config{Webhooks: []WebhookConfig{other, c}}, Deps{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s…", err, want)
		}
	}
	for _, url := range []string{"http://127.0.0.1:80/", "http://localhost/", "http://[::1]:9/"} {
		c := valid
		c.URL = url
		if _, err := NewWebhook(c); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	valid.URL, valid.AllowHTTP = "http://10.0.0.1/", true
	if _, err := NewWebhook(valid); err != nil {
		t.Error(err)
	}
}

// TestWebhookSelects: format and send select the notices that a webhook gets. The id says which notices are one
// message.
func TestWebhookSelects(t *testing.T) {
	events := must(NewWebhook(WebhookConfig{Name: "ops", URL: "https://a", SecretFile: "k"}))
	chat := must(NewWebhook(WebhookConfig{Name: "chat", URL: "https://a", Format: Slack}))
	both := must(NewWebhook(WebhookConfig{Name: "both", URL: "https://a", Format: Slack, Send: []string{"alerts", "prescale"}}))
	out, hold, watchdog := decision("a", 1), decision("a", 2), alert("a", false)
	out.Decision.Action, hold.Decision.Action, watchdog.Alert.Name = alerting.ScaleOut, alerting.Hold, alerting.Watchdog
	for name, tt := range map[string]struct {
		notice             alerting.Notice
		events, chat, both bool
	}{
		"alert": {alert("a", false), true, true, true}, "scale-out": {out, true, false, true}, "hold": {hold, true, false, false},
		"watchdog": {watchdog, false, false, false}, "nothing": {alerting.Notice{}, false, false, false},
	} {
		if got := [3]bool{events.Accepts(tt.notice), chat.Accepts(tt.notice), both.Accepts(tt.notice)}; got != [3]bool{tt.events, tt.chat, tt.both} {
			t.Errorf("%s: %v", name, got)
		}
	}
	renewed := decision("a", 9)
	renewed.Decision.Action = alerting.ScaleOut
	if both.ID(out) != both.ID(renewed) || events.ID(out) == events.ID(renewed) {
		t.Error("a repeated advice: want the same message in a chat, and a new CloudEvent")
	}
	later := alert("a", false)
	later.Alert.UpdatedAt = later.Alert.UpdatedAt.Add(time.Minute)
	if events.ID(later) != events.ID(alert("a", false)) || events.ID(later) == events.ID(alert("a", true)) {
		t.Error("an alert: want one message when it is raised and one when it is resolved")
	}
}

// TestSlackGolden compares messages with a golden file. A long text is cut to the bounds of Slack.
func TestSlackGolden(t *testing.T) {
	page, resolved, long := alert("llama", false), alert("llama", true), alert("llama", false)
	for _, n := range []alerting.Notice{page, resolved, long} {
		n.Alert.Annotations = map[string]string{"summary": "Pool llama: KV memory will be full in about 5 min", "description": "Chance: 85 % within 18 min. Class a<b> & co drives it.",
			"action": "Shed or delay load.", "decision": "llama-4", "mode": "advisory", "runbook_url": "https://example.org/ForewarmTooLateToWarm.md", "dashboard_url": "https://example.org/pools/llama"}
	}
	long.Alert.Annotations["summary"], long.Alert.Annotations["description"] = strings.Repeat("ä&", 4000), strings.Repeat("ä&", 4000)
	long.Alert.Labels["pool"] = strings.Repeat("p", 400)
	d := decision("llama", 4)
	d.Decision.Action, d.Decision.Ready, d.Decision.Desired, d.Decision.Mode, d.Decision.Reason = alerting.ScaleOut, 14, 19, alerting.Active, "KV memory full in ~19 min."
	withheld := decision("llama", 5)
	*withheld.Decision = *d.Decision
	withheld.Decision.Withheld = "less than an hour of history"
	var all bytes.Buffer
	for _, n := range []alerting.Notice{page, resolved, d, withheld} {
		body := must(slackMessage(n))
		if err := json.Indent(&all, body, "", "  "); err != nil {
			t.Fatal(err)
		}
		all.WriteByte('\n')
	}
	const golden = "testdata/slack.golden.txt"
	if *update {
		if err := os.WriteFile(golden, all.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := must(os.ReadFile(golden))
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Error(diff)
	}
	body := must(slackMessage(long))
	var got struct{ Text string }
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if n := len([]rune(got.Text)); n < maxSlackText || n > maxSlackText+1000 || !strings.Contains(got.Text, "|runbook>") {
		t.Errorf("%d characters: %s", n, got.Text[len(got.Text)-300:])
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, "-3": 0, "soon": 0, "99999999999999999999": 0,
		"Mon, 02 Mar 2026 12:00:30 GMT": 30 * time.Second, "Mon, 02 Mar 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
