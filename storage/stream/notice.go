package stream

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
)

// Kinds of notices in subjects.
const (
	kindPrescale = "prescale"
	kindAlert    = "alert"
	kindReport   = "report"
)

// minNoticeLife is the least time a notice stays in the log, so that sinks count one that expires undelivered.
const minNoticeLife = time.Hour

// noticeMessage encodes a notice for the log. It returns its pool, too; "" for a report.
func (l *Log) noticeMessage(n *alerting.Notice) (_ *nats.Msg, pool string, err error) {
	kind, identity := kindReport, ""
	switch {
	case n.Decision != nil:
		kind, pool = kindPrescale, n.Decision.Pool
	case n.Alert != nil:
		kind, pool, identity = kindAlert, n.Alert.Labels["pool"], n.Alert.Identity()
	}
	m := nats.NewMsg(ingest.Subject(l.cfg.Prefix, ingest.NoticeSubject, kind, pool, identity))
	if m.Data, err = encoding.Marshal(n); err != nil {
		return nil, "", fmt.Errorf("notice %s: %w", n.ID(), err)
	}
	if n.Report == nil {
		m.Header.Set(jetstream.MsgTTLHeader, (2*n.Life() + minNoticeLife).Round(time.Second).String())
	}
	return m, pool, nil
}

// AddNotice stores a notice outside a tick, once per id.
func (l *Log) AddNotice(ctx context.Context, n alerting.Notice) error {
	m, _, err := l.noticeMessage(&n)
	if err != nil {
		return err
	}
	m.Header.Set(jetstream.MsgIDHeader, n.ID())
	if last, sequence, err := l.lastNotice(ctx, m.Subject); err != nil {
		return err
	} else if sequence > 0 && last.ID() == n.ID() {
		return nil // stored by a twin, or before a crash
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = l.js.PublishMsg(ctx, m)
	return err
}

// Reported returns the newest stored report, nil if there is none.
func (l *Log) Reported(ctx context.Context) (*alerting.Report, error) {
	n, _, err := l.lastNotice(ctx, ingest.Subject(l.cfg.Prefix, ingest.NoticeSubject, kindReport, "", ""))
	return n.Report, err
}

// lastNotice returns the newest notice of a subject, and its sequence; 0 if there is none, or if it cannot be decoded.
func (l *Log) lastNotice(ctx context.Context, subject string) (n alerting.Notice, sequence uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := l.js.Stream(ctx, l.cfg.Stream)
	if err != nil {
		return n, 0, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return n, 0, nil
	}
	if err != nil {
		return n, 0, err
	}
	if err := cbor.Unmarshal(m.Data, &n); err != nil {
		l.log.Warn("the newest notice of a subject is no notice of this version; it is not used",
			"subject", subject, "sequence", m.Sequence, "err", err)
		return alerting.Notice{}, 0, nil
	}
	return n, m.Sequence, nil
}

// Queue delivers the log's notices to one sink, in order; daemons on one log share it. It is for one goroutine.
type Queue struct {
	log       *Log
	delivered jetstream.KeyValue
	name      string // of the durable consumer
	sink      string
	kinds     []string      // of notices
	wait      time.Duration // until another daemon gets the notice
	consumer  jetstream.Consumer
	settled   uint64 // sequence of the newest acknowledged here
}

// Queue prepares the queue of a sink, for reports or for all other notices.
func (l *Log) Queue(delivered jetstream.KeyValue, sink string, reports bool) *Queue {
	q := &Queue{log: l, delivered: delivered, sink: sink}
	q.name, q.kinds, q.wait = "sink-signals-"+token(sink), []string{kindPrescale, kindAlert}, signalWait
	if reports {
		q.name, q.kinds, q.wait = "sink-reports-"+token(sink), []string{kindReport}, reportWait
	}
	return q
}

// token converts a name to letters, digits, dashes and underscores.
func token(name string) string { return ingest.Escape(name, notToken, "_%02x") }

var notToken = regexp.MustCompile(`[^0-9A-Za-z-]`)

const (
	// newQueueAge is the age of the oldest notice that a new sink gets.
	newQueueAge = 72 * time.Hour
	// signalWait and reportWait exceed the time of one attempt. After that a notice of a killed daemon goes to a twin,
	// or to the restarted daemon.
	signalWait = 20 * time.Second
	reportWait = 70 * time.Second
	// unusedFor is when the server deletes the queue of a removed sink.
	unusedFor = 30 * 24 * time.Hour
)

// open finds the durable consumer. If it was deleted, open creates it after the last acknowledged notice.
func (q *Queue) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var filters []string
	for _, kind := range q.kinds {
		filters = append(filters, ingest.Subject(q.log.cfg.Prefix, ingest.NoticeSubject, kind)+".>")
	}
	c, err := q.log.js.Consumer(ctx, q.log.cfg.Stream, q.name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		cfg := jetstream.ConsumerConfig{
			Durable: q.name, Description: "Forewarm: notifications for " + q.sink, FilterSubjects: filters,
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.wait, MaxAckPending: 1, InactiveThreshold: unusedFor,
			DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: new(time.Now().Add(-newQueueAge)),
		}
		s, failed := q.log.js.Stream(ctx, q.log.cfg.Stream)
		if failed != nil {
			return fmt.Errorf("stream %s: %w", q.log.cfg.Stream, failed)
		}
		if s.CachedInfo().State.LastSeq < q.settled { // the stream was deleted and created again
			q.settled = 0
		}
		if q.settled > 0 {
			cfg.DeliverPolicy, cfg.OptStartTime, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, q.settled+1
			q.log.log.Warn("the queue of a sink was deleted; it is created again at its last position", "consumer", q.name)
		}
		c, err = q.log.js.CreateConsumer(ctx, q.log.cfg.Stream, cfg)
		if errors.Is(err, jetstream.ErrConsumerExists) { // a twin created it at the same time
			c, err = q.log.js.Consumer(ctx, q.log.cfg.Stream, q.name)
		}
	}
	q.consumer = c
	if err != nil {
		return fmt.Errorf("consumer %s: %w", q.name, err)
	}
	return nil
}

// maxFetchWait bounds one request for the next notice.
const maxFetchWait = 30 * time.Second

// Next waits for the next notice; nil if none came for a while.
func (q *Queue) Next(ctx context.Context) (d *alerting.Delivery, err error) {
	if q.consumer == nil {
		if err := q.open(ctx); err != nil {
			return nil, err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, maxFetchWait)
	defer cancel()
	batch, err := q.consumer.Fetch(1, jetstream.FetchContext(waiting))
	if err == nil {
		if m, ok := <-batch.Messages(); ok {
			return q.delivery(m)
		}
		if err = batch.Error(); errors.Is(err, nats.ErrTimeout) || waiting.Err() != nil {
			err = nil // no notice came in time, or ctx has ended
		}
	}
	if err != nil {
		q.consumer = nil
	}
	return nil, err
}

func (q *Queue) delivery(m jetstream.Msg) (*alerting.Delivery, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	d := &alerting.Delivery{Stored: meta.Timestamp, Waiting: int(meta.NumPending)}
	d.Settle = func() error {
		q.settled = max(q.settled, meta.Sequence.Stream)
		return m.Ack()
	}
	d.Return = m.Nak
	d.Newer = func(ctx context.Context) (alerting.Notice, bool, error) {
		n, sequence, err := q.log.lastNotice(ctx, m.Subject())
		return n, err == nil && sequence > meta.Sequence.Stream, err
	}
	if err := cbor.Unmarshal(m.Data(), &d.Notice); err != nil {
		return nil, errors.Join(fmt.Errorf("message %d is no notice of this version, and is skipped: %w", meta.Sequence.Stream, err), m.Term())
	}
	return d, nil
}

// Delivered returns the id of the last notice of an identity that a sink accepted within a week, or "".
func (q *Queue) Delivered(ctx context.Context, identity string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	e, err := q.delivered.Get(ctx, q.key(identity))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return string(e.Value()), nil
}

// SetDelivered stores the id of the last notice of an identity that a sink accepted.
func (q *Queue) SetDelivered(ctx context.Context, identity, id string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := q.delivered.Put(ctx, q.key(identity), []byte(id))
	return err
}

func (q *Queue) key(identity string) string { return token(q.sink) + "." + token(identity) }
