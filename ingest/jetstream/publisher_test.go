package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestPublisherKeepsOrderWhenConnectionsBreak cuts connections in mid-message, in either direction: what was under way is
// lost, or stored without an acknowledgement.
func TestPublisherKeepsOrderWhenConnectionsBreak(t *testing.T) {
	for _, window := range []int{1, 7, 50} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			c := DefaultConfig()
			c.Embedded = EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()}
			server := start(t, c)
			stream := telemetry(t, connect(t, c, server), c)
			c.URL = "nats://" + frailProxy(t, strings.TrimPrefix(server.URL(), "nats://"), 10, uint64(window))

			publisher := NewPublisher(func() (*nats.Conn, error) { return Connect(c, nil, nats.NoReconnect()) }, window, nop)
			defer publisher.Close()
			var want []string
			for i := range 800 {
				want = append(want, fmt.Sprint(i))
				subject := fmt.Sprintf("forewarm.telemetry.request.p.c%d", i%3)
				if err := publisher.Publish(ctx, subject, want[i], "", numbered(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := publisher.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			got := storedIDs(t, stream)
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Fatalf("stored %d messages of %d, the first %d in order: %q …", len(got), len(want), i, got[min(i, len(got)):min(i+5, len(got))])
				}
			}
			if publisher.Resent() == 0 {
				t.Error("no message was sent again: the test breaks nothing")
			}
		})
	}
}

// frailProxy forwards connections to a server and breaks the first cuts of them after some kilobytes. It gives its
// address.
func frailProxy(t *testing.T, server string, cuts int, seed uint64) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
				up, down = 600+random.Int64N(20_000), 2000+random.Int64N(10_000) // the greeting fits
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

func TestPublisherGivesUpOnWhatNoServerTakes(t *testing.T) {
	ctx := testContext(t)
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: listenNone, StoreDir: t.TempDir()}
	server := start(t, c)
	stream := telemetry(t, connect(t, c, server), c)
	publisher := NewPublisher(func() (*nats.Conn, error) { return Connect(c, server, nats.NoReconnect()) }, 0, nop)
	defer publisher.Close()

	err := publisher.Publish(ctx, "forewarm.telemetry.request.p.c", "big", "", make([]byte, maxPayload+1))
	wantError(t, err, "forewarm.telemetry.request.p.c", "maximum payload")
	if err := errors.Join(publisher.Publish(ctx, "forewarm.telemetry.request.p.c", "small", "", numbered(1)), publisher.Flush(ctx)); err != nil {
		t.Errorf("the next message: %v", err)
	}
	if got := strings.Join(storedIDs(t, stream), " "); got != "small" {
		t.Errorf("stored %q, want small", got)
	}

	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if err := errors.Join(publisher.Publish(ctx, "nowhere", "x", "", nil), publisher.Flush(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestPublisherNamesASubjectThatNoStreamHolds(t *testing.T) {
	ctx := testContext(t)
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: listenNone, StoreDir: t.TempDir()}
	server := start(t, c)
	publisher := NewPublisher(func() (*nats.Conn, error) { return Connect(c, server, nats.NoReconnect()) }, 0, nop)
	defer publisher.Close()
	publisher.patience = 2
	err := errors.Join(publisher.Publish(ctx, "nowhere", "x", "", []byte("{}")), publisher.Flush(ctx))
	wantError(t, err, "nowhere", "stream holds this subject")
}
