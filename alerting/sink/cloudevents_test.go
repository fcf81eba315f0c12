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

// TestCloudEvents reads messages of both modes as a stranger would who knows only CloudEvents 1.0.2 and its NATS binding
// 1.0.3, and wants the same event from both.
func TestCloudEvents(t *testing.T) {
	for _, pool := range []string{"chat", `llama 70.b "eu", 100 % ünïcode`} {
		n := decision(pool, 4)
		want := alerting.NewEvent(n.Decision)
		for name, cfg := range map[string]NATSConfig{"structured": {}, "binary": {Binary: true}} {
			t.Run(name+" "+pool, func(t *testing.T) {
				m, err := NewNATS(cfg, subjects).message(n)
				if err != nil {
					t.Fatal(err)
				}
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
				if diff := cmp.Diff(want.Data, got); diff != "" {
					t.Error(diff)
				}
				if got, err := alerting.ReadPrescale(m.Header.Get("Content-Type"), m.Data); err != nil || !cmp.Equal(want.Data, got) {
					t.Errorf("a consumer of ours reads %+v, %v", got, err)
				}
				if structured := strings.HasPrefix(m.Header.Get("Content-Type"), "application/cloudevents"); structured == cfg.Binary {
					t.Errorf("content type %q", m.Header.Get("Content-Type"))
				}
			})
		}
	}
}

// readCloudEvent gives the attributes and the data of a message, having checked the rules for both.
func readCloudEvent(t *testing.T, m *nats.Msg) (attributes map[string]string, data []byte) {
	t.Helper()
	headers := map[string]string{}
	for name, values := range m.Header {
		attribute, ok := strings.CutPrefix(name, "ce-")
		if !ok {
			continue
		}
		if len(values) != 1 || strings.ContainsFunc(values[0], func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
			t.Errorf("header %s: %q is not encoded", name, values)
		}
		decoded, err := url.PathUnescape(values[0])
		if err != nil {
			t.Errorf("header %s: %v", name, err)
		}
		headers[attribute] = decoded
	}
	attributes, data = headers, m.Data
	if strings.HasPrefix(m.Header.Get("Content-Type"), "application/cloudevents") {
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
		if len(headers) > 0 {
			t.Errorf("ce-* headers on a structured event: a reader takes it for a binary one: %v", headers)
		}
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
