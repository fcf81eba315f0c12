package cloudevents

import (
	"context"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/sink"
)

// TestEvents reads a pre-scale event and an alert from a NATS server with the CloudEvents SDK and its protocol for
// JetStream. A consumer must get the numbers that were sent, because a number that is silently 0 would scale a pool to
// zero.
func TestEvents(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	decision := alerting.Notice{Decision: &alerting.Decision{
		Pool: "chat", Generation: 7, Tick: at, Expires: at.Add(10 * time.Minute), Action: alerting.ScaleOut, Desired: 5, Reason: "KV runs out",
	}}
	alert := alerting.Notice{Alert: &alerting.Alert{
		Name: alerting.TooLateToWarm, Labels: map[string]string{"pool": "chat"}, Annotations: map[string]string{"summary": "KV runs out"},
		StartsAt: at, UpdatedAt: at, EndsAt: at.Add(5 * time.Minute),
	}}
	e := send(t, decision)
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
	e = send(t, alert)
	var a alerting.AlertData
	if err := e.DataAs(&a); err != nil {
		t.Fatal(err)
	}
	if e.Type() != alerting.AlertType || e.Subject() != "chat" || a.Name != alerting.TooLateToWarm || a.State != "firing" || a.Annotations["summary"] != "KV runs out" {
		t.Errorf("%s\ndata: %+v", e, a)
	}
}

// send publishes a notice with the sink, and returns the event that the SDK receives.
func send(t *testing.T, n alerting.Notice) event.Event {
	t.Helper()
	conn := connect(t)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "events", Subjects: []string{"events.>"}, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	s := sink.NewNATS(js, "events")
	if err := s.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	consumer, err := nats_jetstream.NewConsumerFromConn(conn, "events", "events.>", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cloudevents.NewClient(consumer)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	received := make(chan event.Event, 1)
	if err := client.StartReceiver(ctx, func(e event.Event) {
		received <- e
		stop()
	}); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	select {
	case e := <-received:
		return e
	default:
		t.Fatal("the SDK receives no event")
		panic("unreachable")
	}
}

// connect starts a server until the test ends, and connects to it.
func connect(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}
