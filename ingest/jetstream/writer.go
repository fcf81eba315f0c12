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

// writerBytes is the size of the largest message of a [StreamWriter], unless one record alone is larger: half of what
// NATS servers accept by default.
const writerBytes = 512 << 10

// Store waits until the stream holds all of b, refusals excepted. Large batches become several messages, in order.
func (i *StreamWriter) Store(ctx context.Context, b *ingest.Batch) error {
	if !i.split {
		return i.store(ctx, ingest.RequestSubject(i.prefix, "", ""), b)
	}
	for pool, part := range parts(b, func(pool string, _ int) string { return pool }) {
		if err := i.store(ctx, ingest.RequestSubject(i.prefix, pool, ""), part); err != nil {
			return err
		}
	}
	return nil
}

// parts sorts the records of b, without refusals, into batches by key. The key is of a record's pool and place in b.
func parts[K comparable](b *ingest.Batch, key func(pool string, place int) K) map[K]*ingest.Batch {
	all, place := map[K]*ingest.Batch{}, 0
	part := func(pool string) *ingest.Batch {
		k := key(pool, place)
		if place++; all[k] == nil {
			all[k] = &ingest.Batch{Source: b.Source}
		}
		return all[k]
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
	return all
}

func (i *StreamWriter) store(ctx context.Context, subject string, b *ingest.Batch) error {
	if !i.js.Conn().IsConnected() {
		return nats.ErrDisconnected // it would keep the message, and send it some time after we gave up
	}
	data := codec.AppendProtobuf(nil, b)
	if len(data) > writerBytes {
		middle := (b.Records() - len(b.Refused) + 1) / 2
		halves := parts(b, func(_ string, place int) bool { return place < middle })
		if first, rest := halves[true], halves[false]; first != nil && rest != nil {
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
