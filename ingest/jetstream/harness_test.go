package jetstream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
)

var nop = zap.NewNop()

// timeout is the most that a test waits for a server.
const timeout = time.Minute

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// testServer starts a server without a network socket, and connects to it.
func testServer(t *testing.T) (Config, jetstream.JetStream) {
	t.Helper()
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: listenNone, StoreDir: t.TempDir()}
	e := start(t, c)
	return c, connect(t, c, e)
}

func start(t *testing.T, c Config) *Embedded {
	t.Helper()
	e := must(StartEmbedded(testContext(t), c, nop))
	t.Cleanup(e.Shutdown)
	return e
}

func connect(t *testing.T, c Config, e *Embedded) jetstream.JetStream {
	t.Helper()
	conn := must(Connect(c, e))
	t.Cleanup(conn.Close)
	return must(jetstream.New(conn))
}

func telemetry(t *testing.T, js jetstream.JetStream, c Config) jetstream.Stream {
	return must(Ensure(testContext(t), js, c)).Telemetry
}

func publish(t *testing.T, js jetstream.JetStream, subject string, data []byte, headers ...string) {
	t.Helper()
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	for i := 0; i < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	if _, err := js.PublishMsg(testContext(t), m); err != nil {
		t.Fatal(err)
	}
}

// numbered is a request whose id is i.
func numbered(i int) []byte {
	return fmt.Appendf(nil, `{"id":"%d","pool":"p","arrived_at":1795240800000,"prompt_tokens":1}`, i)
}

// storedIDs reads the whole stream and returns the message ids in order.
func storedIDs(t *testing.T, stream jetstream.Stream) []string {
	t.Helper()
	ctx := testContext(t)
	info := must(stream.Info(ctx))
	var ids []string
	for sequence := info.State.FirstSeq; sequence <= info.State.LastSeq; sequence++ {
		m := must(stream.GetMsg(ctx, sequence))
		ids = append(ids, m.Header.Get(jetstream.MsgIDHeader))
	}
	return ids
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one about %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has more than one line: %q", err)
	}
}

// each calls f with each batch.
func each(f func(*ingest.Batch) error) func([]ingest.Batch) error {
	return func(batches []ingest.Batch) error {
		for i := range batches {
			if err := f(&batches[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
