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
	// DefaultWindow is how many messages a [Publisher] has under way.
	DefaultWindow = 512
	windowBytes   = 8 << 20 // most bytes under way, if no single message is larger
	ackWait       = 5 * time.Second
	firstBackoff  = 50 * time.Millisecond
	maxBackoff    = 2 * time.Second
	maxAttempts   = 10 // in a row without progress, on a server that answers
)

// Publisher stores messages in the order in which they are given to it, each once, through restarts of the server.
//
// Up to a window of messages is under way without being acknowledged. When anything fails it drops the connection,
// makes another, and sends again from the first unacknowledged message (go-back-N); the server drops those it stored
// already by their message id. A connection never mends itself: messages that were written before it broke could
// otherwise be lost while those written after are stored. Thus a server always stores a prefix of what was sent.
//
// That holds for outages shorter than the stream's duplicate window, and for a stream with one replica; in a cluster a
// change of leader can lose messages in mid-window, which are then stored after their successors. Not safe for
// concurrent use.
type Publisher struct {
	dial   func() (*nats.Conn, error)
	window int
	log    *zap.Logger

	queue    []flight // in order; the first one is not acknowledged
	bytes    int      // of the messages in queue
	conn     *nats.Conn
	js       jetstream.JetStream // nil while there is no connection
	closed   chan struct{}       // once the connection is
	attempts int                 // answered ones since the last acknowledgement
	backoff  time.Duration       // before the next one; grows until an acknowledgement comes
	patience int                 // most attempts
	resent   uint64
}

// flight is one message under way.
type flight struct {
	msg *nats.Msg
	ack jetstream.PubAckFuture // nil before it was sent
}

// NewPublisher makes a publisher that connects by dial, whose connections must not reconnect by themselves
// ([nats.NoReconnect]). A window of 0 means [DefaultWindow].
func NewPublisher(dial func() (*nats.Conn, error), window int, log *zap.Logger) *Publisher {
	if window <= 0 {
		window = DefaultWindow
	}
	return &Publisher{dial: dial, window: window, log: log, backoff: firstBackoff, patience: maxAttempts}
}

// Publish sends data, which it copies, once there is room in the window; it blocks while the server is away, until ctx
// ends. msgID tells the message from all others in the stream. An error means that this message or an earlier one
// cannot be stored at all.
func (p *Publisher) Publish(ctx context.Context, subject, msgID, contentType string, data []byte) error {
	m := &nats.Msg{Subject: subject, Data: append([]byte(nil), data...), Header: nats.Header{}}
	m.Header.Set(jetstream.MsgIDHeader, msgID)
	if contentType != "" {
		m.Header.Set(headerContentType, contentType)
	}
	for len(p.queue) > 0 && (len(p.queue) >= p.window || p.bytes+len(data) > windowBytes) {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	if p.js == nil {
		if err := p.recover(ctx, nil); err != nil {
			return err
		}
	}
	p.queue = append(p.queue, flight{msg: m})
	p.bytes += len(m.Data)
	last := len(p.queue) - 1
	err := p.send(&p.queue[last])
	if unsendable(err) {
		p.queue, p.bytes = p.queue[:last], p.bytes-len(m.Data)
		return fmt.Errorf("publish to %s: %w", subject, err)
	}
	if err != nil {
		return p.recover(ctx, err)
	}
	return nil
}

// send sends a message once: the client would send it again by itself, out of order.
func (p *Publisher) send(f *flight) (err error) {
	f.ack, err = p.js.PublishMsgAsync(f.msg, jetstream.WithRetryAttempts(0))
	if errors.Is(err, nats.ErrConnectionClosed) {
		return &awayError{err}
	}
	return err
}

// unsendable says whether err is the fault of the message, which the connection did not take.
func unsendable(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject)
}

// Flush waits until every message is stored.
func (p *Publisher) Flush(ctx context.Context) error {
	for len(p.queue) > 0 {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return nil
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

// await books the first acknowledgement, or recovers from its failure.
func (p *Publisher) await(ctx context.Context) error {
	if p.js == nil {
		return p.recover(ctx, nil)
	}
	f := &p.queue[0]
	select {
	case <-f.ack.Ok():
	case err := <-f.ack.Err():
		return p.recover(ctx, err)
	case <-p.closed:
		return p.recover(ctx, &awayError{nats.ErrConnectionClosed})
	case <-ctx.Done():
		return ctx.Err()
	}
	p.attempts, p.backoff = 0, firstBackoff
	p.bytes -= len(f.msg.Data)
	p.queue[0] = flight{}
	p.queue = p.queue[1:]
	return nil
}

// recover connects anew and sends all that is not acknowledged, until it succeeds, ctx ends, or cause is none that
// another attempt could mend.
func (p *Publisher) recover(ctx context.Context, cause error) error {
	for {
		p.Close()
		if err := p.permanent(cause); err != nil {
			return err
		}
		if cause != nil {
			p.log.Warn("publishing interrupted, trying again", zap.Int("unacknowledged", len(p.queue)), zap.Error(cause))
			if !sleep.For(ctx, p.backoff) {
				return ctx.Err()
			}
			p.backoff = min(2*p.backoff, maxBackoff)
		}
		if cause = p.resend(); cause == nil {
			return nil
		}
	}
}

// resend opens a connection and sends the queue over it.
func (p *Publisher) resend() (err error) {
	if p.conn, err = p.dial(); err != nil {
		return &awayError{err}
	}
	closed := make(chan struct{})
	p.conn.SetClosedHandler(func(*nats.Conn) { close(closed) })
	p.closed = closed
	if p.js, err = jetstream.New(p.conn, jetstream.WithPublishAsyncMaxPending(p.window+1), jetstream.WithPublishAsyncTimeout(ackWait)); err != nil {
		p.conn.Close()
		return err
	}
	for i := range p.queue {
		if p.queue[i].ack != nil {
			p.resent++
		}
		if err := p.send(&p.queue[i]); err != nil {
			return err
		}
	}
	return nil
}

// awayError is a failure to reach the server at all, which is waited out.
type awayError struct{ error }

func (e *awayError) Unwrap() error { return e.error }

// permanent gives the error to return when cause will not go away.
func (p *Publisher) permanent(cause error) error {
	var away *awayError
	var api *jetstream.APIError
	switch {
	case cause == nil, errors.As(cause, &away):
		return nil
	case unsendable(cause), errors.As(cause, &api) && api.Code == 400:
		return fmt.Errorf("publish to %s: %w", p.queue[0].msg.Subject, cause)
	}
	if p.attempts++; p.attempts > p.patience {
		return fmt.Errorf("publish to %s: %w; see that a stream holds this subject", p.queue[0].msg.Subject, cause)
	}
	return nil
}
