package jetstream

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/ingest"
)

// The headers of a dead letter. It has no body, because a refused record may hold a prompt.
const (
	HeaderReason   = "Forewarm-Reason"
	HeaderDetail   = "Forewarm-Detail"
	HeaderSequence = "Forewarm-Sequence" // of the message in the telemetry stream
)

// deadLetterQueue bounds the letters that wait to be sent; further ones are dropped and counted.
const deadLetterQueue = 1024

// DeadLetter publishes refused telemetry, for people to look at. It is best effort: it never blocks who refuses.
type DeadLetter struct {
	conn    *nats.Conn
	subject string
	queue   chan *nats.Msg
	dropped atomic.Uint64
}

// NewDeadLetter publishes to the dead-letter subject below prefix, once Run is called.
func NewDeadLetter(conn *nats.Conn, prefix string) *DeadLetter {
	return &DeadLetter{conn: conn, subject: ingest.DeadLetterSubject(prefix), queue: make(chan *nats.Msg, deadLetterQueue)}
}

// Send queues what was refused of the message at sequence, duplicates excepted: they are no fault. Safe for concurrent
// use.
func (d *DeadLetter) Send(sequence uint64, refused []ingest.Refusal) {
	for i := range refused {
		if refused[i].Reason == ingest.ReasonDuplicate {
			continue
		}
		select {
		case d.queue <- d.letter(sequence, &refused[i]):
		default:
			d.dropped.Add(1)
		}
	}
}

func (d *DeadLetter) letter(sequence uint64, r *ingest.Refusal) *nats.Msg {
	m := nats.NewMsg(d.subject)
	m.Header.Set(HeaderReason, string(r.Reason))
	m.Header.Set(HeaderDetail, r.Detail)
	m.Header.Set(HeaderSequence, strconv.FormatUint(sequence, 10))
	return m
}

// Dropped counts the letters that were lost because the queue was full or the connection refused them.
func (d *DeadLetter) Dropped() uint64 { return d.dropped.Load() }

// Run sends letters until ctx ends, and then those that wait already.
func (d *DeadLetter) Run(ctx context.Context) error {
	for {
		select {
		case m := <-d.queue:
			d.publish(m)
		case <-ctx.Done():
			for {
				select {
				case m := <-d.queue:
					d.publish(m)
				default:
					_ = d.conn.FlushTimeout(time.Second) // best effort, like all of it
					return nil
				}
			}
		}
	}
}

func (d *DeadLetter) publish(m *nats.Msg) {
	if err := d.conn.PublishMsg(m); err != nil {
		d.dropped.Add(1)
	}
}
