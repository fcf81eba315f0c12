package sink

import (
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
)

func TestNATS(t *testing.T) {
	nc := must(nats.Connect(testenv.StartNATS(t, "max_payload: 65536")))
	defer nc.Close()
	js := must(jetstream.New(nc))
	stream := must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "out", Subjects: []string{"fw.>"}, Storage: jetstream.MemoryStorage}))
	s := NewNATS(js, "fw")
	for range 2 { // the second delivery of each is a retry
		for _, n := range []alerting.Notice{decision("llama 70.b", 4), alert("llama 70.b", false)} {
			if err := s.Send(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	info := must(stream.Info(t.Context()))
	if info.State.Msgs != 2 {
		t.Errorf("the stream holds %d messages, want 2: retries are not deduplicated", info.State.Msgs)
	}

	m := must(stream.GetLastMsgForSubject(t.Context(), "fw.prescale.llama%2070%2Eb"))
	if got := m.Header["Nats-Msg-Id"]; !cmp.Equal(got, []string{"llama%2070.b-4"}) {
		t.Errorf("message id %q", got)
	}
	m = must(stream.GetMsg(t.Context(), 2))
	var a alerting.CloudEvent[alerting.AlertData]
	if err := json.Unmarshal(m.Data, &a); err != nil {
		t.Fatal(err)
	}
	n := alert("llama 70.b", false)
	want := must(n.CloudEvent(nil))
	if diff := cmp.Diff(want.Data, any(a.Data)); diff != "" || a.ID != n.ID() || a.Type != want.Type || !a.Time.Equal(want.Time) {
		t.Error(diff)
	}

	large := decision("a", 1)
	large.Decision.Reason = strings.Repeat("x", 100<<10) // more than MaxPayload
	err := s.Send(t.Context(), large)
	if answer, _ := errors.AsType[alerting.SendError](err); !answer.Permanent {
		t.Errorf("too large: %v, want a permanent error", err)
	}
}

// TestNATSRecovers: a real server has a fault until the first failure. The notice is in the stream once.
func TestNATSRecovers(t *testing.T) {
	stream := jetstream.StreamConfig{Name: "out", Subjects: []string{"fw.>"}}
	type natsServer struct {
		dir  string
		port int
		*server.Server
		js jetstream.JetStream
	}
	start := func(t *testing.T, w *natsServer) {
		s := must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: w.port, JetStream: true, StoreDir: w.dir, NoLog: true, NoSigs: true}))
		s.Start()
		if !s.ReadyForConnections(10 * time.Second) {
			t.Fatal("NATS is not ready")
		}
		w.Server = s
	}
	create := func(t *testing.T, w *natsServer) jetstream.Stream {
		return must(w.js.CreateOrUpdateStream(t.Context(), stream))
	}
	stop := func(w *natsServer) {
		w.Shutdown()
		w.WaitForShutdown()
	}
	for name, tt := range map[string]struct {
		breaks, repairs func(t *testing.T, w *natsServer)
	}{
		"no stream": {func(*testing.T, *natsServer) {}, func(t *testing.T, w *natsServer) { create(t, w) }},
		"the stream is full": {func(t *testing.T, w *natsServer) {
			full := stream
			full.MaxMsgs, full.Discard = 1, jetstream.DiscardNew
			if _, err := w.js.CreateStream(t.Context(), full); err != nil {
				t.Fatal(err)
			}
			if _, err := w.js.Publish(t.Context(), "fw.other", nil); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, w *natsServer) { create(t, w) }},
		"reconnect": {func(t *testing.T, w *natsServer) {
			create(t, w)
			stop(w)
		}, start},
		"a slow consumer of the stream": {func(t *testing.T, w *natsServer) { // does not make publishing fail
			s := create(t, w)
			c := must(s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1}))
			if _, err := w.js.Publish(t.Context(), "fw.other", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Next(); err != nil { // never acknowledged
				t.Fatal(err)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &natsServer{dir: t.TempDir(), port: server.RANDOM_PORT}
			start(t, w)
			t.Cleanup(func() { stop(w) })
			nc := must(nats.Connect(w.ClientURL(), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1)))
			t.Cleanup(nc.Close)
			w.js = must(jetstream.New(nc))
			w.port = w.Addr().(*net.TCPAddr).Port
			tt.breaks(t, w)

			failed, log := make(chan error, 100), newMemoryLog()
			d := NewDispatcher([]alerting.Sink{NewNATS(w.js, "fw")}, log.open, func(_ string, _ alerting.Notice, _ int, err error) {
				select {
				case failed <- err:
				default:
				}
			})
			d.lanes[0].pace = pace{200 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond}
			stopDispatcher := dispatch(t, d)
			log.enqueue(decision("a", 1))
			if tt.repairs != nil {
				<-failed
				tt.repairs(t, w)
			}
			testenv.Await(t, "the event to be delivered", func() bool { return d.Stats()[0].Sent == 1 })
			if err := stopDispatcher(); err != nil {
				t.Fatal(err)
			}
			s := must(w.js.Stream(t.Context(), "out"))
			info := must(s.Info(t.Context(), jetstream.WithSubjectFilter("fw.prescale.>")))
			if info.State.Subjects["fw.prescale.a"] != 1 {
				t.Errorf("in the stream: %v", info.State.Subjects)
			}
		})
	}
}
