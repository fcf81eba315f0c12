package jetstream

import (
	"context"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

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

// receive runs sessions until ctx ends. When one breaks, the next one starts after the last delivered message. free has
// empty slices, which Run gives back; ready has the decoded messages, and room for all slices.
func (c *Consumer) receive(ctx context.Context, free <-chan []ingest.Batch, ready chan<- []ingest.Batch) {
	defer close(ready)
	seldom := rate.Sometimes{Interval: time.Minute}
	for ctx.Err() == nil {
		s := &session{Consumer: c, free: free, ready: ready}
		if err := s.run(ctx); ctx.Err() == nil {
			seldom.Do(func() {
				c.log.Warn("reading the stream was interrupted, trying again", zap.String("stream", c.stream), zap.Error(err))
			})
			sleep.For(ctx, retryWait)
		}
	}
}

// session reads the stream through one consumer on the server, which is short-lived. It decodes messages into slices, and
// sends a slice to ready when it is full, when no more messages wait, and at the end.
type session struct {
	*Consumer
	free  <-chan []ingest.Batch
	ready chan<- []ingest.Batch

	mu        sync.Mutex // guards the fields below: messages come on a goroutine of the client
	delivered uint64     // messages
	records   int        // in batches
	batches   []ingest.Batch
}

// run reads until ctx ends or the session breaks, and returns why. It uses Consume: the channel of Messages has no room
// for the server's status messages between a thousand others, so the client drops messages while it is far behind.
func (s *session) run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx) // the first reason counts
	defer fail(nil)
	consumer, err := s.open(ctx)
	if err != nil {
		return err
	}
	limit := max(fetchBytes, 2*int(s.js.Conn().MaxPayload()))
	reading, err := consumer.Consume(
		func(m jetstream.Msg) {
			if err := s.take(ctx, m); err != nil {
				fail(err)
			}
		},
		jetstream.PullMaxMessagesWithBytesLimit(fetchMessages, limit), jetstream.PullHeartbeat(fetchHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { fail(err) }))
	if err != nil {
		return err
	}
	<-ctx.Done() // no message is taken after this
	reading.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handOver()
	return context.Cause(ctx)
}

// take decodes a message. It waits for a free slice if it has none.
func (s *session) take(ctx context.Context, m jetstream.Msg) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	if meta.Sequence.Consumer != s.delivered+1 { // true for all messages after a lost one, too
		return fmt.Errorf("delivery %d came in place of %d", meta.Sequence.Consumer, s.delivered+1)
	}
	if s.batches == nil {
		select {
		case s.batches = <-s.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.delivered++
	s.batches = s.batches[:len(s.batches)+1]
	b := &s.batches[len(s.batches)-1]
	b.Reset()
	s.decode(m, meta, b)
	s.records += b.Records()
	if len(s.batches) == cap(s.batches) || s.records >= sliceRecords || meta.NumPending == 0 {
		s.handOver()
	}
	return nil
}

// handOver sends the slice that is being filled, if there is one.
func (s *session) handOver() {
	if s.batches != nil {
		s.ready <- s.batches
		s.batches, s.records = nil, 0
	}
}

// open makes a consumer on the server that starts at c.next.
func (c *Consumer) open(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	stream, err := c.js.Stream(ctx, c.stream)
	if err != nil {
		return nil, err
	}
	state, created := stream.CachedInfo().State, stream.CachedInfo().Created
	end := state.LastSeq + 1
	if !c.created.IsZero() && !created.Equal(c.created) {
		end = 1 // it was deleted, and the new one may have messages already
	}
	c.created = created
	if c.next > end {
		c.gap(end)
		c.next = end
	}
	if c.next == 0 {
		c.handled.Store(max(state.FirstSeq, 1) - 1)
	}
	c.last.Store(state.LastSeq)
	c.opened.Store(true)
	return c.js.CreateConsumer(ctx, c.stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(c.next, 1),
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: orphanAge, MemoryStorage: true, Replicas: 1,
	})
}

func (c *Consumer) decode(m jetstream.Msg, meta *jetstream.MsgMetadata, b *ingest.Batch) {
	sequence := meta.Sequence.Stream
	if c.next != 0 && sequence != c.next {
		c.gap(sequence)
	}
	c.next = sequence + 1
	c.last.Store(max(c.last.Load(), sequence+meta.NumPending))
	b.Sequence, b.ReceivedAt = sequence, meta.Timestamp.UTC()
	about, ok := codec.ParseSubject(c.cfg.Prefix, m.Subject())
	if !ok {
		i := slices.IndexFunc(c.cfg.Sources, func(s Source) bool { return server.SubjectMatchesFilter(m.Subject(), s.Subject) })
		if ok = i >= 0; ok {
			about = c.cfg.Sources[i].about()
		}
	}
	if !ok { // the message may hold prompts, so the refusal keeps none of it
		detail := fmt.Sprintf("subject %.200q carries no telemetry", m.Subject())
		b.Refused = append(b.Refused, ingest.Refusal{Reason: ingest.ReasonUnknownSubject, Detail: detail})
		return
	}
	addHeaders(&about, m.Headers())
	if about.ContentType != "" && !c.warned && codec.HoldsPrompts(about.ContentType) {
		c.warned = true
		c.log.Warn("messages of this format may hold prompts, and the telemetry stream keeps them as they were published: "+
			"name a subject of their own in nats.sources, or send them to a listener",
			zap.String("stream", c.stream), zap.String("subject", m.Subject()), zap.String("content_type", about.ContentType))
	}
	c.decoder.Decode(about, m.Data(), ingest.DefaultLimits(), b)
}

// addHeaders adds what the headers of a message say about it. Producers write their names in any case.
func addHeaders(about *codec.Meta, h nats.Header) {
	for key, values := range h {
		if len(values) == 0 || values[0] == "" {
			continue
		}
		switch textproto.CanonicalMIMEHeaderKey(key) {
		case "Content-Type":
			about.ContentType = values[0]
		case "Content-Encoding":
			about.Encoding = strings.Join(values, ", ")
		case codec.HeaderSource:
			about.Source = values[0]
		}
	}
}
