package sink

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/sleep"
)

// lane is the delivery to one sink.
type lane struct {
	sink    alerting.Sink
	signals pace    // of all notices but reports
	queues  []Queue // of signals, of reports
	report  func(Failure)
	tracer  trace.Tracer
	woken   chan struct{} // by Notify

	sending sync.Mutex // held during an attempt

	mu         sync.Mutex // guards what follows
	stats      Stats
	fails      int                  // failed attempts in a row
	reportedAt time.Time            // when a failure was last reported
	own        map[string]ownNotice // the daemon's own notices, by identity, at most maxOwn
}

// minQueueRetry and maxQueueRetry bound the pause before a failed read of a queue is retried.
const (
	minQueueRetry = 200 * time.Millisecond
	maxQueueRetry = 5 * time.Second
)

// run delivers the notices of q until ctx is done. A running attempt then ends with sending.
func (l *lane) run(ctx, sending context.Context, q Queue) {
	wait := minQueueRetry
	for ctx.Err() == nil {
		d, err := q.Next(ctx)
		if err == nil && d != nil {
			err = l.deliver(ctx, sending, q, d)
		}
		if err == nil {
			wait = minQueueRetry
			continue
		}
		if ctx.Err() == nil {
			l.failed(alerting.Notice{}, err, false)
		}
		sleep.For(ctx, wait)
		wait = min(2*wait, maxQueueRetry)
	}
}

// deliver sends, skips or returns a notice of the log. Errors are those of the log.
func (l *lane) deliver(ctx, sending context.Context, q Queue, d *alerting.Delivery) error {
	l.count(func(s *Stats) { s.Queued = d.Waiting })
	wanted, err := l.wanted(ctx, q, d)
	if err != nil {
		return errors.Join(err, d.Return())
	}
	if !wanted {
		return d.Settle()
	}
	failure := l.attempt(sending, d.Notice)
	if retry, pause := l.record(d.Notice, failure); retry {
		err := d.Return()
		sleep.For(ctx, pause)
		return err
	}
	if id, naming := l.id(d.Notice); naming && failure == nil {
		err = q.SetDelivered(sending, d.Notice.Identity(), id)
	}
	return errors.Join(err, d.Settle())
}

// wanted reports whether a notice is still to be delivered, and counts why not.
func (l *lane) wanted(ctx context.Context, q Queue, d *alerting.Delivery) (bool, error) {
	n := d.Notice
	if !accepts(l.sink, n) {
		return false, nil
	}
	id, naming := l.id(n)
	if naming {
		if last, err := q.Delivered(ctx, n.Identity()); err != nil || last == id {
			return false, err
		}
	}
	var newer alerting.Notice
	var replaced bool
	var err error
	if _, keeps := l.sink.(keeper); !keeps {
		newer, replaced, err = d.Newer(ctx)
	}
	switch {
	case err != nil:
		return false, err
	case replaced && accepts(l.sink, newer):
		if newID, _ := l.id(newer); newID != id { // the same id has the same content
			l.count(func(s *Stats) { s.Superseded++ })
		}
		return false, nil
	case l.snapshot().Disabled || time.Since(d.Stored) > n.Life():
		l.count(func(s *Stats) { s.Lapsed++ })
		return false, nil
	}
	return true, nil
}

// ownNotice is a notice of the daemon itself, and when it was made.
type ownNotice struct {
	alerting.Notice
	at time.Time
}

// maxOwn bounds the daemon's own notices.
const maxOwn = 256

// notify stores the daemon's own notices that the sink accepts, and wakes runOwn.
func (l *lane) notify(notices []alerting.Notice) {
	l.mu.Lock()
	for _, n := range notices {
		if _, known := l.own[n.Identity()]; accepts(l.sink, n) && (known || len(l.own) < maxOwn) {
			l.own[n.Identity()] = ownNotice{n, time.Now()}
		}
	}
	l.mu.Unlock()
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// runOwn delivers the daemon's own notices until ctx is done. After a failure the rest waits for the next wake, unless it
// expires or a newer notice of the same identity replaces it.
func (l *lane) runOwn(ctx, sending context.Context) {
	delivered := map[string]string{} // identity to the id last delivered, at most maxOwn
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.woken:
		}
		l.mu.Lock()
		due := l.own
		l.own = map[string]ownNotice{}
		l.mu.Unlock()
		l.sendOwn(sending, due, delivered)
		l.mu.Lock()
		for identity, n := range due {
			if _, replaced := l.own[identity]; !replaced && len(l.own) < maxOwn {
				l.own[identity] = n
			}
		}
		l.mu.Unlock()
	}
}

// sendOwn sends notices up to the first failure, and removes from due what needs no further attempt.
func (l *lane) sendOwn(ctx context.Context, due map[string]ownNotice, delivered map[string]string) {
	for _, identity := range slices.Sorted(maps.Keys(due)) {
		n := due[identity]
		id, _ := l.id(n.Notice)
		switch {
		case delivered[identity] == id:
		case l.snapshot().Disabled || time.Since(n.at) > n.Life():
			l.count(func(s *Stats) { s.Lapsed++ })
		default:
			if retry, _ := l.record(n.Notice, l.attempt(ctx, n.Notice)); retry {
				return
			}
			if len(delivered) >= maxOwn {
				clear(delivered)
			}
			delivered[identity] = id
		}
		delete(due, identity)
	}
}

// id is the id under which the sink sends n. naming is true if other notices may have the same id.
func (l *lane) id(n alerting.Notice) (id string, naming bool) {
	if s, ok := l.sink.(namer); ok {
		return s.ID(n), true
	}
	return n.ID(), false
}

func (l *lane) pace(n alerting.Notice) pace {
	if n.Report != nil {
		return reportPace
	}
	return l.signals
}

// attempt tries once to send n.
func (l *lane) attempt(ctx context.Context, n alerting.Notice) (err error) {
	l.sending.Lock()
	defer l.sending.Unlock()
	ctx, span := l.tracer.Start(ctx, "deliver", trace.WithAttributes(attribute.String("forewarm.sink", l.sink.Name()), attribute.StringSlice("forewarm.notices", []string{n.ID()})))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}()
	ctx, cancel := context.WithTimeout(ctx, l.pace(n).timeout)
	defer cancel()
	return l.sink.Send(ctx, n)
}

// maxRetryAfter bounds the pause that a consumer may ask for.
const maxRetryAfter = time.Hour

// record counts the outcome of an attempt, and returns whether to retry, and after which pause.
func (l *lane) record(n alerting.Notice, err error) (retry bool, pause time.Duration) {
	_, permanent := errors.AsType[alerting.Permanent](err)
	_, gone := errors.AsType[alerting.Gone](err)
	switch {
	case err == nil:
		l.count(func(s *Stats) { s.Sent++ })
		l.recovered()
		return false, 0
	case gone:
		l.count(func(s *Stats) { s.Failed++; s.Disabled = true })
		l.report(Failure{Sink: l.stats.Sink, Notice: n, Err: err, Failures: 1, Final: true, Disabled: true})
		return false, 0
	case permanent: // the sink works; only this notice fails
		l.count(func(s *Stats) { s.Failed++ })
		l.report(Failure{Sink: l.stats.Sink, Notice: n, Err: err, Failures: 1, Final: true})
		return false, 0
	}
	l.count(func(s *Stats) { s.Retried++ })
	fails := l.failed(n, err, true)
	// Exponential backoff with 50 % jitter, so that daemons do not retry at the same time.
	p := l.pace(n)
	pause = min(p.first<<min(fails-1, 20), p.longest)
	pause = pause/2 + time.Duration(rand.Float64()*float64(pause)/2)
	if later, ok := errors.AsType[alerting.Later](err); ok {
		pause = max(pause, min(later.After, maxRetryAfter))
	}
	return true, pause
}

// failed counts a failure, and reports it if it is the first in a row or reportEvery has passed.
func (l *lane) failed(n alerting.Notice, err error, attempt bool) (fails int) {
	l.mu.Lock()
	if attempt || l.fails == 0 {
		l.fails++
	}
	fails = l.fails
	now := time.Now()
	report := fails == 1 || now.Sub(l.reportedAt) >= reportEvery
	if report {
		l.reportedAt = now
	}
	l.mu.Unlock()
	if report {
		l.report(Failure{Sink: l.stats.Sink, Notice: n, Err: err, Failures: fails})
	}
	return fails
}

func (l *lane) recovered() {
	l.mu.Lock()
	fails := l.fails
	l.fails = 0
	l.mu.Unlock()
	if fails > 0 {
		l.report(Failure{Sink: l.stats.Sink, Failures: fails})
	}
}

func (l *lane) count(f func(s *Stats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.stats)
}

func (l *lane) snapshot() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}
