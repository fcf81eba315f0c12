package sink

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// entry is one notice on its way to one sink.
type entry struct {
	identity string // what a newer notice replaces
	notice   alerting.Notice
	expires  time.Time
	attempts int
	due      time.Time // not before
}

// lane is one sink's queue and the goroutine that empties it.
type lane struct {
	sink   alerting.Sink
	cfg    Delivery
	report func(Failure)
	jitter func() float64 // 0..1
	wake   chan struct{}  // something was put, or became due earlier

	mu       sync.Mutex
	queue    []entry // oldest first, at most one per identity
	inFlight bool    // an entry was taken and is neither done nor back
	stats    Stats
}

// put queues e in the place of an older entry of its identity, or at the end; the oldest entry goes when there is no
// room.
func (l *lane) put(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.find(e.identity); i >= 0 {
		l.queue[i] = e
		l.stats.Superseded++
	} else {
		if len(l.queue) >= l.cfg.Queue {
			l.queue = slices.Delete(l.queue, 0, 1)
			l.stats.Dropped++
		}
		l.queue = append(l.queue, e)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// find is the index of identity's entry, −1 when it has none. Callers hold mu.
func (l *lane) find(identity string) int {
	return slices.IndexFunc(l.queue, func(q entry) bool { return q.identity == identity })
}

// run delivers until ctx is done and the queue is empty, or sending is done.
func (l *lane) run(ctx, sending context.Context) {
	for sending.Err() == nil {
		e, wait, ok := l.take(time.Now())
		if ok {
			l.deliver(sending, e)
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		} else if ctx.Err() != nil {
			return // nothing left
		}
		done := ctx.Done()
		if ctx.Err() != nil {
			done = sending.Done()
		}
		select {
		case <-l.wake:
		case <-due:
		case <-done:
		}
	}
}

// take removes the oldest entry that is due. When none is, wait is the time until one will be, 0 for an empty queue.
// Expired entries are dropped on the way.
func (l *lane) take(now time.Time) (e entry, wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.queue)
	l.queue = slices.DeleteFunc(l.queue, func(q entry) bool { return !q.expires.After(now) })
	l.stats.Dropped += uint64(before - len(l.queue))
	for i, q := range l.queue {
		left := q.due.Sub(now)
		if left <= 0 {
			l.queue = slices.Delete(l.queue, i, i+1)
			l.inFlight = true
			return q, 0, true
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return entry{}, wait, false
}

// deliver makes one attempt and books its outcome.
func (l *lane) deliver(ctx context.Context, e entry) {
	attempt, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	err := l.sink.Send(attempt, e.notice)
	cancel()
	final := l.book(e, err)
	if err != nil {
		l.report(Failure{Sink: l.sink.Name(), Notice: e.notice, Err: err, Final: final})
	}
}

// book counts an attempt and queues the entry again when that makes sense; final is true when it does not.
func (l *lane) book(e entry, err error) (final bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight = false
	_, permanent := errors.AsType[alerting.Permanent](err)
	switch {
	case err == nil:
		l.stats.Sent++
	case permanent:
		l.stats.Failed++
	case l.find(e.identity) >= 0:
		l.stats.Superseded++
	case len(l.queue) >= l.cfg.Queue:
		l.stats.Dropped++
	default:
		l.stats.Retried++
		e.due = time.Now().Add(l.backoff(e.attempts))
		e.attempts++
		l.queue = slices.Insert(l.queue, 0, e)
		return false
	}
	return true
}

// backoff is the wait before the next attempt: doubling from Backoff to MaxBackoff, half of it random, so that daemons
// that failed together do not return together.
func (l *lane) backoff(attempts int) time.Duration {
	d := min(l.cfg.Backoff<<min(attempts, 20), l.cfg.MaxBackoff)
	return d/2 + time.Duration(l.jitter()*float64(d)/2)
}

func (l *lane) snapshot() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Queued = len(l.queue)
	if l.inFlight {
		s.Queued++
	}
	return s
}
