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

// StreamWriter stores records that did not come by NATS in the telemetry stream, in the native format. It is safe for
// concurrent use. It does not retry: the producer still has the records.
type StreamWriter struct {
	js      jetstream.JetStream
	subject string
}

// NewStreamWriter stores telemetry below prefix.
func NewStreamWriter(js jetstream.JetStream, prefix string) *StreamWriter {
	return &StreamWriter{js, ingest.Subject(prefix, ingest.RequestSubject, "", "")}
}

// writerRecords bounds the records of a message, so that it stays below 1 MiB, the usual bound of NATS servers.
const writerRecords = 256

// Store waits until the stream holds all of b, refusals excepted. Large batches become several messages, in order.
func (w *StreamWriter) Store(ctx context.Context, b *ingest.Batch) error {
	rest := *b
	rest.Refused = nil
	for {
		room := writerRecords
		part := ingest.Batch{
			Source: b.Source, Requests: take(&rest.Requests, &room), Sums: take(&rest.Sums, &room),
			Replicas: take(&rest.Replicas, &room), Acks: take(&rest.Acks, &room),
		}
		if rest.Records() > 0 {
			if err := w.publish(ctx, &part); err != nil {
				return err
			}
			continue
		}
		part.Watermark, part.Histories = b.Watermark, b.Histories
		return w.publish(ctx, &part)
	}
}

// take removes the first elements of list for which there is room.
func take[T any](list *[]T, room *int) (taken []T) {
	n := min(*room, len(*list))
	taken, *list, *room = (*list)[:n], (*list)[n:], *room-n
	return taken
}

func (w *StreamWriter) publish(ctx context.Context, b *ingest.Batch) error {
	if !w.js.Conn().IsConnected() {
		return nats.ErrDisconnected // it would keep the message, and send it some time after we gave up
	}
	if _, err := w.js.PublishMsg(ctx, message(w.subject, b), jetstream.WithMsgID(nuid.Next())); err != nil {
		return fmt.Errorf("publish to %s: %w", w.subject, err)
	}
	return nil
}

func message(subject string, b *ingest.Batch) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = codec.AppendProtobuf(nil, b)
	m.Header.Set("Content-Type", codec.ContentTypeProtobuf)
	if b.Source != "" {
		m.Header.Set(codec.HeaderSource, b.Source)
	}
	return m
}
