package jetstream

import (
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/ingest"
)

// The headers of a dead letter. It has no body, because a refused record may hold a prompt.
const (
	HeaderReason   = "Forewarm-Reason"
	HeaderDetail   = "Forewarm-Detail"
	HeaderSequence = "Forewarm-Sequence" // of the message in the telemetry stream
)

// maxLetters bounds the letters about one message; further ones are dropped and counted.
const maxLetters = 1024

// DeadLetter publishes refused telemetry for people. In a long outage of the connection, letters are dropped.
type DeadLetter struct {
	Dropped atomic.Uint64 // letters that were lost: there were too many, or the connection refused them

	conn    *nats.Conn
	subject string
}

// NewDeadLetter publishes to the dead-letter subject below prefix.
func NewDeadLetter(conn *nats.Conn, prefix string) *DeadLetter {
	return &DeadLetter{conn: conn, subject: ingest.Subject(prefix, ingest.DeadLetterSubject)}
}

// Send publishes refusals, except duplicates. sequence is 0 for a message of no stream. It is safe for concurrent use.
func (d *DeadLetter) Send(sequence uint64, refused []ingest.Refusal) {
	letters := 0
	for i := range refused {
		r := &refused[i]
		if r.Reason == ingest.ReasonDuplicate {
			continue
		}
		m := nats.NewMsg(d.subject)
		m.Header.Set(HeaderReason, string(r.Reason))
		m.Header.Set(HeaderDetail, r.Detail)
		if sequence > 0 {
			m.Header.Set(HeaderSequence, strconv.FormatUint(sequence, 10))
		}
		if letters++; letters > maxLetters || d.conn.PublishMsg(m) != nil {
			d.Dropped.Add(1)
		}
	}
}
