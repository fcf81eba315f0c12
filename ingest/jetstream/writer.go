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

// StreamWriter stores records that did not come by NATS in the telemetry stream, in the native format. Unlike a [Publisher] it
// keeps no order between calls, serves many goroutines at once, and gives up when ctx ends: the producer still has the records.
type StreamWriter struct {
	js     jetstream.JetStream
	prefix string
	split  bool // a message for each pool, which the server takes to the pool's partition
}

// NewStreamWriter stores telemetry where c has it.
func NewStreamWriter(js jetstream.JetStream, c *Config) *StreamWriter {
	return &StreamWriter{js, c.Prefix, c.Partitioned()}
}

// writerBytes is the size of the largest message of a [StreamWriter], unless one record alone is larger: half of what NATS
// servers accept by default.
const writerBytes = 512 << 10

// Store waits until the stream holds all of b, refusals excepted. Large batches become several messages, in order.
func (i *StreamWriter) Store(ctx context.Context, b *ingest.Batch) error {
	if !i.split {
		return i.store(ctx, ingest.RequestSubject(i.prefix, "", ""), b)
	}
	for pool, part := range byPool(b) {
		if err := i.store(ctx, ingest.RequestSubject(i.prefix, pool, ""), part); err != nil {
			return err
		}
	}
	return nil
}

// byPool parts b, refusals excepted, in one batch a pool.
func byPool(b *ingest.Batch) map[string]*ingest.Batch {
	parts := map[string]*ingest.Batch{}
	of := func(pool string) *ingest.Batch {
		if parts[pool] == nil {
			parts[pool] = &ingest.Batch{Source: b.Source}
		}
		return parts[pool]
	}
	for i := range b.Requests {
		p := of(b.Requests[i].Pool)
		p.Requests = append(p.Requests, b.Requests[i])
	}
	for i := range b.Sums {
		p := of(b.Sums[i].Pool)
		p.Sums = append(p.Sums, b.Sums[i])
	}
	for i := range b.Replicas {
		p := of(b.Replicas[i].Pool)
		p.Replicas = append(p.Replicas, b.Replicas[i])
	}
	for i := range b.Acks {
		p := of(b.Acks[i].Pool)
		p.Acks = append(p.Acks, b.Acks[i])
	}
	if b.Watermark != nil {
		of(b.Watermark.Pool).Watermark = b.Watermark
	}
	return parts
}

func (i *StreamWriter) store(ctx context.Context, subject string, b *ingest.Batch) error {
	if !i.js.Conn().IsConnected() {
		return nats.ErrDisconnected // it would keep the message, and send it some time after we gave up
	}
	data := codec.AppendProtobuf(nil, b)
	if len(data) > writerBytes {
		if first, rest, ok := halve(b); ok {
			if err := i.store(ctx, subject, first); err != nil {
				return err
			}
			return i.store(ctx, subject, rest)
		}
	}
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	m.Header.Set(headerContentType, codec.ContentTypeProtobuf)
	if b.Source != "" {
		m.Header.Set(codec.HeaderSource, b.Source)
	}
	if _, err := i.js.PublishMsg(ctx, m, jetstream.WithMsgID(nuid.Next())); err != nil {
		return fmt.Errorf("publish to %s: %w", m.Subject, err)
	}
	return nil
}

// halve parts b in two that make up b in order; ok is false when it has one record.
func halve(b *ingest.Batch) (first, rest *ingest.Batch, ok bool) {
	first, rest = &ingest.Batch{Source: b.Source}, &ingest.Batch{Source: b.Source, Watermark: b.Watermark}
	left := (b.Records() - len(b.Refused) + 1) / 2
	first.Requests, rest.Requests, left = cut(b.Requests, left)
	first.Sums, rest.Sums, left = cut(b.Sums, left)
	first.Replicas, rest.Replicas, left = cut(b.Replicas, left)
	first.Acks, rest.Acks, _ = cut(b.Acks, left)
	return first, rest, rest.Records() > 0
}

// cut splits list after at most n elements; left is how many more the first part could take.
func cut[T any](list []T, n int) (first, rest []T, left int) {
	k := min(n, len(list))
	return list[:k], list[k:], n - k
}
