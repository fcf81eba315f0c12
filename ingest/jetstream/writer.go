package jetstream

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// StreamWriter stores records that did not come by NATS in the telemetry stream, in the native format. Unlike a
// [Publisher] it keeps no order between calls, serves many goroutines at once, and gives up when ctx ends: the producer
// still has the records.
type StreamWriter struct {
	js     jetstream.JetStream
	prefix string
	split  bool // a message for each pool, which the server takes to the pool's partition
}

// NewStreamWriter stores telemetry where c has it.
func NewStreamWriter(js jetstream.JetStream, c *Config) *StreamWriter {
	return &StreamWriter{js, c.Prefix, c.Partitioned()}
}

// writerRecords bounds the records of a message: with the longest labels they stay below the 1 MiB that NATS servers
// accept by default.
const writerRecords = 256

// Store waits until the stream holds all of b, refusals excepted. Large batches become several messages, in order.
func (w *StreamWriter) Store(ctx context.Context, b *ingest.Batch) error {
	if !w.split && b.Records() <= writerRecords {
		return w.publish(ctx, "", b)
	}
	var failed error
	parts := map[string]*ingest.Batch{} // by pool
	part := func(pool string) *ingest.Batch {
		if !w.split {
			pool = ""
		}
		p := parts[pool]
		if p != nil && p.Records() < writerRecords {
			return p
		}
		if p != nil && failed == nil {
			failed = w.publish(ctx, pool, p)
		}
		parts[pool] = &ingest.Batch{Source: b.Source}
		return parts[pool]
	}
	for i := range b.Requests {
		p := part(b.Requests[i].Pool)
		p.Requests = append(p.Requests, b.Requests[i])
	}
	for i := range b.Sums {
		p := part(b.Sums[i].Pool)
		p.Sums = append(p.Sums, b.Sums[i])
	}
	for i := range b.Replicas {
		p := part(b.Replicas[i].Pool)
		p.Replicas = append(p.Replicas, b.Replicas[i])
	}
	for i := range b.Acks {
		p := part(b.Acks[i].Pool)
		p.Acks = append(p.Acks, b.Acks[i])
	}
	if b.Watermark != nil {
		part(b.Watermark.Pool).Watermark = b.Watermark
	}
	for pool, p := range parts {
		if failed == nil {
			failed = w.publish(ctx, pool, p)
		}
	}
	return failed
}

func (w *StreamWriter) publish(ctx context.Context, pool string, b *ingest.Batch) error {
	if !w.js.Conn().IsConnected() {
		return nats.ErrDisconnected // it would keep the message, and send it some time after we gave up
	}
	m := nats.NewMsg(ingest.Subject(w.prefix, ingest.RequestSubject, pool, ""))
	m.Data = codec.AppendProtobuf(nil, b)
	m.Header.Set(headerContentType, codec.ContentTypeProtobuf)
	if b.Source != "" {
		m.Header.Set(codec.HeaderSource, b.Source)
	}
	if _, err := w.js.PublishMsg(ctx, m, jetstream.WithMsgID(nuid.Next())); err != nil {
		return fmt.Errorf("publish to %s: %w", m.Subject, err)
	}
	return nil
}
