package jetstream

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestServerReopens: the server is reopened twice while a publisher without credentials writes and a consumer reads.
// Every message arrives once and in order.
func TestServerReopens(t *testing.T) {
	t.Parallel()
	const messages = 300
	restartAt := map[uint64]bool{messages / 3: true, messages * 2 / 3: true}
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: testenv.FreeAddress(t), StoreDir: t.TempDir()}
	server := start(t, c)
	js := connect(t, c, server)
	c.URL = server.URL() // the same after Reopen
	stream := telemetry(t, js, c)
	ctx := testContext(t)

	publisher := connect(t, c, nil)
	failed := make(chan error, 2)
	go func() { // waits until a message is stored before it sends the next, so that their order is known
		for i := range messages {
			m := &nats.Msg{Subject: "forewarm.telemetry.request.p.c", Data: numbered(i)}
			for {
				waiting, done := context.WithTimeout(ctx, time.Second) // a server that is closing may not answer
				_, err := publisher.PublishMsg(waiting, m, jetstream.WithMsgID(fmt.Sprint(i)))
				done()
				if err == nil {
					break
				}
				if !sleep.For(ctx, retryWait) {
					failed <- err
					return
				}
			}
		}
		failed <- nil
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

	consumer := consumerOf(js, c, 1)
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
	if n := consumer.Lost.Load(); n != 0 {
		t.Errorf("lost %d", n)
	}
	if ids := storedIDs(t, stream); len(ids) != messages {
		t.Errorf("stored %d messages, want %d", len(ids), messages)
	}
}
