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

// TestPermissions: without credentials a client may publish telemetry and read signals, but change nothing. With the
// password of the file it may do everything, also after the server was reopened.
func TestPermissions(t *testing.T) {
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Sync: SyncAlways}
	server := start(t, c)
	own := connect(t, c, server)
	stored := telemetry(t, own, c)
	if _, err := Ensure(testContext(t), own, c); err != nil {
		t.Fatal(err)
	}
	publish(t, own, "forewarm.alert.p", []byte("{}"))

	conn := must(nats.Connect(server.URL(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))
	defer conn.Close()
	js := must(jetstream.New(conn))
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(1))
	reader := must(js.OrderedConsumer(testContext(t), c.Signals(), jetstream.OrderedConsumerConfig{}))
	if _, err := reader.Next(); err != nil {
		t.Errorf("a reader of alerts: %v", err)
	}
	stream := must(js.Stream(testContext(t), c.Telemetry()))
	changes := map[string]func(context.Context, jetstream.JetStream) error{
		"delete":         func(ctx context.Context, js jetstream.JetStream) error { return js.DeleteStream(ctx, c.Telemetry()) },
		"delete signals": func(ctx context.Context, js jetstream.JetStream) error { return js.DeleteStream(ctx, c.Signals()) },
		"purge":          func(ctx context.Context, _ jetstream.JetStream) error { return stream.Purge(ctx) },
		"delete one":     func(ctx context.Context, _ jetstream.JetStream) error { return stream.DeleteMsg(ctx, 1) },
		"update": func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.UpdateStream(ctx, jetstream.StreamConfig{Name: c.Telemetry(), Subjects: []string{"other"}})
			return err
		},
		"create": func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "MINE", Subjects: []string{"mine"}})
			return err
		},
		"publish a prescale event": func(ctx context.Context, js jetstream.JetStream) error {
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
	if err := admin.DeleteStream(testContext(t), c.Telemetry()); err != nil {
		t.Error(err)
	}
}

// TestStreamIsRecreated: a telemetry stream that was deleted is created again, and read from its first message.
func TestStreamIsRecreated(t *testing.T) {
	c, js := testServer(t)
	telemetry(t, js, c)
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(1))
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(2))
	consumer := consumerOf(js, c, 1)
	var ids []string
	if err := consumer.Run(testContext(t), each(func(b *ingest.Batch) error {
		ids = append(ids, b.Requests[0].ID)
		switch len(ids) {
		case 2:
			if err := js.DeleteStream(testContext(t), c.Telemetry()); err != nil {
				return err
			}
			if made := Inspect(testContext(t), js, c).Made; len(made) != 1 || made[0] != c.Telemetry() {
				t.Errorf("made %v again", made)
			}
			for i := range 3 { // the new stream is as long as the old one was, and longer
				publish(t, js, "forewarm.telemetry.request.p.c", numbered(3+i))
			}
		case 5:
			return errEnough
		}
		return nil
	})); !errors.Is(err, errEnough) || strings.Join(ids, " ") != "1 2 3 4 5" {
		t.Errorf("read %v, %v", ids, err)
	}
}

// TestBrokenServer fills the disk of a server. The failed write is reported, although the server does not answer. With
// free space the reopened server accepts messages again, and has all that it acknowledged.
func TestBrokenServer(t *testing.T) {
	disk := testenv.SmallDisk(t, 40<<20)
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: listenNone, StoreDir: filepath.Join(disk, "nats")}
	c.Stream.MaxBytes = minBytes // more than the disk has; the server starts all the same
	server := start(t, c)
	js := connect(t, c, server)
	stream := telemetry(t, js, c)
	if room := Room(&c, c.Embedded.StoreDir, 0, 40<<20); !strings.Contains(room, "nats.stream.max_bytes is 64 MiB and nats.decisions.max_bytes 1024") || !strings.Contains(room, "40 MiB") {
		t.Errorf("Room: %q", room)
	}
	acknowledged := 0
	for server.Broken() == nil {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := js.Publish(ctx, "forewarm.telemetry.request.p.c", make([]byte, 1<<20)); err == nil {
			acknowledged++
		}
		cancel()
		if acknowledged > 40 {
			t.Fatal("more is stored than the disk can hold")
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
		t.Skip("this version of the server accepts messages again without Reopen")
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
		Config:    jetstream.StreamConfig{Name: c.Telemetry(), Replicas: 1, Discard: jetstream.DiscardNew, MaxBytes: 1},
	}
	got := strings.Join(faultsOf(&info, &c, now), "\n")
	for _, want := range []string{"1 of the 3 copies", "refuses new messages", "is -1m0s from"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	info = jetstream.StreamInfo{TimeStamp: now.Add(time.Second), Config: jetstream.StreamConfig{Name: c.Telemetry(), Replicas: 3}}
	if got := faultsOf(&info, &c, now); strings.Join(got, "") != "" {
		t.Errorf("a healthy stream: %v", got)
	}
}

// TestServerLog: the first failed write is logged and kept, in each form in which the server reports it. Later ones are
// not logged.
func TestServerLog(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	var broken atomic.Pointer[error]
	l := &serverLog{zap.New(core).Sugar(), make(chan error, 1), &broken}
	l.Errorf("%s", "another error")
	if broken.Load() != nil {
		t.Error("another error counts as a failed write")
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
