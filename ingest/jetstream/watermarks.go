package jetstream

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/sleep"
)

// Ticker writes the time into the telemetry stream: for each minute T a watermark without a pool, at T + lateness by
// the clock of the NATS server, which also stamps the messages. The clock of this machine may be set at any time
// without effect. Daemons that share a stream give a watermark the same message id, so that it is stored once.
type Ticker struct {
	publish  func(ctx context.Context, subject, id string, data []byte) error
	subject  string
	lateness time.Duration
	outcome  func(error)
	offline  func(ctx context.Context, minute time.Time) bool
	log      *zap.Logger
	pending  []time.Time // minutes that ticked offline and whose watermarks are not stored yet, oldest first

	mu      sync.Mutex
	server  time.Time     // the server's clock at the newest Sync
	at      time.Time     // when that was, by the monotonic clock of this process
	started chan struct{} // closed by the first Sync
}

// NewTicker publishes through js to the watermark subject below prefix. outcome is called with the result of each
// attempt to store a watermark; a failed attempt is repeated each second. offline is called with a minute whose
// watermark cannot be stored for offlineAfter. It returns true if the daemon ticks without the stream.
func NewTicker(js jetstream.JetStream, prefix string, lateness time.Duration, outcome func(error), offline func(context.Context, time.Time) bool, log *zap.Logger) *Ticker {
	publish := func(ctx context.Context, subject, id string, data []byte) error {
		m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
		m.Header.Set(headerContentType, codec.ContentTypeJSON)
		ctx, cancel := context.WithTimeout(ctx, apiTimeout)
		defer cancel()
		_, err := js.PublishMsg(ctx, m, jetstream.WithMsgID(id))
		return err
	}
	return &Ticker{publish: publish, subject: ingest.Subject(prefix, ingest.WatermarkSubject, ""), lateness: lateness, outcome: outcome, offline: offline, log: log, started: make(chan struct{})}
}

const (
	// tickRetry is how long the ticker waits before it offers a watermark again.
	tickRetry = time.Second
	// offlineAfter is how long a stream may not take a watermark that is due.
	offlineAfter = 5 * time.Second
	// maxPending bounds the minutes that wait; the oldest are dropped.
	maxPending = 24 * 60
	// jump is the smallest change of the server's clock that is logged.
	jump = time.Minute
)

// Sync sets the ticker's clock to what the server's clock says now. Between two calls it goes on by this machine's
// monotonic clock, which nobody can set.
func (t *Ticker) Sync(server time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.IsZero() {
		close(t.started)
	} else if by := server.Sub(t.server.Add(time.Since(t.at))); by.Abs() >= jump {
		t.log.Error("the clock of the NATS server was set; minutes that it skips are without telemetry, and none is closed twice", zap.Duration("by", by.Round(time.Second)))
	}
	t.server, t.at = server, time.Now()
}

// now is the server's clock.
func (t *Ticker) now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.server.Add(time.Since(t.at))
}

// newest is the newest minute that may be closed.
func (t *Ticker) newest() time.Time { return t.now().Add(-t.lateness).Truncate(time.Minute) }

// Run publishes until ctx ends, and then returns nil. It begins after the first Sync. In a stream that was in use it
// begins with the newest minute that is over, because a daemon that restarted when that was due did not store it. A
// failed watermark is repeated until the next one is due, which includes it. Minutes that ticked offline are stored
// later, in order, so that a replay takes the same steps. After the clock goes back, no minute is closed until it is
// past the newest one again.
func (t *Ticker) Run(ctx context.Context, inUse bool) error {
	select {
	case <-t.started:
	case <-ctx.Done():
		return nil
	}
	minute := t.newest()
	if !inUse {
		minute = minute.Add(time.Minute)
	}
	for ; ; minute = minute.Add(time.Minute) {
		if late := t.newest(); late.After(minute) {
			minute = late // the machine slept, or the clock was set
		}
		for due := minute.Add(t.lateness); ; {
			wait := due.Sub(t.now())
			if wait <= 0 {
				break
			}
			if !sleep.For(ctx, min(wait, tickRetry)) { // the clock may be set meanwhile
				return nil
			}
		}
		t.offer(ctx, minute)
	}
}

// offer stores what waits and the minute, until the next one is due.
func (t *Ticker) offer(ctx context.Context, minute time.Time) {
	due := minute.Add(t.lateness)
	ctx, cancel := context.WithTimeout(ctx, due.Add(time.Minute).Sub(t.now()))
	defer cancel()
	for waiting := append(slices.Clone(t.pending), minute); len(waiting) > 0; {
		at := waiting[0]
		err := t.publish(ctx, t.subject, "watermark-"+strconv.FormatInt(at.Unix(), 10), codec.Append(nil, &ingest.Watermark{At: at}))
		if ctx.Err() != nil {
			return
		}
		if t.outcome(err); err == nil {
			waiting = waiting[1:]
			t.pending = t.pending[min(1, len(t.pending)):] // waiting began with the same minute, if there is one
			continue
		}
		if t.now().Sub(due) >= offlineAfter && !slices.Contains(t.pending, minute) && t.offline(ctx, minute) {
			t.pending = append(t.pending[max(0, len(t.pending)+1-maxPending):], minute)
		}
		if !sleep.For(ctx, tickRetry) {
			return
		}
	}
}
