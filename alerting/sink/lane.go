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

// lane delivers to one sink.
type lane struct {
	sink    alerting.Sink
	signals pace // of all but reports
	own     *ownQueue
	queues  []Queue // of the daemon's own notices, of signals, of reports
	report  func(Failure)
	tracer  trace.Tracer

	sending sync.Mutex // held during an attempt

	mu    sync.Mutex // guards what follows
	stats Stats
	fails int       // attempts in a row that failed
	said  time.Time // when a failure was last told of
}

// firstSurvey and lastSurvey pace attempts to read a queue that cannot be read.
const (
	firstSurvey = 200 * time.Millisecond
	lastSurvey  = 5 * time.Second
)

// run delivers what the log has until ctx is done. An attempt under way then ends with sending.
func (l *lane) run(ctx, sending context.Context, q Queue) {
	wait := firstSurvey
	for ctx.Err() == nil {
		ds, err := q.Next(ctx, l.most())
		if err == nil {
			err = l.settle(ctx, sending, q, ds)
		}
		if err == nil {
			wait = firstSurvey
			continue
		}
		if ctx.Err() == nil {
			l.failed(alerting.Notice{}, err, false)
		}
		sleep.For(ctx, wait)
		wait = min(2*wait, lastSurvey)
	}
}

// most is how many notices go to the consumer at once.
func (l *lane) most() int {
	if _, several := l.sink.(batcher); several {
		return batchMost
	}
	return 1
}

// settle deals with notices of the log that came together. An error is that of the log.
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
			part = due[:1] // so that one which the consumer refuses takes no other with it
			failure = l.attempt(sending, part)
		}
		due = due[len(part):]
		pause := time.Duration(0)
		for _, d := range part {
			again, after := l.book(d.Notice, failure)
			pause = max(pause, after)
			id, naming := l.id(d.Notice)
			switch {
			case again:
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

// wanted says whether a notice is still to be delivered, and counts why not.
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
		if newID, _ := l.id(newer); newID != id { // else it says the same again
			l.count(func(s *Stats) { s.Superseded++ })
		}
		return false, nil
	case l.snapshot().Disabled || time.Since(d.Stored) > n.Life():
		l.count(func(s *Stats) { s.Lapsed++ })
		return false, nil
	}
	return true, nil
}

// id is the one under which the sink tells n, and whether it tells others under the same.
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

// attempt makes one attempt at all that is given.
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

// maxRest bounds how long a consumer may ask to be left alone.
const maxRest = time.Hour

// book notes the outcome of an attempt, and says whether and when to make another.
func (l *lane) book(n alerting.Notice, err error) (again bool, pause time.Duration) {
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
	case permanent: // it answers, so that what fails is the notice
		l.count(func(s *Stats) { s.Failed++ })
		l.report(Failure{Sink: l.stats.Sink, Notice: n, Err: err, Failures: 1, Final: true})
		return false, 0
	}
	l.count(func(s *Stats) { s.Retried++ })
	fails := l.failed(n, err, true)
	// Doubling, and half of it random, so that daemons that failed together do not return together.
	p := l.pace(n)
	pause = min(p.first<<min(fails-1, 20), p.longest)
	pause = pause/2 + time.Duration(rand.Float64()*float64(pause)/2)
	if later, ok := errors.AsType[alerting.Later](err); ok {
		pause = max(pause, min(later.After, maxRest))
	}
	return true, pause
}

// failed counts a failure in a row, and tells of it when it is the first or enough time has passed.
func (l *lane) failed(n alerting.Notice, err error, attempt bool) (fails int) {
	l.mu.Lock()
	if attempt || l.fails == 0 {
		l.fails++
	}
	fails = l.fails
	now := time.Now()
	say := fails == 1 || now.Sub(l.said) >= saidEvery
	if say {
		l.said = now
	}
	l.mu.Unlock()
	if say {
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
