package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// weekly is a notice of a report.
func weekly() alerting.Notice {
	to := time.Date(2026, 3, 9, 7, 0, 0, 0, time.UTC)
	return alerting.Notice{Report: &alerting.Report{ID: "report-2026-03-09T0700Z-1f", Name: "report-2026-03-09T0700Z", From: to.AddDate(0, 0, -7), To: to,
		When:    "2 Mar 2026 07:00 to 9 Mar 2026 07:00 UTC",
		Summary: []string{"Two pools had telemetry.", "Nothing saturated."}}}
}

// pageOf renders each report as one page in every format.
func pageOf(page []byte) func(context.Context, *alerting.Report, string) ([]byte, error) {
	return func(context.Context, *alerting.Report, string) ([]byte, error) { return page, nil }
}

func TestReportWebhook(t *testing.T) {
	var bodies [][]byte
	server := consumer(t, testKey, func(id string, body []byte) {
		if id != "report-2026-03-09T0700Z-1f" {
			t.Errorf("id %q", id)
		}
		bodies = append(bodies, body)
	})
	large := append(append([]byte(`"`), bytes.Repeat([]byte("x"), maxEmbedded)...), '"')
	for _, page := range [][]byte{[]byte(`{"pools":[]}`), large} {
		sinks, err := Open(Config{Webhooks: []WebhookConfig{{Name: "ops", URL: server.URL, SecretFile: keyFile(t, testKey), Send: []string{"reports"}}}}, Deps{Page: pageOf(page)})
		if err != nil {
			t.Fatal(err)
		}
		s := sinks[0].(*Webhook)
		if !s.Accepts(weekly()) || s.Accepts(decision("a", 1)) {
			t.Error("a webhook with send: [reports] must accept reports, and nothing else")
		}
		if err := s.Send(t.Context(), weekly()); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{`{"pools":[]}`, "null"} {
		var event struct {
			ID, Type string
			Data     struct {
				Summary []string
				From    time.Time
				Report  json.RawMessage
			}
		}
		if err := json.Unmarshal(bodies[i], &event); err != nil {
			t.Fatal(err)
		}
		if event.Type != "forewarm.report.v1" || len(event.Data.Summary) != 2 || event.Data.From.IsZero() || string(event.Data.Report) != want {
			t.Errorf("%s", bodies[i][:200])
		}
	}
	if must(NewWebhook(WebhookConfig{Name: "ops", URL: "https://a", SecretFile: "k"})).Accepts(weekly()) {
		t.Error("a webhook without send accepts reports")
	}
}

// TestReportsDoNotDelayAlerts: a report that cannot be made does not delay the webhook of an alert.
func TestReportsDoNotDelayAlerts(t *testing.T) {
	alerts := make(chan struct{}, 1)
	hook := consumer(t, testKey, func(string, []byte) { alerts <- struct{}{} })
	full := errors.New("no space left on device")
	sinks := must(Open(Config{Webhooks: []WebhookConfig{{Name: "ops", URL: hook.URL, SecretFile: keyFile(t, testKey), Send: []string{"alerts", "reports"}}}},
		Deps{Page: func(context.Context, *alerting.Report, string) ([]byte, error) { return nil, full }}))
	failed := make(chan error, 8)
	log := newMemoryLog()
	d := NewDispatcher(sinks, log.open, func(_ string, _ alerting.Notice, _ int, err error) { failed <- err })
	stop := dispatch(t, d)
	log.enqueue(weekly(), alert("llama", false))
	<-alerts
	if err := <-failed; !errors.Is(err, full) {
		t.Error(err)
	}
	_ = stop() // an error about the reports that were not sent
}
