package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// TestPublisherStoresEachOnceAndInOrder cuts connections within a message, in both directions. So some messages are
// lost, and others are stored without an acknowledgement.
func TestPublisherStoresEachOnceAndInOrder(t *testing.T) {
	const cuts = 3
	ctx := testContext(t)
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()}
	server := start(t, c)
	stream := telemetry(t, connect(t, c, server), c)
	c.URL = "nats://" + cuttingProxy(t, strings.TrimPrefix(server.URL(), "nats://"), cuts, 7)
	publisher := publisherOf(t, c, nil)
	var want []string
	for i := range 3000 {
		want = append(want, fmt.Sprint(i))
		if err := publisher.Publish(ctx, fmt.Sprintf("forewarm.telemetry.request.p.c%d", i%3), want[i], identified(want[i])); err != nil {
			t.Fatal(err)
		}
	}
	if got := storedIDs(t, stream); !slices.Equal(got, want) {
		t.Errorf("stored %d messages, want %d in order", len(got), len(want))
	}
	if publisher.js.Conn().Stats().Reconnects == 0 {
		t.Error("no connection was cut, so the test shows nothing")
	}
}

func identified(id string) *ingest.Batch {
	return &ingest.Batch{Requests: []ingest.Request{{ID: id, Pool: "p", Attempt: 1, ArrivedAt: time.UnixMilli(1795240800000), PromptTokens: 1}}}
}

func publisherOf(t *testing.T, c Config, e *Embedded) *Publisher {
	t.Helper()
	conn := must(Connect(c, e))
	t.Cleanup(conn.Close)
	return must(NewPublisher(conn))
}

// cuttingProxy forwards connections to a server, and closes the first of them after some kilobytes. It returns its
// address.
func cuttingProxy(t *testing.T, server string, cuts int, seed uint64) string {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { listener.Close() })
	random := rand.New(rand.NewPCG(seed, 1))
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			up, down := int64(1<<40), int64(1<<40)
			if cuts--; cuts >= 0 {
				up, down = 600+random.Int64N(20_000), 2000+random.Int64N(10_000) // enough for the greeting
			}
			forward := func(to, from net.Conn, limit int64) {
				_, _ = io.CopyN(to, from, limit)
				to.Close()
				from.Close()
			}
			go forward(upstream, client, up)
			go forward(client, upstream, down)
		}
	}()
	return listener.Addr().String()
}

// TestPublisherErrors: a message that is too large, or whose subject is in no stream, is an error, and not retried
// without end.
func TestPublisherErrors(t *testing.T) {
	ctx := testContext(t)
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: listenNone, StoreDir: t.TempDir()}
	server := start(t, c)
	stream := telemetry(t, connect(t, c, server), c)
	publisher := publisherOf(t, c, server)

	err := publisher.Publish(ctx, "forewarm.telemetry.request.p.c", "big", identified(strings.Repeat("x", maxPayload)))
	wantError(t, err, "forewarm.telemetry.request.p.c", "maximum payload")
	if err := publisher.Publish(ctx, "forewarm.telemetry.request.p.c", "small", identified("1")); err != nil {
		t.Errorf("the next message: %v", err)
	}
	if got := strings.Join(storedIDs(t, stream), " "); got != "small" {
		t.Errorf("stored %q, want small", got)
	}

	err = publisher.Publish(ctx, "nowhere", "x", identified("1"))
	wantError(t, err, "nowhere", "stream holds this subject")

	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if err := publisher.Publish(ctx, "nowhere", "x", identified("1")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
