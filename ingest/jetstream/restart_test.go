package jetstream

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/ingest"
)

// TestRestartsOfTheServer opens the server anew twice while a publisher without credentials writes and a consumer reads: every message arrives
// once and in order.
func TestRestartsOfTheServer(t *testing.T) {
	t.Parallel()
	const messages = 3000
	restartAt := map[uint64]bool{messages / 3: true, messages * 2 / 3: true}
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()}
	server := start(t, c)
	js := connect(t, c, server)
	c.URL = server.URL() // and stays that
	stream := telemetry(t, js, c)
	ctx := testContext(t)

	publisher := NewPublisher(func() (*nats.Conn, error) { return Connect(c, nil, nats.NoReconnect()) }, 64, nop)
	failed := make(chan error, 2)
	go func() {
		defer publisher.Close()
		for i := range messages {
			if err := publisher.Publish(ctx, "forewarm.telemetry.request.p.c", fmt.Sprint(i), "", numbered(i)); err != nil {
				failed <- err
				return
			}
		}
		failed <- publisher.Flush(ctx)
	}()
	restart := make(chan struct{}, len(restartAt))
	go func() {
		for range restart {
			if err := server.Reopen(ctx); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()

	consumer := NewConsumer(js, consumerOf(js, c, 1))
	next := 0
	err := consumer.Run(ctx, each(func(b *ingest.Batch) error {
		if len(b.Requests) != 1 || b.Requests[0].ID != fmt.Sprint(next) || b.Sequence != uint64(next+1) {
			return fmt.Errorf("message %d: got %+v", next, b)
		}
		if restartAt[b.Sequence] {
			restart <- struct{}{}
		}
		if next++; next == messages {
			return errEnough
		}
		return nil
	}))
	close(restart)
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	if n := consumer.Lost(); n != 0 {
		t.Errorf("lost %d", n)
	}
	if ids := storedIDs(t, stream); len(ids) != messages {
		t.Errorf("stored %d messages, want %d", len(ids), messages)
	}
}
