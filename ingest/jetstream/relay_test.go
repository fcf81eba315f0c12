package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/testenv"
)

const planted = "a planted prompt"

// usage is an OpenAI response with a prompt in it.
func usage(id string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"created":1795240800,"model":"m","choices":[{"message":{"content":%q}}],"usage":{"prompt_tokens":9}}`, id, planted)
}

// relaying runs a relay of the sources of c until stop, or until the test ends.
func relaying(t *testing.T, c Config, js jetstream.JetStream, store func(context.Context, *ingest.Batch) error, refused func([]ingest.Refusal)) (r *Relay, stop func()) {
	t.Helper()
	before := js.Conn().NumSubscriptions()
	r = &Relay{
		Conn: js.Conn(), Sources: c.Relayed(nil), Stream: c.Telemetry(), Store: store, Refused: refused, Ignored: func(int) {}, Log: nop,
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	testenv.Await(t, "the relay to subscribe", func() bool { return js.Conn().NumSubscriptions() > before })
	return r, stop
}

// TestRelayStoresNoPrompt: messages of a source with prompts are stored in the telemetry stream as native records. A
// publisher gets an acknowledgement as from that stream.
func TestRelayStoresNoPrompt(t *testing.T) {
	ctx := testContext(t)
	c, js := testServer(t)
	c.Sources = []Source{{Subject: "gateway.usage", Format: "openai", Pool: "p", Class: "c"}}
	stream := telemetry(t, js, c)
	if got := stream.CachedInfo().Config.Subjects; slices.Contains(got, "gateway.usage") {
		t.Fatalf("the telemetry stream has the subjects %v", got)
	}
	stored, refusals := make(chan struct{}, 9), make(chan ingest.Refusal, 9)
	writer := NewStreamWriter(js, c.Prefix)
	relaying(t, c, js, func(ctx context.Context, b *ingest.Batch) error {
		err := writer.Store(ctx, b)
		for range b.Requests {
			stored <- struct{}{}
		}
		return err
	}, func(all []ingest.Refusal) {
		for _, r := range all {
			refusals <- r
		}
	})
	publish(t, js, "gateway.usage", usage("a"), codec.HeaderSource, "g-0")
	publish(t, js, "gateway.usage", []byte(`{"id":"b","created":"`+planted+`","text":"`+planted+`"}`))
	publish(t, js, "gateway.usage", usage("c"), codec.HeaderSource, "g-1")
	<-stored
	<-stored
	if r := <-refusals; r.Reason != ingest.ReasonBadTime || strings.Contains(r.Detail, "planted") {
		t.Errorf("refused %s: %s", r.Reason, r.Detail)
	}
	var got ingest.Batch
	info := must(stream.Info(ctx))
	for sequence := info.State.FirstSeq; sequence <= info.State.LastSeq; sequence++ {
		m := must(stream.GetMsg(ctx, sequence))
		if bytes.Contains(m.Data, []byte("planted")) {
			t.Errorf("stored %q", m.Data)
		}
		codec.Decode(codec.Meta{ContentType: m.Header.Get("Content-Type")}, m.Data, ingest.DefaultLimits(), &got)
	}
	slices.SortFunc(got.Requests, func(a, b ingest.Request) int { return strings.Compare(a.ID, b.ID) })
	if len(got.Requests) != 2 || got.Requests[0].ID != "a" || got.Requests[1].ID != "c" || got.Requests[1].Pool != "p" || got.Requests[1].Class != "c" {
		t.Errorf("the telemetry stream has %+v", got.Requests)
	}
}

// TestRelayRetries: a message that could not be stored is stored later, once. At the end messages that have arrived are
// still stored.
func TestRelayRetries(t *testing.T) {
	c, js := testServer(t)
	c.Sources = []Source{{Subject: "gateway.usage", Format: "openai", Pool: "p"}}
	telemetry(t, js, c)
	attempts, answers := make(chan []ingest.Request), make(chan error)
	_, stop := relaying(t, c, js, func(_ context.Context, b *ingest.Batch) error {
		attempts <- slices.Clone(b.Requests)
		return <-answers
	}, func([]ingest.Refusal) {})
	send := func(id string) {
		if err := errors.Join(js.Conn().Publish("gateway.usage", usage(id)), js.Conn().Flush()); err != nil {
			t.Fatal(err)
		}
	}
	send("a")
	for _, answer := range []error{errors.New("no stream"), nil} {
		if got := <-attempts; len(got) != 1 || got[0].ID != "a" {
			t.Fatalf("stored %+v, want a", got)
		}
		if answer == nil {
			send("b")
			send("c")
			go stop()
		}
		answers <- answer
	}
	var got []string
	for range 2 {
		for _, x := range <-attempts {
			got = append(got, x.ID)
		}
		answers <- nil
	}
	if slices.Sort(got); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("stored %v, want b and c", got)
	}
}

// TestRelayIsBounded: while nothing can be stored, messages above the bound are dropped and counted.
func TestRelayIsBounded(t *testing.T) {
	c, js := testServer(t)
	c.Sources = []Source{{Subject: "gateway.usage", Format: "openai", Pool: "p"}}
	telemetry(t, js, c)
	storing, hold := make(chan struct{}, 1), make(chan struct{})
	r, _ := relaying(t, c, js, func(context.Context, *ingest.Batch) error {
		storing <- struct{}{}
		<-hold
		return nil
	}, func([]ingest.Refusal) {})
	large := append(usage("a"), bytes.Repeat([]byte(" "), 1<<20)...)
	const sent = relayStores + relayBytes>>20 + 10
	for i := range sent {
		if err := errors.Join(js.Conn().Publish("gateway.usage", large), js.Conn().Flush()); err != nil {
			t.Fatal(err)
		}
		if i < relayStores {
			<-storing
		}
	}
	go func() {
		for range storing {
		}
	}()
	close(hold)
	testenv.Await(t, "messages to be lost", func() bool { return r.Lost.Load() > 0 })
	if n := r.Lost.Load(); n < 10 || n > 20 {
		t.Errorf("%d of %d messages are lost, want 10 to 20", n, sent)
	}
}

// TestRelayedSources: the telemetry stream has the subjects of sources without prompts. The others are relayed.
func TestRelayedSources(t *testing.T) {
	c, js := testServer(t)
	c.Sources = []Source{{Subject: "a", Format: "dynamo"}, {Subject: "b", Format: "envoy"}, {Subject: "c.d", Format: "sglang"}}
	if got := telemetry(t, js, c).CachedInfo().Config.Subjects[2:]; !slices.Equal(got, []string{"a"}) {
		t.Errorf("the telemetry stream has the subjects %v", got)
	}
	if got := c.Relayed([]string{"forewarm.>", "c.>"}); len(got) != 1 || got[0].Subject != "b" { // a stream of the user has c.d
		t.Errorf("%+v are relayed", got)
	}
}

// TestRelayEndsInAnOutage: a stream that takes nothing does not keep the daemon from ending.
func TestRelayEndsInAnOutage(t *testing.T) {
	c, js := testServer(t)
	c.Sources = []Source{{Subject: "gateway.usage", Format: "openai", Pool: "p"}}
	telemetry(t, js, c)
	storing := make(chan struct{}, 1)
	r, stop := relaying(t, c, js, func(ctx context.Context, _ *ingest.Batch) error {
		storing <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, func([]ingest.Refusal) {})
	if err := errors.Join(js.Conn().Publish("gateway.usage", usage("a")), js.Conn().Flush()); err != nil {
		t.Fatal(err)
	}
	<-storing
	stop()
	if n := r.Lost.Load(); n != 1 {
		t.Errorf("%d messages are lost, want 1", n)
	}
}
