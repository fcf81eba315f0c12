package jetstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

var errEnough = errors.New("enough")

// consume runs a consumer until it has handled n batches. It returns a line for each: sequence, ids and reasons of
// refusal.
func consume(t *testing.T, consumer *Consumer, n int) []string {
	t.Helper()
	var got []string
	err := consumer.Run(testContext(t), each(func(b *ingest.Batch) error {
		line := strconv.FormatUint(b.Sequence, 10)
		for _, r := range b.Requests {
			line += " " + r.ID
		}
		for _, r := range b.Refused {
			line += " " + string(r.Reason)
		}
		if b.ReceivedAt.IsZero() || b.ReceivedAt.Location() != time.UTC {
			t.Errorf("%d: received at %v", b.Sequence, b.ReceivedAt)
		}
		if got = append(got, line); len(got) == n {
			return errEnough
		}
		return nil
	}))
	if !errors.Is(err, errEnough) {
		t.Fatalf("after %q: %v", got, err)
	}
	return got
}

func consumerOf(js jetstream.JetStream, c Config, startSequence uint64) *Consumer {
	return NewConsumer(js, c, c.Telemetry(), startSequence, nop)
}

func TestConsumerStartsAtSequence(t *testing.T) {
	c, js := testServer(t)
	telemetry(t, js, c)
	for i := range 5 {
		publish(t, js, "forewarm.telemetry.request.p.c", numbered(i))
	}
	for startSequence, want := range map[uint64][]string{
		0: {"1 0", "2 1", "3 2", "4 3", "5 4"},
		1: {"1 0", "2 1", "3 2", "4 3", "5 4"},
		4: {"4 3", "5 4"},
	} {
		consumer := consumerOf(js, c, startSequence)
		if n, ok := consumer.Pending(); ok {
			t.Errorf("from %d: %d messages are pending before Run, want unknown", startSequence, n)
		}
		if d := cmp.Diff(want, consume(t, consumer, len(want))); d != "" {
			t.Errorf("from %d: %s", startSequence, d)
		}
		if n, ok := consumer.Pending(); n < 1 || n > uint64(len(want)) || !ok { // the handler of the last one failed, so it is pending
			t.Errorf("from %d: pending %d, %v, want 1 to %d", startSequence, n, ok, len(want))
		}
	}
}

// TestConsumerFarBehind: the client drops no message of a backlog that is larger than one fetch.
func TestConsumerFarBehind(t *testing.T) {
	c, js := testServer(t)
	js.Conn().SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { t.Errorf("the client: %v", err) })
	telemetry(t, js, c)
	const backlog = 30 * fetchMessages
	for i := range backlog {
		if err := js.Conn().Publish("forewarm.telemetry.request.p.c", numbered(i)); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(backlog)) // stored after all others
	n := 0
	err := consumerOf(js, c, 1).Run(testContext(t), func(batches []ingest.Batch) error {
		for range 100 { // slower than the server sends, so that fetched messages wait
			if err := js.Conn().Flush(); err != nil {
				return err
			}
		}
		if n += len(batches); n > backlog {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Errorf("after %d of %d: %v", n, backlog, err)
	}
}

// TestPendingCountsNewMessages: messages that are published while a batch is handled are counted.
func TestPendingCountsNewMessages(t *testing.T) {
	c, js := testServer(t)
	telemetry(t, js, c)
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(0))
	consumer := consumerOf(js, c, 0)
	err := consumer.Run(testContext(t), each(func(*ingest.Batch) error {
		for i := range 5 {
			publish(t, js, "forewarm.telemetry.request.p.c", numbered(1+i))
		}
		consumer.Saw(Inspect(testContext(t), js, c).Telemetry.State)
		if n, ok := consumer.Pending(); !ok || n != 6 {
			return fmt.Errorf("%d, %t", n, ok)
		}
		return errEnough
	}))
	if !errors.Is(err, errEnough) {
		n, _ := consumer.Pending()
		t.Errorf("%v: pending %d, want 6", err, n)
	}
}

func TestConsumerRefusesUnreadableMessages(t *testing.T) {
	c, js := testServer(t)
	telemetry(t, js, c)
	request := "forewarm.telemetry.request.p.c"
	publish(t, js, request, numbered(1), "content-type", codec.ContentTypeNDJSON)
	publish(t, js, request, numbered(2), "Content-Type", "text/html")
	publish(t, js, request, numbered(3), "content-encoding", "gzip")
	publish(t, js, request, make([]byte, 10<<20))
	publish(t, js, "forewarm.telemetry.weather.p", numbered(5))
	publish(t, js, request, []byte("{"))
	publish(t, js, request, numbered(7), "Content-Encoding", "identity")
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(numbered(8)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	publish(t, js, request, zipped.Bytes(), "Content-Encoding", "gzip")
	want := []string{"1 1", "2 unknown_format", "3 bad_encoding", "4 too_large", "5 unknown_subject", "6 truncated", "7 7", "8 8"}
	if d := cmp.Diff(want, consume(t, consumerOf(js, c, 1), len(want))); d != "" {
		t.Error(d)
	}
}

// TestConsumerReportsGaps: messages that were deleted before they were read are logged and counted.
func TestConsumerReportsGaps(t *testing.T) {
	ctx := testContext(t)
	c, js := testServer(t)
	stream := telemetry(t, js, c)
	for i := range 5 {
		publish(t, js, "forewarm.telemetry.request.p.c", numbered(i))
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(4)); err != nil {
		t.Fatal(err)
	}
	for startSequence, want := range map[uint64]struct {
		gaps []string
		got  []string
		lost uint64
	}{
		0: {nil, []string{"4 3", "5 4"}, 0},
		2: {[]string{"2-4"}, []string{"4 3", "5 4"}, 2},
		4: {nil, []string{"4 3", "5 4"}, 0},
	} {
		consumer := consumerOf(js, c, startSequence)
		core, seen := observer.New(zap.WarnLevel)
		consumer.log = zap.New(core)
		got := consume(t, consumer, 2)
		var gaps []string
		for _, entry := range seen.All() {
			gaps = append(gaps, fmt.Sprintf("%d-%d", entry.ContextMap()["want"], entry.ContextMap()["got"]))
		}
		if d := cmp.Diff(want.gaps, gaps) + cmp.Diff(want.got, got); d != "" || consumer.Lost.Load() != want.lost {
			t.Errorf("from %d: lost %d, want %d; %s", startSequence, consumer.Lost.Load(), want.lost, d)
		}
	}
}

// TestConsumerOfRecreatedStream: the consumer should start at sequence 1000, but the stream was deleted and created
// again.
func TestConsumerOfRecreatedStream(t *testing.T) {
	c, js := testServer(t)
	telemetry(t, js, c)
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(0))
	consumer := consumerOf(js, c, 1000)
	core, seen := observer.New(zap.WarnLevel)
	consumer.log = zap.New(core, zap.Hooks(func(zapcore.Entry) error {
		publish(t, js, "forewarm.telemetry.request.p.c", numbered(1))
		return nil
	}))
	if d := cmp.Diff([]string{"2 1"}, consume(t, consumer, 1)); d != "" {
		t.Error(d)
	}
	if logs := seen.All(); len(logs) != 1 || logs[0].ContextMap()["want"] != uint64(1000) || logs[0].ContextMap()["got"] != uint64(2) {
		t.Errorf("logged %v, want a gap from 1000 to 2", logs)
	}
}

func TestConsumerEndsWithItsContext(t *testing.T) {
	c, js := testServer(t)
	telemetry(t, js, c)
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(0))
	ctx, cancel := context.WithCancel(testContext(t))
	handled := 0
	err := consumerOf(js, c, 1).Run(ctx, each(func(*ingest.Batch) error {
		handled++
		cancel()
		return nil
	}))
	if err != nil || handled != 1 {
		t.Errorf("handled %d, ended with %v; want 1 and no error", handled, err)
	}
}

// TestConsumerWarnsOfPromptsInTheStream: the stream keeps messages as they were published. The consumer warns once if
// their format may contain prompts.
func TestConsumerWarnsOfPromptsInTheStream(t *testing.T) {
	c, js := testServer(t)
	telemetry(t, js, c)
	const usage = `{"id":"a","created":1795240800,"model":"m","choices":[{"message":{"content":"a secret"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(1), "Content-Type", codec.ContentTypeJSON)
	publish(t, js, "forewarm.telemetry.request.p.c", []byte(usage), "Content-Type", codec.ContentTypeOpenAI)
	publish(t, js, "forewarm.telemetry.request.p.c", []byte(usage), "Content-Type", codec.ContentTypeOpenAI+"; charset=utf-8")
	core, seen := observer.New(zap.WarnLevel)
	consumer := consumerOf(js, c, 1)
	consumer.log = zap.New(core)
	if d := cmp.Diff([]string{"1 1", "2 a", "3 a"}, consume(t, consumer, 3)); d != "" {
		t.Error(d)
	}
	if logs := seen.All(); len(logs) != 1 || !strings.Contains(logs[0].Message, "nats.sources") || strings.Contains(fmt.Sprint(logs[0].ContextMap()), "secret") {
		t.Errorf("logged %v", logs)
	}
}
