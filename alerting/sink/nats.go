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

// KeepsAll says that the stream is a history.
func (*NATS) KeepsAll() {}

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

// message is n as the stream stores it: a CloudEvent by the NATS binding 1.0.3, section 3. In structured mode the body is the
// whole event. In binary mode the body is its data, and headers carry the attributes. Only binary mode has ce-* headers,
// because readers take any ce-specversion header for binary mode. Their names are in lower case: nats.go reads headers
// case-sensitively.
func (s *NATS) message(n alerting.Notice) (*nats.Msg, error) {
	e, err := n.CloudEvent()
	if err != nil {
		return nil, err
	}
	m := &nats.Msg{Subject: s.deps.PrescaleSubject(e.Subject), Header: nats.Header{}}
	if n.Alert != nil {
		m.Subject = s.deps.AlertSubject(e.Subject)
		e.ID = n.ID() // each update of an alert is an event of its own
	}
	set := func(name, value string) { m.Header[name] = []string{headerValue(value)} }
	set(jetstream.MsgIDHeader, e.ID)
	if !s.cfg.Binary {
		set("Content-Type", alerting.StructuredType)
		m.Data, err = json.Marshal(e)
		return m, err
	}
	set("Content-Type", e.DataContentType)
	set("ce-specversion", e.SpecVersion)
	set("ce-id", e.ID)
	set("ce-source", e.Source)
	set("ce-type", e.Type)
	set("ce-subject", e.Subject)
	set("ce-time", e.Time.Format(time.RFC3339))
	set("ce-datacontenttype", e.DataContentType) // the SDK for Go reads this one, and not Content-Type
	m.Data = e.Data
	return m, nil
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
