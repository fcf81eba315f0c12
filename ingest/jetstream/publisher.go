package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/sleep"
)

const (
	ackWait      = 3 * time.Second
	publishRetry = 500 * time.Millisecond // from one attempt to the next
	maxAttempts  = 5                      // for one message, on a server that answers
)

// Publisher stores the messages of one goroutine in order, through restarts of the server. One that was not acknowledged
// is sent again. The server drops it if it was stored within the stream's duplicate window.
type Publisher struct {
	js jetstream.JetStream
}

// NewPublisher publishes on a connection that reconnects by itself.
func NewPublisher(conn *nats.Conn) (*Publisher, error) {
	js, err := jetstream.New(conn)
	return &Publisher{js: js}, err
}

// Publish stores records in one message, and retries until ctx ends. An error means that it cannot be stored at all.
func (p *Publisher) Publish(ctx context.Context, subject, msgID string, b *ingest.Batch) error {
	m := message(subject, b)
	m.Header.Set(jetstream.MsgIDHeader, msgID)
	for attempts := 0; ; {
		wait, cancel := context.WithTimeout(ctx, ackWait)
		_, err := p.js.PublishMsg(wait, m)
		cancel()
		if err == nil {
			return nil
		}
		if p.js.Conn().IsConnected() {
			attempts++
		}
		denied := p.js.Conn().LastError() // the server sends no reply to a message that it refuses
		switch {
		case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrConnectionClosed):
			return fmt.Errorf("publish to %s: %w", subject, err)
		case errors.Is(denied, nats.ErrPermissionViolation):
			return fmt.Errorf("publish to %s: %w; allow this user to publish there (deploy/nats/permissions.conf has the permissions), "+
				"or connect as another user with -config", subject, denied)
		case attempts < maxAttempts: // try again
		case errors.Is(err, jetstream.ErrNoStreamResponse):
			return fmt.Errorf("publish to %s: no stream holds this subject; start forewarm serve, which makes the stream, or give its -config", subject)
		default:
			return fmt.Errorf("publish to %s: %w; is JetStream on at this server?", subject, err)
		}
		if !sleep.For(ctx, publishRetry) {
			return ctx.Err()
		}
	}
}
