package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/sleep"
)

const (
	fetchMessages  = 1024             // most messages on their way at once
	fetchBytes     = 16 << 20         // most bytes on their way, if no single message is larger
	fetchHeartbeat = time.Second      // a server that is silent for two of these is given up
	orphanAge      = 30 * time.Second // when the server forgets a consumer that nobody reads
	apiTimeout     = 5 * time.Second
	retryWait      = 200 * time.Millisecond
)

// receive sends decoded batches to ready until ctx ends. Each session reads through one short-lived server-side
// consumer; whatever breaks it (a restart, a lost connection, a message lost on the way), the next one starts at the
// sequence after the last that was delivered.
func (c *Consumer) receive(ctx context.Context, free <-chan *parcel, ready chan<- *parcel) {
	for ctx.Err() == nil {
		err := c.session(ctx, free, ready)
		if ctx.Err() != nil {
			return
		}
		c.cfg.Log.Warn("telemetry interrupted, trying again", zap.String("stream", c.cfg.Stream), zap.Error(err))
		sleep.For(ctx, retryWait)
	}
}

func (c *Consumer) session(ctx context.Context, free <-chan *parcel, ready chan<- *parcel) error {
	ctx, stop := context.WithCancel(ctx) // lets go of a message that waits for a parcel when the session breaks
	defer stop()
	consumer, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer c.close(ctx, consumer)
	broken := make(chan error, 1) // the first reason counts
	fail := func(err error) {
		select {
		case broken <- err:
		default:
		}
	}
	packer := &packer{Consumer: c, free: free, ready: ready}
	defer packer.end()
	limit := max(fetchBytes, 2*int(c.js.Conn().MaxPayload()))
	reading, err := consumer.Consume(
		func(m jetstream.Msg) {
			if err := packer.take(ctx, m); err != nil {
				fail(err)
			}
		},
		jetstream.PullMaxMessagesWithBytesLimit(fetchMessages, limit), jetstream.PullHeartbeat(fetchHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { fail(err) }))
	if err != nil {
		return err
	}
	defer reading.Stop()
	defer stop() // before the packer ends, which waits for the message at hand
	select {
	case err := <-broken:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// open makes a server-side consumer that starts at c.next.
func (c *Consumer) open(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	stream, err := c.js.Stream(ctx, c.cfg.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) && c.cfg.Missing != nil {
		if err = c.cfg.Missing(ctx); err == nil {
			stream, err = c.js.Stream(ctx, c.cfg.Stream)
		}
	}
	if err != nil {
		return nil, err
	}
	state := stream.CachedInfo().State
	if end := state.LastSeq + 1; c.next > end {
		c.gap(end)
		c.next = end
	}
	if c.next == 0 {
		c.handled.Store(max(state.FirstSeq, 1) - 1)
	}
	c.last.Store(state.LastSeq)
	c.opened.Store(true)
	return c.js.CreateConsumer(ctx, c.cfg.Stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(c.next, 1),
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: orphanAge, MemoryStorage: true, Replicas: 1,
	})
}

// close removes the consumer from the server, which would otherwise do so itself after orphanAge.
func (c *Consumer) close(ctx context.Context, consumer jetstream.Consumer) {
	if !c.js.Conn().IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = c.js.DeleteConsumer(ctx, c.cfg.Stream, consumer.CachedInfo().Name)
}

// decode fills b with what m carries.
func (c *Consumer) decode(m jetstream.Msg, meta *jetstream.MsgMetadata, b *ingest.Batch) {
	sequence := meta.Sequence.Stream
	if c.next != 0 && sequence != c.next {
		c.gap(sequence)
	}
	c.next = sequence + 1
	c.last.Store(max(c.last.Load(), sequence+meta.NumPending))
	b.Sequence, b.ReceivedAt = sequence, meta.Timestamp.UTC()
	about, ok := c.about(m.Subject())
	if !ok && strings.HasPrefix(m.Subject(), c.cfg.Prefix+".telemetry."+topicProbe+".") {
		b.Ignored++
		return
	}
	if !ok {
		// Whatever it carries may be prompts, so that none of it is kept.
		detail := fmt.Sprintf("subject %.200q carries no telemetry", m.Subject())
		b.Refused = append(b.Refused, ingest.Refusal{Reason: ingest.ReasonUnknownSubject, Detail: detail})
		return
	}
	describe(&about, m.Headers())
	about.Fields = c.cfg.Fields
	if about.ContentType != "" && !c.warned && codec.HoldsPrompts(about.ContentType) {
		c.warned = true
		c.cfg.Log.Warn("messages of this format may hold prompts, and the telemetry stream keeps them as they were published: name a subject of their own in nats.sources, or send them to a listener",
			zap.String("stream", c.cfg.Stream), zap.String("subject", m.Subject()), zap.String("content_type", about.ContentType))
	}
	c.decoder.Decode(about, m.Data(), c.cfg.Limits, b)
}

// describe adds what the headers of a message say of it.
func describe(about *codec.Meta, h nats.Header) {
	if contentType := header(h, headerContentType); contentType != "" {
		about.ContentType = contentType
	}
	about.Source = header(h, codec.HeaderSource)
	about.Encoding = strings.Join(headerValues(h, headerContentEncoding), ", ")
}

// The headers that say how a message is encoded.
const (
	headerContentType     = "Content-Type"
	headerContentEncoding = "Content-Encoding"
)

// header gives the first value of key.
func header(h nats.Header, key string) string {
	if values := headerValues(h, key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// headerValues gives the values of key in any case, for not every producer writes it alike.
func headerValues(h nats.Header, key string) []string {
	if values := h.Values(key); len(values) > 0 || len(h) == 0 {
		return values
	}
	for k, values := range h {
		if strings.EqualFold(k, key) && len(values) > 0 {
			return values
		}
	}
	return nil
}
