package cloudevents

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/sink"
)

// TestEvents reads pre-scale events and alerts of both modes with the CloudEvents SDK. A consumer must get the numbers that
// were sent: a number that is silently 0 would scale a pool to nothing.
func TestEvents(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	decision := alerting.Notice{Decision: &alerting.Decision{
		Pool: "chat", Generation: 7, Tick: at, Expires: at.Add(10 * time.Minute), Action: alerting.ScaleOut, Desired: 5, Reason: "KV runs out",
	}}
	alert := alerting.Notice{Alert: &alerting.Alert{
		Name: alerting.TooLateToWarm, Labels: map[string]string{"pool": "chat"}, Annotations: map[string]string{"summary": "KV runs out"},
		StartsAt: at, UpdatedAt: at, EndsAt: at.Add(5 * time.Minute),
	}}
	for mode, cfg := range map[string]sink.NATSConfig{"structured": {}, "binary": {Binary: true}} {
		t.Run(mode, func(t *testing.T) {
			e := send(t, cfg, decision)
			var d alerting.Prescale
			if err := e.DataAs(&d); err != nil {
				t.Fatal(err)
			}
			if e.Type() != alerting.EventType || e.ID() != "chat-7" || e.Subject() != "chat" || !e.Time().Equal(at) || e.DataContentType() != "application/json" {
				t.Errorf("attributes: %s", e)
			}
			if d.DesiredReplicas != 5 || d.Generation != 7 || d.Action != alerting.ScaleOut || d.Reason != "KV runs out" {
				t.Errorf("data: %+v", d)
			}
			e = send(t, cfg, alert)
			var a alerting.AlertData
			if err := e.DataAs(&a); err != nil {
				t.Fatal(err)
			}
			if e.Type() != alerting.AlertType || e.Subject() != "chat" || a.Name != alerting.TooLateToWarm || a.State != "firing" || a.Annotations["summary"] != "KV runs out" {
				t.Errorf("%s\ndata: %+v", e, a)
			}
		})
	}
}

// send returns the event that the SDK reads from the message of a notice.
func send(t *testing.T, cfg sink.NATSConfig, n alerting.Notice) event.Event {
	t.Helper()
	var stored stream
	s := sink.NewNATS(cfg, sink.Deps{NATS: &stored, PrescaleSubject: strings.Clone, AlertSubject: strings.Clone})
	if err := s.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	e, err := binding.ToEvent(t.Context(), &message{stored.last})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	return *e
}

// stream keeps the newest message.
type stream struct{ last *nats.Msg }

func (s *stream) PublishMsg(_ context.Context, m *nats.Msg, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	s.last = m
	return new(jetstream.PubAck), nil
}

// message gives the SDK a NATS message by the rules of its protocol nats_jetstream: a header ce-specversion makes it binary,
// whatever the content type says, and header names are case-sensitive.
type message struct{ msg *nats.Msg }

var attributes = spec.WithPrefix("ce-")

func (m *message) ReadEncoding() binding.Encoding {
	if m.msg.Header.Get("ce-specversion") != "" {
		return binding.EncodingBinary
	}
	return binding.EncodingStructured
}

func (m *message) ReadStructured(ctx context.Context, w binding.StructuredWriter) error {
	if m.ReadEncoding() != binding.EncodingStructured {
		return binding.ErrNotStructured
	}
	return w.SetStructuredEvent(ctx, format.JSON, bytes.NewReader(m.msg.Data))
}

func (m *message) ReadBinary(_ context.Context, w binding.BinaryWriter) error {
	version := attributes.Version(m.msg.Header.Get("ce-specversion"))
	for name, values := range m.msg.Header {
		var err error
		if a := version.Attribute(name); a != nil {
			err = w.SetAttribute(a, values[0])
		} else if extension, ok := strings.CutPrefix(name, "ce-"); ok {
			err = w.SetExtension(extension, values[0])
		}
		if err != nil {
			return err
		}
	}
	return w.SetData(bytes.NewReader(m.msg.Data))
}

func (m *message) GetAttribute(k spec.Kind) (spec.Attribute, any) {
	if v := m.msg.Header.Get("ce-" + k.String()); v != "" {
		return attributes.Version("1.0").AttributeFromKind(k), v
	}
	return nil, nil
}

func (m *message) GetExtension(string) any { return nil }

func (*message) Finish(error) error { return nil }
