package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// line is one connection of a [Publisher], and the acknowledgements that come over it. Unlike the asynchronous publish of
// the client library it never sends a message again by itself, for that would break the order.
type line struct {
	conn   *nats.Conn
	inbox  string // messages ask for their acknowledgement at inbox.<number>
	acks   chan *nats.Msg
	closed chan struct{}
}

func openLine(conn *nats.Conn, window int) (*line, error) {
	l := &line{conn: conn, inbox: conn.NewInbox() + ".", acks: make(chan *nats.Msg, window+1), closed: make(chan struct{})}
	conn.SetClosedHandler(func(*nats.Conn) { close(l.closed) })
	if _, err := conn.ChanSubscribe(l.inbox+"*", l.acks); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *line) send(m *nats.Msg, number uint64) error {
	m.Reply = l.inbox + strconv.FormatUint(number, 10)
	err := l.conn.PublishMsg(m)
	if errors.Is(err, nats.ErrConnectionClosed) {
		return &awayError{err}
	}
	return err
}

// ack waits for the next acknowledgement and gives the number of the message that is stored; an error says that one
// is not, or that nothing was heard for ackWait.
func (l *line) ack(ctx context.Context) (number uint64, err error) {
	select {
	case m := <-l.acks:
		return l.read(m)
	default:
	}
	timeout := time.NewTimer(ackWait)
	defer timeout.Stop()
	select {
	case m := <-l.acks:
		return l.read(m)
	case <-l.closed:
		return 0, &awayError{nats.ErrConnectionClosed}
	case <-timeout.C:
		if l.conn.IsClosed() {
			return 0, &awayError{nats.ErrConnectionClosed}
		}
		return 0, fmt.Errorf("no acknowledgement within %s", ackWait)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (l *line) read(m *nats.Msg) (number uint64, err error) {
	if m.Header.Get("Status") == "503" {
		return 0, jetstream.ErrNoStreamResponse
	}
	var answer struct {
		Stream string              `json:"stream"`
		Error  *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return 0, fmt.Errorf("acknowledgement: %w", err)
	}
	if answer.Error != nil {
		return 0, answer.Error
	}
	if answer.Stream == "" {
		return 0, jetstream.ErrInvalidJSAck
	}
	return strconv.ParseUint(m.Subject[len(l.inbox):], 10, 64)
}

func (l *line) close() { l.conn.Close() }
