package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
)

// NATSConfig is the nats block.
type NATSConfig struct {
	Off    bool `yaml:"off"`    // publish neither events nor alerts
	Binary bool `yaml:"binary"` // CloudEvents in binary mode: attributes in headers, data in the body
}

// Publisher is the part of jetstream.JetStream that the NATS sink uses. PublishMsg returns when the stream has stored
// the message.
type Publisher interface {
	PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error)
}

// NATS publishes pre-scale events and alerts to JetStream. The message id makes the stream drop what a retry repeats.
type NATS struct {
	cfg  NATSConfig
	deps Deps
}

// NewNATS is the sink that publishes through deps.NATS.
func NewNATS(c NATSConfig, deps Deps) *NATS { return &NATS{c, deps} }

// Name is "nats".
func (*NATS) Name() string { return "nats" }

// Send publishes n and waits until the stream has it. A message that the server's limits forbid is [alerting.Permanent].
func (s *NATS) Send(ctx context.Context, n alerting.Notice) error {
	m, err := s.message(n)
	if err != nil {
		return alerting.Permanent{Err: err}
	}
	if _, err = s.deps.NATS.PublishMsg(ctx, m); err == nil {
		return nil
	}
	err = fmt.Errorf("publish to %s: %w", m.Subject, err)
	if errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) {
		return alerting.Permanent{Err: err}
	}
	return err
}

// message is n as the stream stores it: a pre-scale event as a CloudEvent, or an alert as JSON.
//
// CloudEvents are by the NATS binding 1.0.3. Its content type says in which mode an event is: application/cloudevents+json
// is structured, and the body is all of the event; any other is binary, and the body is its data. Attributes are in headers
// in both, for consumers that filter without parsing; in lower case, because nats.go reads headers case-sensitively.
func (s *NATS) message(n alerting.Notice) (*nats.Msg, error) {
	if n.Alert != nil {
		body, err := json.Marshal(n.Alert)
		m := &nats.Msg{Subject: s.deps.AlertSubject(n.Alert.Labels["pool"]), Data: body, Header: nats.Header{}}
		m.Header["Content-Type"] = []string{"application/json"}
		id := fmt.Sprintf("%s@%d", n.Alert.Identity(), n.Alert.UpdatedAt.UnixMilli())
		m.Header[jetstream.MsgIDHeader] = []string{headerValue(id)}
		return m, err
	}
	e := alerting.NewEvent(n.Decision)
	contentType, content := alerting.StructuredType, any(e)
	if s.cfg.Binary {
		contentType, content = e.DataContentType, e.Data
	}
	body, err := json.Marshal(content)
	m := &nats.Msg{Subject: s.deps.PrescaleSubject(e.Subject), Data: body, Header: nats.Header{}}
	for _, h := range [][2]string{
		{"Content-Type", contentType}, {jetstream.MsgIDHeader, e.ID},
		{"ce-specversion", e.SpecVersion}, {"ce-id", e.ID}, {"ce-source", e.Source}, {"ce-type", e.Type},
		{"ce-subject", e.Subject}, {"ce-time", e.Time.Format(time.RFC3339)}, {"ce-datacontenttype", e.DataContentType},
	} {
		m.Header[h[0]] = []string{headerValue(h[1])}
	}
	return m, err
}

// headerValue percent-encodes what a CloudEvents header may not carry: space, ", % and all that is not printable ASCII.
func headerValue(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '"' || c == '%' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
