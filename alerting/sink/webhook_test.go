package sink

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
)

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

// TestWebhookReloadsKeys: a changed file of keys is used from the next attempt on, without a restart.
func TestWebhookReloadsKeys(t *testing.T) {
	taken := 0
	server := consumer(t, testKey, func(string, []byte) { taken++ })
	secret := keyFile(t, otherKey)
	s := must(NewWebhook(WebhookConfig{Name: "ops", URL: server.URL, SecretFile: secret}))
	if err := s.Send(t.Context(), decision("a", 1)); err == nil {
		t.Error("a wrong key was taken")
	}
	testenv.WriteFile(t, secret, testKey)
	if err := s.Send(t.Context(), decision("a", 1)); err != nil || taken != 1 {
		t.Errorf("%d taken, error %v", taken, err)
	}
}

func TestWebhookConfig(t *testing.T) {
	valid := WebhookConfig{Name: "ops", URL: "https://hooks.example.org/x", SecretFile: "k"}
	for want, change := range map[string]func(c *WebhookConfig){
		`sinks.webhooks[1].name: "" is no name`:                                        func(c *WebhookConfig) { c.Name = "" },
		`sinks.webhooks[1].name: "other" is taken`:                                     func(c *WebhookConfig) { c.Name = "other" },
		`sinks.webhooks[1].send[0]: "all" is unknown; set alerts, prescale or reports`: func(c *WebhookConfig) { c.Send = []string{"all"} },
		`sinks.webhooks[1].url: not an https URL`:                                      func(c *WebhookConfig) { c.URL = "hooks.example.org" },
		`sinks.webhooks[1].url: it carries a user or password`:                         func(c *WebhookConfig) { c.URL = "https://u:p@hooks.example.org" },
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

// TestWebhookSelects: send selects the notices that a webhook gets. The id says which notices are one
// message.
func TestWebhookSelects(t *testing.T) {
	events := must(NewWebhook(WebhookConfig{Name: "ops", URL: "https://a", SecretFile: "k"}))
	few := must(NewWebhook(WebhookConfig{Name: "few", URL: "https://a", SecretFile: "k", Send: []string{"alerts"}}))
	out, watchdog := decision("a", 1), alert("a", false)
	watchdog.Alert.Name = alerting.Watchdog
	for name, tt := range map[string]struct {
		notice      alerting.Notice
		events, few bool
	}{
		"alert": {alert("a", false), true, true}, "decision": {out, true, false}, "watchdog": {watchdog, false, false}, "nothing": {alerting.Notice{}, false, false},
	} {
		if got := [2]bool{events.Accepts(tt.notice), few.Accepts(tt.notice)}; got != [2]bool{tt.events, tt.few} {
			t.Errorf("%s: %v", name, got)
		}
	}
	if events.ID(out) == events.ID(decision("a", 9)) {
		t.Error("two decisions have one id")
	}
	later := alert("a", false)
	later.Alert.UpdatedAt = later.Alert.UpdatedAt.Add(time.Minute)
	if events.ID(later) != events.ID(alert("a", false)) || events.ID(later) == events.ID(alert("a", true)) {
		t.Error("an alert: want one message when it is raised and one when it is resolved")
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
