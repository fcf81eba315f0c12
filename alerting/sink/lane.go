package sink

import (
	"context"
	"errors"
	"math/rand/v2"
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
	signals pace // of all notices but reports
	own     *ownQueue
	queues  []Queue // of the daemon's own notices, of signals, of reports
	report  func(Failure)
	tracer  trace.Tracer

	sending sync.Mutex // held during an attempt

	mu         sync.Mutex // guards what follows
	stats      Stats
	fails      int       // failed attempts in a row
	reportedAt time.Time // when a failure was last reported
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
		ds, err := q.Next(ctx, l.batchSize())
		if err == nil {
			err = l.settle(ctx, sending, q, ds)
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

// batchSize is how many notices are sent at once.
func (l *lane) batchSize() int {
	if _, ok := l.sink.(batcher); ok {
		return maxBatch
	}
	return 1
}

// settle delivers, skips or returns notices of the log. Errors are those of the log.
func (l *lane) settle(ctx, sending context.Context, q Queue, ds []*alerting.Delivery) (err error) {
	due := make([]*alerting.Delivery, 0, len(ds))
	for _, d := range ds {
		if q != Queue(l.own) {
			l.count(func(s *Stats) { s.Queued = d.Waiting })
		}
		wanted, e := l.wanted(ctx, q, d)
		switch {
		case e != nil:
			err = errors.Join(err, e, d.Return())
		case wanted:
			due = append(due, d)
		default:
			err = errors.Join(err, d.Settle())
		}
	}
	for len(due) > 0 {
		part := due
		failure := l.attempt(sending, part)
		if _, refused := errors.AsType[alerting.Permanent](failure); refused && len(due) > 1 {
			part = due[:1] // send one by one, so that only the refused notice fails
			failure = l.attempt(sending, part)
		}
		due = due[len(part):]
		pause := time.Duration(0)
		for _, d := range part {
			retry, after := l.record(d.Notice, failure)
			pause = max(pause, after)
			id, naming := l.id(d.Notice)
			switch {
			case retry:
				err = errors.Join(err, d.Return())
				continue
			case naming && failure == nil:
				err = errors.Join(err, q.NoteTold(sending, d.Notice.Identity(), id))
			}
			err = errors.Join(err, d.Settle())
		}
		if pause > 0 {
			for _, d := range due {
				err = errors.Join(err, d.Return())
			}
			sleep.For(ctx, pause)
			return err
		}
	}
	return err
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

// attempt tries once to send ds.
func (l *lane) attempt(ctx context.Context, ds []*alerting.Delivery) (err error) {
	l.sending.Lock()
	defer l.sending.Unlock()
	var notices []alerting.Notice
	var ids []string
	for _, d := range ds {
		notices, ids = append(notices, d.Notice), append(ids, d.Notice.ID())
	}
	ctx, span := l.tracer.Start(ctx, "deliver", trace.WithAttributes(attribute.String("forewarm.sink", l.sink.Name()), attribute.StringSlice("forewarm.notices", ids)))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}()
	ctx, cancel := context.WithTimeout(ctx, l.pace(ds[0].Notice).timeout)
	defer cancel()
	if len(ds) == 1 {
		return l.sink.Send(ctx, notices[0])
	}
	return l.sink.(batcher).SendAll(ctx, notices)
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
