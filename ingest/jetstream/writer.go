package jetstream

import (
	"bytes"
	"context"
	"fmt"

	"github.com/klauspost/compress/gzip"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// StreamWriter stores requests and sums that did not come by NATS in the telemetry stream, as native records. Unlike a
// [Publisher] it keeps no order between calls, serves many goroutines at once, and gives up when ctx ends: the producer
// still has the records.
type StreamWriter struct {
	js     jetstream.JetStream
	prefix string
}

// NewStreamWriter stores telemetry where c has it.
func NewStreamWriter(js jetstream.JetStream, c *Config) *StreamWriter {
	return &StreamWriter{js, c.Prefix}
}

// writerBytes is the size from which a message of a [StreamWriter] takes no more records: half of what NATS servers accept
// by default, before it is compressed.
const writerBytes = 512 << 10

// Store waits until the stream holds all requests and sums of b. Large batches become several messages, in order.
func (w *StreamWriter) Store(ctx context.Context, b *ingest.Batch) error {
	err := w.store(ctx, b.Source, codec.ContentTypeNDJSON, len(b.Requests), func(dst []byte, i int) []byte {
		return codec.AppendRequest(dst, &b.Requests[i])
	})
	if err != nil {
		return err
	}
	return w.store(ctx, b.Source, codec.ContentTypeSumNDJSON, len(b.Sums), func(dst []byte, i int) []byte {
		return codec.AppendSum(dst, &b.Sums[i])
	})
}

// store stores n records of one content type.
func (w *StreamWriter) store(ctx context.Context, source, contentType string, n int, record func(dst []byte, i int) []byte) error {
	var lines []byte
	for i := range n {
		lines = append(record(lines, i), '\n')
		if len(lines) < writerBytes && i < n-1 {
			continue
		}
		if err := w.publish(ctx, source, contentType, lines); err != nil {
			return err
		}
		lines = lines[:0]
	}
	return nil
}

func (w *StreamWriter) publish(ctx context.Context, source, contentType string, lines []byte) error {
	if !w.js.Conn().IsConnected() {
		return nats.ErrDisconnected // the client would keep the message, and send it some time after we gave up
	}
	var data bytes.Buffer
	z, err := gzip.NewWriterLevel(&data, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write(lines)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return err
	}
	m := nats.NewMsg(ingest.RequestSubject(w.prefix, "", ""))
	m.Data = data.Bytes()
	m.Header.Set(headerContentType, contentType)
	m.Header.Set(headerContentEncoding, codec.EncodingGzip)
	if source != "" {
		m.Header.Set(codec.HeaderSource, source)
	}
	if _, err := w.js.PublishMsg(ctx, m, jetstream.WithMsgID(nuid.Next())); err != nil {
		return fmt.Errorf("publish to %s: %w", m.Subject, err)
	}
	return nil
}
