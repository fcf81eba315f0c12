package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/internal/sleep"
)

const (
	// DefaultWindow is how many messages a [Publisher] sends before it waits for their acknowledgements.
	DefaultWindow = 512
	windowBytes   = 8 << 20 // a window with so many bytes takes no more messages
	ackWait       = 5 * time.Second
	firstBackoff  = 50 * time.Millisecond
	maxBackoff    = 2 * time.Second
	maxAttempts   = 10 // in a row without progress, on a server that answers
)

// Publisher stores messages in the order in which they are given to it, each once, through restarts of the server.
//
// It sends a window of messages, and then waits until all are stored. When anything fails, it opens a new connection and
// sends again from the first unacknowledged message; the server drops those it stored already by their message id. A
// connection never reconnects by itself: messages that were written before it broke could be lost while those written
// after are stored. So a server always stores a prefix of what was sent.
//
// That holds for outages shorter than the stream's duplicate window, and for a stream with one replica; in a cluster a
// change of leader can lose messages in mid-window, which are then stored after their successors. Not safe for
// concurrent use.
type Publisher struct {
	dial     func() (*nats.Conn, error)
	window   int
	log      *zap.Logger
	patience int // most attempts

	queue  []*nats.Msg // in order; not acknowledged
	bytes  int         // of the messages in queue
	sent   int         // how many messages of queue were sent before
	conn   *nats.Conn
	js     jetstream.JetStream // nil while there is no connection
	closed chan struct{}       // once conn is
	resent uint64
}

// NewPublisher makes a publisher that connects by dial, whose connections must not reconnect by themselves
// ([nats.NoReconnect]). A window of 0 means [DefaultWindow].
func NewPublisher(dial func() (*nats.Conn, error), window int, log *zap.Logger) *Publisher {
	if window <= 0 {
		window = DefaultWindow
	}
	return &Publisher{dial: dial, window: window, log: log, patience: maxAttempts}
}

// Publish queues data, which it copies, and flushes a full window. msgID tells the message from all others in the stream.
// An error means that this message or an earlier one cannot be stored at all.
func (p *Publisher) Publish(ctx context.Context, subject, msgID, contentType string, data []byte) error {
	m := &nats.Msg{Subject: subject, Data: append([]byte(nil), data...), Header: nats.Header{}}
	m.Header.Set(jetstream.MsgIDHeader, msgID)
	if contentType != "" {
		m.Header.Set(headerContentType, contentType)
	}
	p.queue = append(p.queue, m)
	if p.bytes += len(data); len(p.queue) < p.window && p.bytes < windowBytes {
		return nil
	}
	return p.Flush(ctx)
}

// Flush waits until every message is stored, however long the server is away, or until ctx ends.
func (p *Publisher) Flush(ctx context.Context) error {
	backoff, attempts := firstBackoff, 0
	for len(p.queue) > 0 {
		before := len(p.queue)
		err := p.send(ctx)
		if err == nil {
			break
		}
		away := p.js == nil || errors.Is(err, nats.ErrConnectionClosed)
		p.Close()
		if len(p.queue) < before {
			backoff, attempts = firstBackoff, 0
		}
		if attempts++; away {
			attempts = 0
		}
		subject := p.queue[0].Subject
		var api *jetstream.APIError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject):
			p.drop()
			return fmt.Errorf("publish to %s: %w", subject, err)
		case errors.As(err, &api) && api.Code == 400:
			return fmt.Errorf("publish to %s: %w", subject, err)
		case attempts > p.patience:
			return fmt.Errorf("publish to %s: %w; see that a stream holds this subject", subject, err)
		}
		p.log.Warn("publishing interrupted, trying again", zap.Int("unacknowledged", len(p.queue)), zap.Error(err))
		if !sleep.For(ctx, backoff) {
			return ctx.Err()
		}
		backoff = min(2*backoff, maxBackoff)
	}
	p.queue = p.queue[:0]
	return nil
}

// send sends the queue in order, and drops the acknowledged messages from it until one is not acknowledged. It returns why
// the first message of the queue was not sent or stored.
func (p *Publisher) send(ctx context.Context) error {
	if p.js == nil {
		if err := p.connect(); err != nil {
			return err
		}
	}
	acks := make([]jetstream.PubAckFuture, 0, len(p.queue))
	var unsent error
	for i, m := range p.queue {
		ack, err := p.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0)) // the client would send it again out of order
		if err != nil {
			unsent = err
			break
		}
		if acks = append(acks, ack); i < p.sent {
			p.resent++
		}
	}
	p.sent = max(p.sent, len(acks))
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-p.closed:
			select {
			case <-ack.Ok(): // it came before
			default:
				return nats.ErrConnectionClosed
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		p.drop()
	}
	return unsent
}

// drop takes the first message out of the queue.
func (p *Publisher) drop() {
	p.bytes -= len(p.queue[0].Data)
	p.queue[0], p.queue = nil, p.queue[1:]
	p.sent = max(p.sent-1, 0)
}

func (p *Publisher) connect() (err error) {
	if p.conn, err = p.dial(); err != nil {
		return err
	}
	closed := make(chan struct{})
	p.closed = closed
	p.conn.SetClosedHandler(func(*nats.Conn) { close(closed) })
	p.js, err = jetstream.New(p.conn, jetstream.WithPublishAsyncMaxPending(p.window+1), jetstream.WithPublishAsyncTimeout(ackWait))
	return err
}

// Close drops the connection; messages that were not flushed may be lost.
func (p *Publisher) Close() {
	if p.js != nil {
		p.conn.Close()
		p.js = nil
	}
}

// Resent counts the messages that were sent again.
func (p *Publisher) Resent() uint64 { return p.resent }
