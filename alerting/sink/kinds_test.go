package sink

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/alerting"
)

// kind is one kind of sink, for the tests that are about all.
type kind struct {
	open func(t *testing.T, url string, stream Publisher) alerting.Sink
	// Only of sinks that send over HTTP: the id by which the consumer recognizes a repeat; the outcome of status 410; and
	// whether messages are signed.
	id    func(r *http.Request, body []byte) string
	gone  outcome
	signs bool
}

// kinds are all sinks, by the first part of their names.
var kinds = map[string]kind{
	"nats": {open: func(_ *testing.T, _ string, stream Publisher) alerting.Sink { return NewNATS(stream, "fw") }},
	"alertmanager": {
		open: func(t *testing.T, url string, _ Publisher) alerting.Sink {
			return newPeer(t, AlertmanagerConfig{URLs: []string{url}})
		},
		gone: refused,
		id: func(_ *http.Request, body []byte) string {
			var alerts []postable
			if err := json.Unmarshal(body, &alerts); err != nil || len(alerts) != 1 {
				return fmt.Sprintf("%d alerts, %v", len(alerts), err)
			}
			return fmt.Sprint(alerts[0].Labels, alerts[0].StartsAt)
		},
	},
	"webhook": {
		open: func(t *testing.T, url string, _ Publisher) alerting.Sink {
			return must(NewWebhook(WebhookConfig{Name: "ops", URL: url, SecretFile: keyFile(t, testKey)}))
		},
		gone:  disabled,
		id:    func(r *http.Request, _ []byte) string { return r.Header.Get("webhook-id") },
		signs: true,
	},
}

// TestKinds: kinds has all sinks. The literals without field names do not compile if the configuration has a sink more.
func TestKinds(t *testing.T) {
	config := Config{AlertmanagerConfig{URLs: []string{"http://localhost:9093"}}, []WebhookConfig{{Name: "ops", URL: "https://example.org", SecretFile: "keys"}}}
	sinks, err := Open(config, Deps{&bodies{}, "fw", nil})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range sinks {
		first, _, _ := strings.Cut(s.Name(), "/")
		names[first] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(kinds)), slices.Sorted(maps.Keys(names))); diff != "" {
		t.Errorf("kinds are not the sinks that Open builds (-kinds +built):\n%s", diff)
	}
}
