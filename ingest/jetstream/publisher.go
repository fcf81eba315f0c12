package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/internal/sleep"
)

const (
	publishWindow = 512     // messages that are sent before their acknowledgements are waited for
	windowBytes   = 8 << 20 // a window with so many bytes takes no more messages
	ackWait       = 5 * time.Second
	publishRetry  = 500 * time.Millisecond // from one attempt to the next
	maxAttempts   = 5                      // for one message, on a server that answers
)

// Publisher stores messages, each once, through restarts of the server. It sends a window of messages and then waits
// until all are stored. One that was not acknowledged is sent again; the server drops it by its message id if it was
// stored. After a lost connection, what was on its way is sent again before anything new; only what nats.go still held
// in its buffer can come before it. Not safe for concurrent use.
type Publisher struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	acks   []jetstream.PubAckFuture // of the window
	bytes  int                      // of its messages
	resent uint64

	reconnects uint64 // of the connection, after which lost messages were sent again
}

// NewPublisher publishes on a connection that reconnects by itself.
func NewPublisher(conn *nats.Conn) (*Publisher, error) {
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(2*publishWindow), jetstream.WithPublishAsyncTimeout(ackWait))
	return &Publisher{conn: conn, js: js}, err
}

// Publish sends data, which it copies, and flushes a full window. msgID identifies the message in the stream.
// An error means that this message or an earlier one cannot be stored at all.
func (p *Publisher) Publish(ctx context.Context, subject, msgID, contentType string, data []byte) error {
	m := nats.NewMsg(subject)
	m.Data = append([]byte(nil), data...)
	m.Header.Set(jetstream.MsgIDHeader, msgID)
	if contentType != "" {
		m.Header.Set(headerContentType, contentType)
	}
	if reconnects := p.conn.Stats().Reconnects; reconnects != p.reconnects || !p.conn.IsConnected() {
		if err := p.Flush(ctx); err != nil { // or the lost messages would be stored after this one
			return err
		}
		p.reconnects = reconnects
	}
	ack, err := p.js.PublishMsgAsync(m)
	if _, lost := errors.AsType[net.Error](err); lost { // the connection, within the write
		return errors.Join(p.Flush(ctx), p.again(ctx, m))
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", subject, err)
	}
	p.acks = append(p.acks, ack)
	if p.bytes += len(data); len(p.acks) < publishWindow && p.bytes < windowBytes {
		return nil
	}
	return p.Flush(ctx)
}

// Flush waits until every message is stored, however long the server is away, or until ctx ends.
func (p *Publisher) Flush(ctx context.Context) error {
	for _, ack := range p.acks {
		select {
		case <-ack.Ok():
		case <-ack.Err():
			if err := p.again(ctx, ack.Msg()); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.acks, p.bytes = p.acks[:0], 0
	return nil
}

// again sends a message until it is stored.
func (p *Publisher) again(ctx context.Context, m *nats.Msg) error {
	p.resent++
	for attempts := 0; ; {
		wait, cancel := context.WithTimeout(ctx, ackWait)
		_, err := p.js.PublishMsg(wait, m)
		cancel()
		if err == nil {
			return nil
		}
		if p.conn.IsConnected() {
			attempts++
		}
		denied := p.conn.LastError() // the server sends no reply to a message that it refuses
		switch {
		case errors.Is(denied, nats.ErrPermissionViolation):
			return fmt.Errorf("publish to %s: %w; allow this user to publish there (forewarm nats-config prints the permissions), "+
				"or connect as another user with -creds or -config", m.Subject, denied)
		case attempts < maxAttempts:
		case errors.Is(err, jetstream.ErrNoStreamResponse):
			return fmt.Errorf("publish to %s: no stream holds this subject; start forewarm serve, which makes the stream, or give its -config", m.Subject)
		default:
			return fmt.Errorf("publish to %s: %w; is JetStream on at this server?", m.Subject, err)
		}
		if !sleep.For(ctx, publishRetry) {
			return ctx.Err()
		}
	}
}

// Resent counts the messages that were sent again.
func (p *Publisher) Resent() uint64 { return p.resent }
