package jetstream

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/sleep"
)

// Ticker writes the time into the telemetry stream: for each minute T a watermark without a pool, at T + lateness by
// the clock of the NATS server, which also stamps the messages. The clock of this machine may be set at any time
// without effect. Daemons that share a stream give a watermark the same message id, so that it is stored once.
type Ticker struct {
	publish  func(ctx context.Context, m *nats.Msg, id string) error
	subject  string
	lateness time.Duration
	outcome  func(error)
	offline  func(ctx context.Context, minute time.Time) bool

	mu     sync.Mutex
	server time.Time // the server's clock at the newest Sync
	at     time.Time // when that was, by the monotonic clock of this process
}

// NewTicker publishes through js to the watermark subject below prefix. outcome is called with the result of each
// attempt to store a watermark; a failed attempt is repeated each second. offline is called with a minute whose
// watermark cannot be stored for offlineAfter. It returns true if the daemon ticks without the stream. Until the first
// Sync the ticker has the clock of this machine.
func NewTicker(
	js jetstream.JetStream, prefix string, lateness time.Duration,
	outcome func(error), offline func(context.Context, time.Time) bool,
) *Ticker {
	publish := func(ctx context.Context, m *nats.Msg, id string) error {
		ctx, cancel := context.WithTimeout(ctx, apiTimeout)
		defer cancel()
		_, err := js.PublishMsg(ctx, m, jetstream.WithMsgID(id))
		return err
	}
	t := &Ticker{
		publish:  publish,
		subject:  ingest.Subject(prefix, ingest.WatermarkSubject, ""),
		lateness: lateness,
		outcome:  outcome,
		offline:  offline,
	}
	t.Sync(time.Now())
	return t
}

const (
	// tickRetry is how long the ticker waits before it offers a watermark again.
	tickRetry = time.Second
	// offlineAfter is how long a stream may not take a watermark that is due.
	offlineAfter = 5 * time.Second
)

// Sync sets the ticker's clock to what the server's clock says now. Between two calls it goes on by this machine's
// monotonic clock, which nobody can set.
func (t *Ticker) Sync(server time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.server, t.at = server, time.Now()
}

// Now is the server's clock.
func (t *Ticker) Now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.server.Add(time.Since(t.at))
}

// newest is the newest minute that may be closed.
func (t *Ticker) newest() time.Time { return t.Now().Add(-t.lateness).Truncate(time.Minute) }

// Run publishes until ctx ends, and then returns nil. In a stream that was in use it begins with the newest minute that
// is over: a daemon may have been down when that was due. A failed watermark is repeated until the next one is due, which
// includes it. After the clock is set back, Run waits until it is past the newest minute again.
func (t *Ticker) Run(ctx context.Context, inUse bool) error {
	minute := t.newest()
	if !inUse {
		minute = minute.Add(time.Minute)
	}
	for ; ; minute = minute.Add(time.Minute) {
		if late := t.newest(); late.After(minute) {
			minute = late // the machine slept, or the clock was set
		}
		for due := minute.Add(t.lateness); ; {
			wait := due.Sub(t.Now())
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

// offer stores the watermark of a minute, or gives up when the next one is due.
func (t *Ticker) offer(ctx context.Context, minute time.Time) {
	due, id := minute.Add(t.lateness), "watermark-"+strconv.FormatInt(minute.Unix(), 10)
	ctx, cancel := context.WithTimeout(ctx, due.Add(time.Minute).Sub(t.Now()))
	defer cancel()
	for ticked := false; ; {
		err := t.publish(ctx, message(t.subject, &ingest.Batch{Watermark: &ingest.Watermark{At: minute}}), id)
		if ctx.Err() != nil {
			return
		}
		if t.outcome(err); err == nil {
			return
		}
		if !ticked && t.Now().Sub(due) >= offlineAfter {
			ticked = t.offline(ctx, minute)
		}
		if !sleep.For(ctx, tickRetry) {
			return
		}
	}
}
