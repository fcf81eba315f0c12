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
	id       string // under which the sink tells it
	notice   alerting.Notice
	expires  time.Time
	attempts int
	due      time.Time // not before
}

// lane is one sink's queue and the goroutine that empties it.
type lane struct {
	sink   alerting.Sink
	cfg    Delivery
	ledger Ledger
	report func(Failure)
	jitter func() float64 // 0..1
	wake   chan struct{}  // something was put, or became due earlier

	mu       sync.Mutex
	queue    []entry   // oldest first, at most one per identity
	inFlight int       // entries that were taken and are neither done nor back
	rest     time.Time // the consumer is left alone until then
	stats    Stats
}

// put queues the entries that the sink accepts.
func (l *lane) put(entries []entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		if !accepts(l.sink, e.notice) {
			continue
		}
		e.id = l.id(e.notice)
		l.add(e)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// id tells n from what the sink takes for other notices.
func (l *lane) id(n alerting.Notice) string {
	if s, ok := l.sink.(namer); ok {
		return s.ID(n)
	}
	return n.ID()
}

// add queues e in the place of an older entry of its identity, or at the end; the oldest entry goes when there is no
// room. What says the same again, such as an alert that still fires, keeps its place in the order of attempts. Callers hold
// mu.
func (l *lane) add(e entry) {
	if l.stats.Disabled {
		l.stats.Dropped++
		return
	}
	if i := l.find(e.identity); i >= 0 {
		if l.queue[i].id == e.id {
			e.attempts, e.due = l.queue[i].attempts, l.queue[i].due
		} else {
			l.stats.Superseded++
		}
		l.queue[i] = e
	} else {
		if len(l.queue) >= l.cfg.Queue {
			l.queue = slices.Delete(l.queue, 0, 1)
			l.stats.Dropped++
		}
		l.queue = append(l.queue, e)
	}
}

// find is the index of identity's entry, −1 when it has none. Callers hold mu.
func (l *lane) find(identity string) int {
	return slices.IndexFunc(l.queue, func(q entry) bool { return q.identity == identity })
}

// run delivers until ctx is done and the queue is empty, or sending is done.
func (l *lane) run(ctx, sending context.Context) {
	for sending.Err() == nil {
		entries, wait := l.take(time.Now())
		if len(entries) > 0 {
			l.deliver(sending, entries)
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

// maxBatch bounds the notices that are sent at once, as Prometheus bounds its own.
const maxBatch = 256

// take removes the oldest entry that is due; with it all others where the sink takes several at once, for it is the
// consumer that they wait for. When none is due, wait is the time until one will be, 0 for an empty queue. What expired, or
// was dealt with already, is dropped on the way.
func (l *lane) take(now time.Time) (entries []entry, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = slices.DeleteFunc(l.queue, func(q entry) bool {
		expired := !q.expires.After(now)
		if expired {
			l.stats.Dropped++
		}
		return expired || l.ledger.Settled(l.stats.Sink, q.identity) == q.id
	})
	for i, q := range l.queue {
		left := max(q.due.Sub(now), l.rest.Sub(now))
		if left <= 0 {
			from, to := i, i+1
			if _, several := l.sink.(batcher); several {
				from, to = 0, min(len(l.queue), maxBatch)
			}
			entries = slices.Clone(l.queue[from:to])
			l.queue = slices.Delete(l.queue, from, to)
			l.inFlight = len(entries)
			return entries, 0
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return nil, wait
}

// deliver makes one attempt at all entries and books its outcome. A refusal of several says nothing of each, so they are
// then sent one by one.
func (l *lane) deliver(ctx context.Context, entries []entry) {
	err := l.attempt(ctx, entries)
	if len(entries) > 1 && isRefusal(err) {
		entries, err = l.deliverEach(ctx, entries)
	}
	l.finish(entries, err)
}

// deliverEach makes an attempt at one entry after the other, and gives back those that are left when the consumer fails.
func (l *lane) deliverEach(ctx context.Context, entries []entry) (left []entry, err error) {
	for ; len(entries) > 0; entries = entries[1:] {
		if err := l.attempt(ctx, entries[:1]); err == nil || isRefusal(err) {
			l.finish(entries[:1], err)
		} else {
			return entries, err
		}
	}
	return nil, nil
}

func isRefusal(err error) bool {
	_, permanent := errors.AsType[alerting.Permanent](err)
	return permanent
}

// finish books the outcome of an attempt, newest entry first, so that those that go back keep their order.
func (l *lane) finish(entries []entry, err error) {
	for _, e := range slices.Backward(entries) {
		final := l.book(e, err)
		if err != nil {
			_, gone := errors.AsType[alerting.Gone](err)
			l.report(Failure{Sink: l.stats.Sink, Notice: e.notice, Err: err, Final: final, Disabled: gone})
		}
	}
}

func (l *lane) attempt(ctx context.Context, entries []entry) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	several, ok := l.sink.(batcher)
	if !ok {
		return l.sink.Send(ctx, entries[0].notice)
	}
	notices := make([]alerting.Notice, len(entries))
	for i := range entries {
		notices[i] = entries[i].notice
	}
	return several.SendAll(ctx, notices)
}

// book counts an attempt and queues the entry again when that makes sense; final is true when it does not.
func (l *lane) book(e entry, err error) (final bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	_, gone := errors.AsType[alerting.Gone](err)
	if later, ok := errors.AsType[alerting.Later](err); ok {
		l.rest = time.Now().Add(min(later.After, maxRest))
	}
	switch {
	case err == nil:
		l.stats.Sent++
		l.ledger.Settle(l.stats.Sink, e.identity, e.id)
	case gone:
		l.stats.Failed++
		l.stats.Dropped += uint64(len(l.queue))
		l.queue, l.stats.Disabled = nil, true
	case isRefusal(err):
		l.stats.Failed++
		l.ledger.Settle(l.stats.Sink, e.identity, e.id)
	case l.find(e.identity) >= 0:
		return l.yield(e)
	case len(l.queue) >= l.cfg.Queue:
		l.stats.Dropped++
	default:
		l.stats.Retried++
		l.queue = slices.Insert(l.queue, 0, l.retry(e))
		return false
	}
	return true
}

// yield leaves a failed entry's place to the newer one of its identity that waits. When that says the same it waits as
// long as e would have, and nothing was given up.
func (l *lane) yield(e entry) (final bool) {
	q := &l.queue[l.find(e.identity)]
	if q.id != e.id {
		l.stats.Superseded++
		return true
	}
	l.stats.Retried++
	e = l.retry(e)
	q.attempts, q.due = e.attempts, e.due
	return false
}

// retry is e, due again after a while: doubling from Backoff to MaxBackoff, half of it random, so that daemons that
// failed together do not return together.
func (l *lane) retry(e entry) entry {
	d := min(l.cfg.Backoff<<min(e.attempts, 20), l.cfg.MaxBackoff)
	e.due = time.Now().Add(d/2 + time.Duration(l.jitter()*float64(d)/2))
	e.attempts++
	return e
}

// maxRest bounds how long a consumer may ask to be left alone.
const maxRest = time.Hour

func (l *lane) snapshot() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Queued = len(l.queue) + l.inFlight
	return s
}
