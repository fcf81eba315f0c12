package sink

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/internal/value"
)

// pace bounds one attempt, and has the pause after the first failure in a row. The pause doubles up to longest.
type pace struct {
	timeout, first, longest time.Duration
}

// Bounds of delivery.
const (
	lastAttempt   = time.Second / 2 // how long a running attempt may still take when the process ends
	maxQueueRetry = 5 * time.Second // pause before a failed read of a queue is retried
	maxRetryAfter = time.Hour       // pause that a consumer may ask for
	maxOwn        = 256             // the daemon's own notices
	reportTimeout = time.Minute     // of an attempt to send a report, which may have to be made again
)

// FailureFunc is called when a failure of a sink begins, with the notice and the number of failed attempts in a row, and
// when the last one ends, without an error.
type FailureFunc func(sink string, n alerting.Notice, failures int, err error)

// Queue returns the notices of the log for one sink, until each is settled. It is for one goroutine.
type Queue interface {
	// Next waits for the next notice; nil after a time without any.
	Next(ctx context.Context) (*alerting.Delivery, error)
	// Delivered is the id of the last notice delivered for an identity; "" if none lately.
	Delivered(ctx context.Context, identity string) (id string, err error)
	SetDelivered(ctx context.Context, identity, id string) error
}

// Dispatcher delivers notices to sinks. A sink that hangs or refuses delays only its own queue.
type Dispatcher struct {
	lanes []*lane
}

// NewDispatcher prepares delivery to sinks; [Dispatcher.Run] does it. open returns a queue of a sink: of reports, or of
// all other notices.
func NewDispatcher(sinks []alerting.Sink, open func(sink string, reports bool) Queue, report FailureFunc) *Dispatcher {
	d := &Dispatcher{}
	for _, s := range sinks {
		l := &lane{
			sink: s, report: report, stats: alerting.SinkStats{Sink: s.Name()},
			waiting: map[Queue]int{}, failing: map[part]failure{},
			pace: pace{timeout: 15 * time.Second, first: time.Second / 2, longest: 15 * time.Second}, // advice expires within minutes
			own:  &ownQueue{notices: make(chan *alerting.Delivery, maxOwn), delivered: map[string]string{}},
		}
		l.queues = append(l.queues, l.own)
		for _, reports := range []bool{false, true} {
			if wants(s, reports) {
				l.queues = append(l.queues, open(s.Name(), reports))
			}
		}
		d.lanes = append(d.lanes, l)
	}
	return d
}

// wants reports whether a sink accepts any reports, or any other notices.
func wants(s alerting.Sink, reports bool) bool {
	if reports {
		return s.Accepts(alerting.Notice{Report: &alerting.Report{}})
	}
	return s.Accepts(alerting.Notice{Alert: &alerting.Alert{}}) || s.Accepts(alerting.Notice{Decision: &alerting.Decision{}})
}

func isWatchdog(n alerting.Notice) bool { return n.Alert != nil && n.Alert.Name == alerting.Watchdog }

// namer is implemented by sinks that send only one of the notices with the same id. The other sinks send each notice.
type namer interface {
	ID(alerting.Notice) string
}

// keeper is implemented by sinks that store every notice, also those that newer ones have replaced.
type keeper interface {
	KeepsAll()
}

// Notify sends the daemon's own notices to each sink that accepts them. They may be about the log, so they bypass it.
func (d *Dispatcher) Notify(notices ...alerting.Notice) {
	for _, l := range d.lanes {
		for _, n := range notices {
			if l.sink.Accepts(n) && !l.own.add(n) {
				l.count(func(s *alerting.SinkStats) { s.Lapsed++ })
			}
		}
	}
}

// Stats is the state of every sink's lane, in the order of the sinks.
func (d *Dispatcher) Stats() []alerting.SinkStats {
	out := make([]alerting.SinkStats, 0, len(d.lanes))
	for _, l := range d.lanes {
		out = append(out, l.snapshot())
	}
	return out
}

// Run delivers until ctx is done. Undelivered notices stay in the log, for another daemon or the next start.
func (d *Dispatcher) Run(ctx context.Context) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(lastAttempt, stop) })
	var lanes sync.WaitGroup
	for _, l := range d.lanes {
		for _, q := range l.queues {
			lanes.Go(func() { l.run(ctx, sending, q) })
		}
	}
	lanes.Wait()
	return nil
}

// lane is the delivery to one sink.
type lane struct {
	sink   alerting.Sink
	pace   pace
	own    *ownQueue
	queues []Queue // own, of signals, of reports
	report FailureFunc

	sending sync.Mutex // held during an attempt; guards resume
	resume  time.Time  // no attempt before it: the consumer asked to wait

	mu      sync.Mutex         // guards what follows
	stats   alerting.SinkStats // without the error: see snapshot
	waiting map[Queue]int      // notices, with the one that is being delivered
	failing map[part]failure
}

// part is what can fail while the rest works: reading a queue, or sending its notices. For example, a receiver may take
// advice but no reports.
type part struct {
	queue   Queue
	sending bool // false for reading
}

type failure struct {
	attempts int // failed ones in a row
	since    time.Time
	err      error // of the newest
	refused  bool  // the notice is not sent again, so the next delivery of any queue ends the failure
}

// run delivers the notices of q until ctx is done. A running attempt then ends with sending.
func (l *lane) run(ctx, sending context.Context, q Queue) {
	for ctx.Err() == nil {
		d, err := q.Next(ctx)
		if err == nil && d != nil {
			err = l.deliver(ctx, sending, q, d)
		}
		switch {
		case err == nil:
			l.recovered(part{queue: q})
		case ctx.Err() == nil:
			sleep.For(ctx, min(l.failed(part{queue: q}, alerting.Notice{}, err), maxQueueRetry))
		}
	}
}

// deliver sends, skips or returns a notice of the log. Errors are those of the log.
func (l *lane) deliver(ctx, sending context.Context, q Queue, d *alerting.Delivery) error {
	l.setWaiting(q, d.Waiting+1)
	wanted, err := l.wanted(ctx, q, d)
	if err != nil {
		return errors.Join(err, d.Return())
	}
	if !wanted {
		l.setWaiting(q, d.Waiting)
		return d.Settle()
	}
	pause, failure := l.attempt(sending, q, d.Notice)
	if pause > 0 {
		err := d.Return()
		sleep.For(ctx, pause)
		return err
	}
	if s, ok := l.sink.(namer); ok && failure == nil {
		err = q.SetDelivered(sending, d.Notice.Identity(), s.ID(d.Notice))
	}
	l.setWaiting(q, d.Waiting)
	return errors.Join(err, d.Settle())
}

// wanted reports whether a notice is still to be delivered. It counts those that lapsed.
func (l *lane) wanted(ctx context.Context, q Queue, d *alerting.Delivery) (bool, error) {
	n := d.Notice
	if !l.sink.Accepts(n) {
		return false, nil
	}
	if s, ok := l.sink.(namer); ok {
		if last, err := q.Delivered(ctx, n.Identity()); err != nil || last == s.ID(n) {
			return false, err
		}
	}
	if _, keeps := l.sink.(keeper); !keeps {
		if newer, replaced, err := d.Newer(ctx); err != nil || replaced && l.sink.Accepts(newer) {
			return false, err
		}
	}
	if l.snapshot().Disabled || time.Since(d.Stored) > n.Life() {
		l.count(func(s *alerting.SinkStats) { s.Lapsed++ })
		return false, nil
	}
	return true, nil
}

// ownQueue is the queue of the daemon's own notices, in memory.
type ownQueue struct {
	notices   chan *alerting.Delivery // at most maxOwn
	returned  *alerting.Delivery      // to be delivered again, before the others
	delivered map[string]string       // the id last delivered, by identity; at most maxOwn
}

// add stores a notice; ok is false if the queue is full.
func (q *ownQueue) add(n alerting.Notice) (ok bool) {
	d := &alerting.Delivery{
		Notice: n, Stored: time.Now(),
		Newer:  func(context.Context) (n alerting.Notice, ok bool, err error) { return n, false, nil },
		Settle: func() error { return nil },
	}
	d.Return = func() error { q.returned = d; return nil }
	select {
	case q.notices <- d:
		return true
	default:
		return false
	}
}

func (q *ownQueue) Next(ctx context.Context) (*alerting.Delivery, error) {
	d := q.returned
	q.returned = nil
	if d == nil {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case d = <-q.notices:
		}
	}
	d.Waiting = len(q.notices)
	return d, nil
}

func (q *ownQueue) Delivered(_ context.Context, identity string) (id string, err error) {
	return q.delivered[identity], nil
}

func (q *ownQueue) SetDelivered(_ context.Context, identity, id string) error {
	if len(q.delivered) >= maxOwn {
		clear(q.delivered)
	}
	q.delivered[identity] = id
	return nil
}

// attempt tries once to send n of q, unless the consumer has asked to wait, and counts the outcome. pause is the time
// before a retry; 0 for no retry.
func (l *lane) attempt(ctx context.Context, q Queue, n alerting.Notice) (pause time.Duration, err error) {
	l.sending.Lock()
	defer l.sending.Unlock()
	if pause = time.Until(l.resume); pause > 0 {
		return pause, nil
	}
	timeout := l.pace.timeout
	if n.Report != nil {
		timeout = reportTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = l.sink.Send(ctx, n)
	answer, _ := errors.AsType[alerting.SendError](err)
	switch {
	case err == nil:
		l.count(func(s *alerting.SinkStats) { s.Sent++ })
		l.recovered(part{queue: q, sending: true})
		return 0, nil
	case answer.Gone, answer.Permanent: // a permanent failure is of this notice only
		l.count(func(s *alerting.SinkStats) { s.Failed, s.Disabled = s.Failed+1, s.Disabled || answer.Gone })
		l.failed(part{queue: q, sending: true}, n, err)
		return 0, err
	}
	l.count(func(s *alerting.SinkStats) { s.Retried++ })
	wait := min(answer.After, maxRetryAfter)
	l.resume = time.Now().Add(wait)
	return max(l.failed(part{queue: q, sending: true}, n, err), wait), err
}

// failed counts a failure of a part, and reports it if it is the first in a row, or if it is not retried. It returns the
// pause before the next attempt: exponential, with 50 % jitter, so that daemons do not retry at the same time.
func (l *lane) failed(of part, n alerting.Notice, err error) (pause time.Duration) {
	answer, _ := errors.AsType[alerting.SendError](err)
	l.mu.Lock()
	f := l.failing[of]
	if f.attempts++; f.attempts == 1 {
		f.since = time.Now()
	}
	f.err, f.refused = err, answer.Permanent
	l.failing[of] = f
	all := 0 // failed attempts of the sink in a row
	for _, x := range l.failing {
		all += x.attempts
	}
	l.mu.Unlock()
	if f.attempts == 1 || answer.Gone || answer.Permanent {
		l.report(l.sink.Name(), n, all, err)
	}
	pause = min(l.pace.first<<min(f.attempts-1, 20), l.pace.longest)
	return pause/2 + time.Duration(rand.Float64()*float64(pause)/2)
}

// recovered ends the failure of a part, and after a delivery those of refused notices. It reports that when none is left.
func (l *lane) recovered(of part) {
	attempts, left := 0, 0
	l.count(func(*alerting.SinkStats) {
		maps.DeleteFunc(l.failing, func(p part, f failure) bool {
			if p != of && !(of.sending && f.refused) {
				return false
			}
			attempts += f.attempts
			return true
		})
		left = len(l.failing)
	})
	if attempts > 0 && left == 0 {
		l.report(l.sink.Name(), alerting.Notice{}, attempts, nil)
	}
}

// setWaiting sets how many notices of q wait at an attempt, with the one that is being delivered.
func (l *lane) setWaiting(q Queue, n int) {
	l.count(func(s *alerting.SinkStats) {
		s.Queued += n - l.waiting[q]
		l.waiting[q] = n
	})
}

func (l *lane) count(f func(s *alerting.SinkStats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.stats)
}

// snapshot is the state of the lane, with the failure that has lasted longest.
func (l *lane) snapshot() (stats alerting.SinkStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stats = l.stats
	for _, f := range l.failing {
		if stats.Err == "" || f.since.Before(stats.Since) {
			stats.Err, stats.Since = value.Printable(f.err.Error()), f.since
		}
	}
	return stats
}
