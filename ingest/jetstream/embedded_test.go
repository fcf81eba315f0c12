package jetstream

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestWhoMayDoWhat: without credentials clients publish telemetry and read what is said, and change nothing; who knows
// the password from the file may do everything, also after the server was opened again.
func TestWhoMayDoWhat(t *testing.T) {
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Sync: SyncAlways}
	server := start(t, c)
	own := connect(t, c, server)
	stored := telemetry(t, own, c)
	if _, err := Ensure(testContext(t), own, c); err != nil {
		t.Fatal(err)
	}
	publish(t, own, "forewarm.alert.p", []byte("{}"))

	conn, err := nats.Connect(server.URL(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(1))
	reader, err := js.OrderedConsumer(testContext(t), SignalsStream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Next(); err != nil {
		t.Errorf("a reader of alerts: %v", err)
	}
	stream, err := js.Stream(testContext(t), c.Stream.Name)
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]func(context.Context, jetstream.JetStream) error{
		"delete":         func(ctx context.Context, js jetstream.JetStream) error { return js.DeleteStream(ctx, c.Stream.Name) },
		"delete signals": func(ctx context.Context, js jetstream.JetStream) error { return js.DeleteStream(ctx, SignalsStream) },
		"purge":          func(ctx context.Context, _ jetstream.JetStream) error { return stream.Purge(ctx) },
		"delete one":     func(ctx context.Context, _ jetstream.JetStream) error { return stream.DeleteMsg(ctx, 1) },
		"update": func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.UpdateStream(ctx, jetstream.StreamConfig{Name: c.Stream.Name, Subjects: []string{"other"}})
			return err
		},
		"create": func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "MINE", Subjects: []string{"mine"}})
			return err
		},
		"say what Forewarm says": func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.Publish(ctx, "forewarm.prescale.p", []byte("{}"))
			return err
		},
	}
	for name, change := range changes {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := Denied(conn, change(ctx, js)); !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "Publish to") {
			t.Errorf("%s without credentials: %v", name, err)
		}
		cancel()
	}
	if ids := storedIDs(t, stored); len(ids) != 1 {
		t.Errorf("%d messages are stored", len(ids))
	}

	if err := server.Reopen(testContext(t)); err != nil {
		t.Fatal(err)
	}
	file := CredentialFile(c.Embedded.StoreDir)
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	c.URL, c.User, c.PasswordFile = server.URL(), administrator, file
	admin := connect(t, c, nil)
	if err := admin.DeleteStream(testContext(t), c.Stream.Name); err != nil {
		t.Error(err)
	}
}

// TestStreamIsMadeAgain: a telemetry stream that somebody deletes is made again, and read from its beginning.
func TestStreamIsMadeAgain(t *testing.T) {
	c, js := testServer(t)
	telemetry(t, js, c)
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(1))
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(2))
	cfg := consumerOf(js, c, 1)
	remade := make(chan struct{}, 1)
	cfg.Missing = func(ctx context.Context) error {
		_, err := EnsureTelemetry(ctx, js, c)
		remade <- struct{}{}
		return err
	}
	consumer := NewConsumer(js, cfg)
	var ids []string
	if err := consumer.Run(testContext(t), each(func(b *ingest.Batch) error {
		ids = append(ids, b.Requests[0].ID)
		switch len(ids) {
		case 2:
			if err := js.DeleteStream(testContext(t), c.Stream.Name); err != nil {
				return err
			}
			go func() {
				<-remade
				publish(t, js, "forewarm.telemetry.request.p.c", numbered(3))
			}()
		case 3:
			return errEnough
		}
		return nil
	})); !errors.Is(err, errEnough) || strings.Join(ids, " ") != "1 2 3" {
		t.Errorf("read %v, %v", ids, err)
	}
}

// TestBrokenServer fills a real disk under a server: the write that fails is known though the server answers nobody,
// and once there is room the server takes messages again when it is opened again, with all that it acknowledged.
func TestBrokenServer(t *testing.T) {
	disk := testenv.SmallDisk(t, 40<<20)
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: listenNone, StoreDir: filepath.Join(disk, "nats")}
	c.Stream.MaxBytes = minBytes // more than the disk has, and yet it starts
	server := start(t, c)
	js := connect(t, c, server)
	stream := telemetry(t, js, c)
	if room := Room(&c, c.Embedded.StoreDir, 0, 40<<20); !strings.Contains(room, "nats.stream.max_bytes is 64 MiB and nats.decisions.max_bytes 1024") || !strings.Contains(room, "40 MiB") {
		t.Errorf("the room is judged %q", room)
	}
	acknowledged := 0
	for server.Broken() == nil {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := js.Publish(ctx, "forewarm.telemetry.request.p.c", make([]byte, 1<<20)); err == nil {
			acknowledged++
		}
		cancel()
		if acknowledged > 40 {
			t.Fatal("the disk does not fill")
		}
		if acknowledged == 20 {
			if err := os.WriteFile(filepath.Join(disk, "ballast"), make([]byte, 15<<20), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Remove(filepath.Join(disk, "ballast")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := js.Publish(ctx, "forewarm.telemetry.request.p.c", nil); err == nil {
		t.Skip("this server takes messages again by itself: reopening is not needed any more")
	}
	if err := server.Reopen(testContext(t)); err != nil || server.Broken() != nil {
		t.Fatal(err, server.Broken())
	}
	testenv.Await(t, "the connection to be back", func() bool {
		_, err := js.Publish(testContext(t), "forewarm.telemetry.request.p.c", nil)
		return err == nil
	})
	if ids := storedIDs(t, stream); len(ids) < acknowledged+1 {
		t.Errorf("%d messages are stored, %d were acknowledged", len(ids)-1, acknowledged)
	}
}

func TestFaults(t *testing.T) {
	now := time.Now()
	c := DefaultConfig()
	c.Stream.Replicas = 3
	info := jetstream.StreamInfo{
		TimeStamp: now.Add(-time.Minute),
		Config:    jetstream.StreamConfig{Name: "T", Replicas: 1, Discard: jetstream.DiscardNew, MaxBytes: 1},
		Cluster:   &jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{{Name: "n2", Offline: true}, {Name: "n3", Current: true}}},
	}
	got := strings.Join(TelemetryFaults(&info, &c, now), "\n")
	for _, want := range []string{"1 of the 3 copies", "on n2 is offline", "refuses new messages", "is -1m0s from"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not said in\n%s", want, got)
		}
	}
	info = jetstream.StreamInfo{TimeStamp: now.Add(time.Second), Config: jetstream.StreamConfig{Name: "T", Replicas: 3}}
	if got := TelemetryFaults(&info, &c, now); strings.Join(got, "") != "" {
		t.Errorf("nothing is wrong, and said is %v", got)
	}
}

// TestServerLog: the first failed write is logged and kept, in whatever form the server reports it; the rest is left out.
func TestServerLog(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	var broken atomic.Pointer[error]
	l := &serverLog{zap.New(core).Sugar(), make(chan error, 1), &broken}
	l.Errorf("%s", "another error")
	if broken.Load() != nil {
		t.Error("a failed write is reported")
	}
	const first = "JetStream failed to store a msg on stream 'S': no space left on device"
	l.Errorf("%s", first)
	l.Errorf("%s", first)
	l.Errorf("Critical write error: %v", io.ErrShortWrite)
	if err := broken.Load(); err == nil || (*err).Error() != first {
		t.Errorf("%v", err)
	}
	if n := logs.Len(); n != 2 {
		t.Errorf("%d lines are logged, want 2", n)
	}
}
