package testenv

import (
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// StartNATS runs a nats-server with JetStream and these lines of configuration until the test ends.
func StartNATS(t testing.TB, lines ...string) (url string) {
	t.Helper()
	dir := t.TempDir()
	o, err := server.ProcessConfigFile(WriteFile(t, filepath.Join(dir, "nats.conf"),
		append(lines, "listen: "+FreeAddress(t), "jetstream {store_dir: "+dir+"}")...))
	if err != nil {
		t.Fatal(err)
	}
	return StartNATSWith(t, o)
}

func StartNATSWith(t testing.TB, o *server.Options) (url string) {
	t.Helper()
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(Patience) {
		t.Fatal("nats-server does not start")
	}
	return s.ClientURL()
}

// Subscribe returns a subscription without a limit on pending messages.
func Subscribe(t testing.TB, conn *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	s, err := conn.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	return s
}

// Messages iterates over the messages until none comes for half a second.
func Messages(s *nats.Subscription) iter.Seq[*nats.Msg] {
	return func(yield func(*nats.Msg) bool) {
		for {
			m, err := s.NextMsg(500 * time.Millisecond)
			if err != nil || !yield(m) {
				return
			}
		}
	}
}

// StoredSequence returns the sequence of the telemetry stream after everything that conn has published. It publishes an
// old watermark, which has no effect after the first record.
func StoredSequence(t testing.TB, conn *nats.Conn) uint64 {
	t.Helper()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(Patience))
	if err != nil {
		t.Fatal(err)
	}
	ack, err := js.Publish(t.Context(), "forewarm.telemetry.watermark._", []byte(`{"at":978307200000}`))
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}
