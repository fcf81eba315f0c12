package sink

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// lane delivers to one sink.
type lane struct {
	sink   alerting.Sink
	cfg    Delivery
	queues []Queue // of signals, of reports
	report func(Failure)

	sending sync.Mutex // held during an attempt

	mu    sync.Mutex // guards what follows
	stats Stats
	fails int       // attempts in a row that failed
	said  time.Time // when a failure was last told of

	// The daemon's own notices, of which the log knows nothing.
	more chan struct{}
	own  map[string]ownNotice // by identity, at most ownMost
	told map[string]string    // id that the sink was last told of an identity
}

type ownNotice struct {
	notice  alerting.Notice
	expires time.Time
}

// ownMost bounds the daemon's own notices: one a condition of its.
const ownMost = 256

// firstSurvey and lastSurvey pace attempts to read a queue that cannot be read.
const (
	firstSurvey = 200 * time.Millisecond
	lastSurvey  = 5 * time.Second
)

// run delivers what the log has until ctx is done. An attempt under way then ends with sending.
func (l *lane) run(ctx, sending context.Context, q Queue) {
	wait := firstSurvey
	for ctx.Err() == nil {
		d, err := q.Next(ctx)
		if err == nil && d != nil {
			err = l.settle(ctx, sending, q, d)
		}
		if err == nil {
			wait = firstSurvey
			continue
		}
		if ctx.Err() == nil {
			l.failed(alerting.Notice{}, err, false)
		}
		sleep(ctx, wait)
		wait = min(2*wait, lastSurvey)
	}
}

// settle deals with one notice of the log. An error is that of the log.
func (l *lane) settle(ctx, sending context.Context, q Queue, d *alerting.Delivery) error {
	n := d.Notice
	l.count(func(s *Stats) { s.Queued = d.Waiting })
	if !accepts(l.sink, n) {
		return d.Settle()
	}
	id, naming := l.id(n)
	if naming {
		told, err := q.Told(ctx, n.Identity())
		if err != nil {
			return errors.Join(err, d.Return())
		}
		if told == id {
			return d.Settle()
		}
	}
	newer, replaced, err := d.Newer(ctx)
	switch {
	case err != nil:
		return errors.Join(err, d.Return())
	case replaced && accepts(l.sink, newer):
		if newID, _ := l.id(newer); newID != id { // else it says the same again
			l.count(func(s *Stats) { s.Superseded++ })
		}
		return d.Settle()
	case l.snapshot().Disabled || time.Since(d.Stored) > n.Life():
		l.count(func(s *Stats) { s.Lapsed++ })
		return d.Settle()
	}
	err = l.attempt(sending, n)
	if again, pause := l.book(n, err); again {
		err := d.Return()
		sleep(ctx, pause)
		return err
	}
	if naming && err == nil {
		err = q.NoteTold(sending, n.Identity(), id)
		return errors.Join(err, d.Settle())
	}
	return d.Settle()
}

// id is the one under which the sink tells n, and whether it tells others under the same.
func (l *lane) id(n alerting.Notice) (id string, naming bool) {
	if s, ok := l.sink.(namer); ok {
		return s.ID(n), true
	}
	return n.ID(), false
}

// attempt makes one attempt.
func (l *lane) attempt(ctx context.Context, n alerting.Notice) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	return l.sink.Send(ctx, n)
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
	pause = min(l.cfg.Backoff<<min(fails-1, 20), l.cfg.MaxBackoff)
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

// tell takes the daemon's own notices, and has those tried that wait.
func (l *lane) tell(now time.Time, notices []alerting.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range notices {
		identity := n.Identity()
		if _, known := l.own[identity]; accepts(l.sink, n) && (known || len(l.own) < ownMost) {
			l.own[identity] = ownNotice{n, now.Add(n.Life())}
		}
	}
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// runOwn delivers the daemon's own notices until ctx is done.
func (l *lane) runOwn(ctx, sending context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.more:
		}
		l.mu.Lock()
		waiting := make([]ownNotice, 0, len(l.own))
		for identity, o := range l.own {
			if delete(l.own, identity); time.Now().After(o.expires) || l.stats.Disabled {
				l.stats.Lapsed++
				continue
			}
			waiting = append(waiting, o)
		}
		l.mu.Unlock()
		for _, o := range waiting {
			l.deliverOwn(ctx, sending, o)
		}
	}
}

func (l *lane) deliverOwn(ctx, sending context.Context, o ownNotice) {
	identity := o.notice.Identity()
	id, _ := l.id(o.notice)
	if l.told[identity] == id || ctx.Err() != nil {
		return
	}
	err := l.attempt(sending, o.notice)
	again, _ := l.book(o.notice, err)
	if err == nil {
		if len(l.told) >= ownMost {
			clear(l.told)
		}
		l.told[identity] = id
	}
	if again {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, newer := l.own[identity]; !newer {
			l.own[identity] = o
		}
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

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
