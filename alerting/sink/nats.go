package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
)

// Publisher is the part of jetstream.JetStream that the NATS sink uses. PublishMsg returns when the stream has stored
// the message.
type Publisher interface {
	PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error)
}

// NATS publishes pre-scale events and alerts to JetStream. The message id lets the stream drop duplicates of retries.
type NATS struct {
	to     Publisher
	prefix string // of subjects
}

// NewNATS is the sink that publishes on subjects with a prefix.
func NewNATS(to Publisher, prefix string) *NATS { return &NATS{to, prefix} }

// Name is "nats".
func (*NATS) Name() string { return "nats" }

// KeepsAll marks the stream as a history of all notices.
func (*NATS) KeepsAll() {}

// Accepts is true for decisions and alerts, but not for the watchdog.
func (*NATS) Accepts(n alerting.Notice) bool { return n.Report == nil && !isWatchdog(n) }

// Send publishes n and waits until the stream has it. A message that the server can never take is a permanent error.
func (s *NATS) Send(ctx context.Context, n alerting.Notice) error {
	m, err := s.message(n)
	if err != nil {
		return alerting.Permanent(err)
	}
	if _, err = s.to.PublishMsg(ctx, m); err == nil {
		return nil
	}
	err = fmt.Errorf("publish to %s: %w", m.Subject, err)
	if errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) {
		return alerting.Permanent(err)
	}
	return err
}

// message is n as a CloudEvent in structured mode (NATS binding 1.0.3, section 3). It has no ce-* headers, which mean
// binary mode.
func (s *NATS) message(n alerting.Notice) (*nats.Msg, error) {
	e, err := n.CloudEvent(nil)
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg(ingest.Subject(s.prefix, ingest.PrescaleSubject, e.Subject))
	if n.Alert != nil {
		m.Subject = ingest.Subject(s.prefix, ingest.AlertSubject, e.Subject)
		e.ID = n.ID() // each update of an alert is a separate event
	}
	m.Header.Set(jetstream.MsgIDHeader, headerValue(e.ID))
	m.Header.Set("Content-Type", alerting.StructuredType)
	m.Data, err = json.Marshal(e)
	return m, err
}

// headerValue percent-encodes space, ", % and all characters that are not printable ASCII.
func headerValue(s string) string { return ingest.Escape(s, notHeader, "%%%02X") }

var notHeader = regexp.MustCompile(`[^!-~]|["%]`)
