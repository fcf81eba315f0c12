package jetstream

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/forewarm/forewarm/ingest"
)

// Inlet stores in the telemetry stream what came by other ways than NATS, as native records. Unlike a [Publisher] it keeps
// no order between calls, serves many goroutines at once, and gives up when ctx ends: the producer still has the records.
type Inlet struct {
	js     jetstream.JetStream
	prefix string
}

// NewInlet stores below prefix.
func NewInlet(js jetstream.JetStream, prefix string) *Inlet { return &Inlet{js, prefix} }

// inletBytes is how much a message of an [Inlet] holds at most, unless one record alone is larger: half of what NATS
// servers accept by default.
const inletBytes = 512 << 10

// Store waits until the stream holds all of b, refusals excepted. Large batches become several messages, in order.
func (i *Inlet) Store(ctx context.Context, b *ingest.Batch) error {
	if !i.js.Conn().IsConnected() {
		return nats.ErrDisconnected // it would keep the message, and send it some time after we gave up
	}
	data := ingest.AppendProtobuf(nil, b)
	if len(data) > inletBytes {
		if first, rest, ok := halve(b); ok {
			if err := i.Store(ctx, first); err != nil {
				return err
			}
			return i.Store(ctx, rest)
		}
	}
	m := &nats.Msg{Subject: ingest.RequestSubject(i.prefix, "", ""), Data: data, Header: nats.Header{}}
	m.Header.Set(headerContentType, ingest.ContentTypeProtobuf)
	if b.Source != "" {
		m.Header.Set(ingest.HeaderSource, b.Source)
	}
	if _, err := i.js.PublishMsg(ctx, m, jetstream.WithMsgID(nuid.Next())); err != nil {
		return fmt.Errorf("publish to %s: %w", m.Subject, err)
	}
	return nil
}

// halve parts b in two that make up b in order; ok is false when it has one record.
func halve(b *ingest.Batch) (first, rest *ingest.Batch, ok bool) {
	first, rest = &ingest.Batch{Source: b.Source}, &ingest.Batch{Source: b.Source, Watermark: b.Watermark}
	left := (len(b.Requests) + len(b.Sums) + len(b.Replicas) + len(b.Acks) + 1) / 2
	first.Requests, rest.Requests, left = cut(b.Requests, left)
	first.Sums, rest.Sums, left = cut(b.Sums, left)
	first.Replicas, rest.Replicas, left = cut(b.Replicas, left)
	first.Acks, rest.Acks, _ = cut(b.Acks, left)
	return first, rest, len(rest.Requests)+len(rest.Sums)+len(rest.Replicas)+len(rest.Acks) > 0
}

// cut parts list after at most n elements, and says how many more the first part could take.
func cut[T any](list []T, n int) (first, rest []T, left int) {
	k := min(n, len(list))
	return list[:k], list[k:], n - k
}
