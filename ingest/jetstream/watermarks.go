package jetstream

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/sleep"
)

// Ticker writes the time into the telemetry stream: for each minute T a watermark without a pool, at T + lateness by the
// wall clock. Daemons that share a stream give it the same message id, so that it is stored once.
type Ticker struct {
	publish  func(ctx context.Context, subject, id string, data []byte) error
	subject  string
	lateness time.Duration
	outcome  func(error)
	offline  func(ctx context.Context, minute time.Time) bool
	pending  []time.Time // minutes that ticked offline and whose watermarks are not stored yet, oldest first
}

// NewTicker publishes through js to the watermark subject below prefix. outcome is told how each attempt to store a
// watermark ended; an attempt that failed is made again each second. offline is offered a minute whose watermark cannot be
// stored for offlineAfter, and may go on without the stream, which it says.
func NewTicker(js jetstream.JetStream, prefix string, lateness time.Duration, outcome func(error), offline func(context.Context, time.Time) bool) *Ticker {
	publish := func(ctx context.Context, subject, id string, data []byte) error {
		m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
		m.Header.Set(headerContentType, ingest.ContentTypeJSON)
		ctx, cancel := context.WithTimeout(ctx, apiTimeout)
		defer cancel()
		_, err := js.PublishMsg(ctx, m, jetstream.WithMsgID(id))
		return err
	}
	return &Ticker{publish: publish, subject: ingest.WatermarkSubject(prefix, ""), lateness: lateness, outcome: outcome, offline: offline}
}

const (
	// tickRetry is how long the ticker waits before it offers a watermark again.
	tickRetry = time.Second
	// offlineAfter is how long a stream may not take a watermark that is due.
	offlineAfter = 5 * time.Second
	// maxPending bounds the minutes that wait; the oldest are let go of.
	maxPending = 24 * 60
)

// Run publishes until ctx ends, and then returns nil. A watermark that could not be stored is offered again until the next
// one is due, which then stands for both; unless its minute ticked offline. Those are stored later, in order, so that
// what reads the stream again takes the steps that were taken meanwhile.
func (t *Ticker) Run(ctx context.Context) error {
	minute := time.Now().Add(-t.lateness).Truncate(time.Minute)
	for {
		minute = minute.Add(time.Minute)
		if late := time.Now().Add(-t.lateness).Truncate(time.Minute); late.After(minute) {
			minute = late // the machine slept, or the clock was set
		}
		if !sleep.For(ctx, time.Until(minute.Add(t.lateness))) {
			return nil
		}
		t.offer(ctx, minute)
	}
}

// offer stores what waits and the minute, until the next one is due.
func (t *Ticker) offer(ctx context.Context, minute time.Time) {
	due := minute.Add(t.lateness)
	ctx, cancel := context.WithDeadline(ctx, due.Add(time.Minute))
	defer cancel()
	for waiting := append(slices.Clone(t.pending), minute); len(waiting) > 0; {
		at := waiting[0]
		err := t.publish(ctx, t.subject, "watermark-"+strconv.FormatInt(at.Unix(), 10), ingest.AppendWatermark(nil, &ingest.Watermark{At: at}))
		if ctx.Err() != nil {
			return
		}
		if t.outcome(err); err == nil {
			waiting = waiting[1:]
			t.pending = t.pending[min(1, len(t.pending)):]
			continue
		}
		if time.Since(due) >= offlineAfter && !slices.Contains(t.pending, minute) && t.offline(ctx, minute) {
			t.pending = append(t.pending[max(0, len(t.pending)+1-maxPending):], minute)
		}
		if !sleep.For(ctx, tickRetry) {
			return
		}
	}
}
