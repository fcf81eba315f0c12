package sink

import (
	"encoding/json"
	"mime"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/alerting"
)

// TestCloudEvents reads messages as a program does that knows only CloudEvents 1.0.2 and its NATS binding 1.0.3.
func TestCloudEvents(t *testing.T) {
	for _, pool := range []string{"chat", `llama 70.b "eu", 100 % ünïcode`} {
		n := decision(pool, 4)
		want := must(n.CloudEvent(nil))
		t.Run(pool, func(t *testing.T) {
			m := must(NewNATS(nil, "fw").message(n))
			attributes, data := readCloudEvent(t, m)
			for attribute, value := range map[string]string{
				"specversion": "1.0", "id": want.ID, "source": want.Source, "type": want.Type, "subject": pool, "datacontenttype": "application/json",
			} {
				if attributes[attribute] != value {
					t.Errorf("%s is %q, want %q", attribute, attributes[attribute], value)
				}
			}
			if at, err := time.Parse(time.RFC3339, attributes["time"]); err != nil || !at.Equal(want.Time) {
				t.Errorf("time is %q", attributes["time"])
			}
			var got alerting.Prescale
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Data, any(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// readCloudEvent checks a message against the rules of CloudEvents, and returns its attributes and data.
func readCloudEvent(t *testing.T, m *nats.Msg) (attributes map[string]string, data []byte) {
	t.Helper()
	if kind := m.Header.Get("Content-Type"); kind != "application/cloudevents+json" {
		t.Errorf("content type %q", kind)
	}
	for name := range m.Header {
		if strings.HasPrefix(strings.ToLower(name), "ce-") {
			t.Errorf("header %s: a reader would expect binary mode", name)
		}
	}
	var event map[string]json.RawMessage
	if err := json.Unmarshal(m.Data, &event); err != nil {
		t.Fatal(err)
	}
	attributes, data = map[string]string{}, event["data"]
	delete(event, "data")
	for name, raw := range event {
		var value string
		if err := json.Unmarshal(raw, &value); err != nil {
			t.Errorf("attribute %s is %s, not a string", name, raw)
		}
		attributes[name] = value
	}
	for name, value := range attributes {
		if !regexp.MustCompile(`^[a-z0-9]{1,20}$`).MatchString(name) || value == "" {
			t.Errorf("attribute %q: %q", name, value)
		}
	}
	if _, err := url.Parse(attributes["source"]); err != nil {
		t.Errorf("source: %v", err)
	}
	if _, _, err := mime.ParseMediaType(attributes["datacontenttype"]); err != nil {
		t.Errorf("datacontenttype: %v", err)
	}
	return attributes, data
}
