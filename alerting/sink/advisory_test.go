package sink

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
)

// bodies is a stream that keeps the last published message.
type bodies struct{ got string }

func (b *bodies) PublishMsg(_ context.Context, m *nats.Msg, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	b.got = string(m.Data)
	return &jetstream.PubAck{}, nil
}

// TestAdvisoryIsMarked: every sink marks advisory notices, and only these.
func TestAdvisoryIsMarked(t *testing.T) {
	for _, mode := range []alerting.Mode{alerting.Advisory, alerting.Active} {
		cfg := alerting.DefaultConfig()
		cfg.Mode = mode
		event := decision("llama", 4)
		event.Decision.Mode, event.Decision.Action = mode, alerting.ScaleOut
		d := *event.Decision
		d.Stale = true
		condition := alerting.Conditions(&d, &forecaster.PoolForecast{}, cfg)[0]
		condition.Ticks = 1
		raised := new(alerting.AlertTracker).Update(d.Tick, []alerting.Condition{condition})[0]
		var got string
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = string(body)
		}))
		defer server.Close()
		stream := &bodies{}
		for name, kind := range kinds {
			s := kind.open(t, server.URL, stream)
			for what, n := range map[string]alerting.Notice{"event": event, "alert": {Alert: &raised}} {
				if !s.Accepts(n) {
					continue
				}
				got, stream.got = "", ""
				if err := s.Send(t.Context(), n); err != nil {
					t.Fatal(err)
				}
				if marked := strings.Contains(got+stream.got, "advisory"); marked != (mode == alerting.Advisory) {
					t.Errorf("%s mode, %s to %s: marked %t: %s", mode, what, name, marked, got+stream.got)
				}
			}
		}
	}
}
