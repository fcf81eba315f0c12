package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

const planted = "a planted prompt"

// usage is an OpenAI response with a prompt in it.
func usage(id string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"created":1795240800,"model":"m","choices":[{"message":{"content":%q}}],"usage":{"prompt_tokens":9}}`, id, planted)
}

// relaying makes the intake, and runs a relay until the test ends.
func relaying(t *testing.T, c Config, js jetstream.JetStream, store func(context.Context, *ingest.Batch) error, refused func([]ingest.Refusal)) jetstream.Stream {
	t.Helper()
	intake, err := EnsureIntake(testContext(t), js, c)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRelay(js, intake.CachedInfo().Config.Name, RelayConfig{
		Sources: c.Sources, Limits: ingest.DefaultLimits(), Store: store, Refused: refused, Ignored: func(int) {}, Log: nop,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return intake
}

// TestRelayStoresNoPrompt: what a source with prompts publishes comes to the telemetry stream as native records, and
// goes from where it waited.
func TestRelayStoresNoPrompt(t *testing.T) {
	ctx := testContext(t)
	c, js := testServer(t)
	c.Sources = []Source{{Subject: "gateway.usage", Format: "openai", Pool: "p", Class: "c"}}
	stream := telemetry(t, js, c)
	if got := stream.CachedInfo().Config.Subjects; slices.Contains(got, "gateway.usage") {
		t.Fatalf("the telemetry stream has %v", got)
	}
	stored, refusals := make(chan struct{}, 9), make(chan ingest.Refusal, 9)
	writer := NewStreamWriter(js, &c)
	intake := relaying(t, c, js, func(ctx context.Context, b *ingest.Batch) error {
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
	if got := intake.CachedInfo().Config; got.Storage != jetstream.MemoryStorage {
		t.Errorf("the intake is in %s storage", got.Storage)
	}
	publish(t, js, "gateway.usage", usage("a"), codec.HeaderSource, "g-0")
	publish(t, js, "gateway.usage", []byte(`{"id":"b","created":"`+planted+`","text":"`+planted+`"}`))
	publish(t, js, "gateway.usage", usage("c"), codec.HeaderSource, "g-1")
	<-stored
	<-stored
	if r := <-refusals; r.Reason != ingest.ReasonBadTime || strings.Contains(r.Detail, "planted") {
		t.Errorf("refused %s: %s", r.Reason, r.Detail)
	}
	var got ingest.Batch
	info, err := stream.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for sequence := info.State.FirstSeq; sequence <= info.State.LastSeq; sequence++ {
		m, err := stream.GetMsg(ctx, sequence)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(m.Data, []byte("planted")) {
			t.Errorf("stored %q", m.Data)
		}
		codec.Decode(codec.Meta{ContentType: m.Header.Get(headerContentType)}, m.Data, ingest.DefaultLimits(), &got)
	}
	if len(got.Requests) != 2 || got.Requests[0].ID != "a" || got.Requests[1].ID != "c" || got.Requests[1].Pool != "p" || got.Requests[1].Class != "c" {
		t.Errorf("the telemetry stream has %+v", got.Requests)
	}
}

// TestRelayTriesAgain: what could not be stored comes again, and is stored once.
func TestRelayTriesAgain(t *testing.T) {
	c, js := testServer(t)
	c.Sources = []Source{{Subject: "gateway.usage", Format: "openai", Pool: "p"}}
	telemetry(t, js, c)
	attempts, answers := make(chan string), make(chan error)
	relaying(t, c, js, func(_ context.Context, b *ingest.Batch) error {
		attempts <- b.Requests[0].ID
		return <-answers
	}, func([]ingest.Refusal) {})
	publish(t, js, "gateway.usage", usage("a"))
	for _, answer := range []error{errors.New("no stream"), nil} {
		if id := <-attempts; id != "a" {
			t.Fatalf("stores %s", id)
		}
		answers <- answer
	}
	publish(t, js, "gateway.usage", usage("b"))
	if id := <-attempts; id != "b" {
		t.Errorf("stores %s again", id)
	}
	answers <- nil
}

// delivery is a message of a consumer.
type delivery struct {
	jetstream.Msg
	meta jetstream.MsgMetadata
}

func (d delivery) Metadata() (*jetstream.MsgMetadata, error) { return &d.meta, nil }
func (d delivery) Subject() string                           { return "gateway.usage" }
func (d delivery) Headers() nats.Header                      { return nil }
func (d delivery) Data() []byte                              { return usage("a") }
func (d delivery) Ack() error                                { return nil }

// TestRelayCountsWhatGaveWay: sequences that never came are lost, those that come again are not.
func TestRelayCountsWhatGaveWay(t *testing.T) {
	r := NewRelay(nil, "S", RelayConfig{
		Sources: []Source{{Subject: "gateway.usage", Format: "openai", Pool: "p"}}, Limits: ingest.DefaultLimits(), Log: nop,
		Store: func(context.Context, *ingest.Batch) error { return nil }, Refused: func([]ingest.Refusal) {}, Ignored: func(int) {},
	})
	for _, d := range []struct{ sequence, delivered uint64 }{{5, 1}, {6, 1}, {9, 1}, {5, 2}, {10, 1}} {
		m := delivery{meta: jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: d.sequence}, NumDelivered: d.delivered}}
		if err := r.take(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.Lost(); n != 2 {
		t.Errorf("%d lost, want 7 and 8", n)
	}
}

// TestIntakeFollowsTheConfig: a subject goes from one stream to the other with its format, and an intake of none goes.
func TestIntakeFollowsTheConfig(t *testing.T) {
	ctx := testContext(t)
	c, js := testServer(t)
	for _, tc := range []struct {
		sources           []Source
		telemetry, intake []string
	}{
		{nil, nil, nil},
		{[]Source{{Subject: "a", Format: "dynamo"}, {Subject: "b", Format: "envoy"}, {Subject: "c", Format: "sglang"}}, []string{"a"}, []string{"b", "c"}},
		{[]Source{{Subject: "a", Format: "otlp"}, {Subject: "b", Format: "dynamo"}, {Subject: "c", Format: "sglang"}}, []string{"b"}, []string{"a", "c"}},
		{[]Source{{Subject: "a", Format: "dynamo"}}, []string{"a"}, nil},
	} {
		c.Sources = tc.sources
		if got := telemetry(t, js, c).CachedInfo().Config.Subjects[2:]; !slices.Equal(got, tc.telemetry) {
			t.Errorf("%v: the telemetry stream takes in %v", tc.sources, got)
		}
		intake, err := EnsureIntake(ctx, js, c)
		if err != nil {
			t.Fatal(err)
		}
		if intake == nil != (tc.intake == nil) || intake != nil && !slices.Equal(intake.CachedInfo().Config.Subjects, tc.intake) {
			t.Errorf("%v: the intake is %+v", tc.sources, intake)
		}
	}
	if _, err := js.Stream(ctx, intakeName(c)); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the intake is still there: %v", err)
	}
}

// TestIntakeLeavesUsersStreamsAlone: what a user's stream stores already is read from there.
func TestIntakeLeavesUsersStreamsAlone(t *testing.T) {
	ctx := testContext(t)
	c, js := testServer(t)
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: c.Stream.Name, Subjects: []string{"forewarm.>", "gateway.>"}}); err != nil {
		t.Fatal(err)
	}
	c.Sources = []Source{{Subject: "gateway.usage", Format: "openai"}}
	telemetry(t, js, c)
	if intake, err := EnsureIntake(ctx, js, c); intake != nil || err != nil {
		t.Errorf("made %+v, %v", intake, err)
	}
}
