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

// pace is how long one attempt may take, and how long to wait after the first failure in a row: twice as long after
// each, up to longest.
type pace struct {
	timeout, first, longest time.Duration
}

// Advice and alerts expire within minutes. Servers that refuse the first attempt at a mail (greylisting), or lock out
// who gives a wrong password, want minutes between attempts.
var (
	signalPace = pace{15 * time.Second, 500 * time.Millisecond, 15 * time.Second}
	reportPace = pace{time.Minute, time.Minute, time.Hour}
)

// Stats counts a sink's notices in this process by outcome.
type Stats struct {
	Sink       string
	Sent       uint64
	Retried    uint64 // failed attempts with a retry
	Superseded uint64 // replaced by a newer notice before delivery
	Failed     uint64 // refused for good
	Lapsed     uint64 // expired before delivery, or for a disabled consumer
	Queued     int    // waiting behind the newest one received
	Disabled   bool   // nothing is sent until a restart

	Err   string    // newest error since the last delivery; "" if none
	Since time.Time // first of these errors
}

func (s *Stats) failed(err error) {
	if s.Err == "" {
		s.Since = time.Now()
	}
	s.Err = err.Error()
}

// Failure is the failure of a sink. It is reported when it begins, then each reportEvery, and when it ends.
type Failure struct {
	Sink     string
	Notice   alerting.Notice
	Err      error // nil at the end of the failure
	Failures int   // attempts in a row
	Final    bool  // no retry of this notice

	Disabled bool // the consumer is gone: nothing is sent to it until a restart
}

// reportEvery is how often a lasting failure is reported.
const reportEvery = 5 * time.Minute

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
// all other notices. report is called with failures. tracer makes a span of each attempt.
func NewDispatcher(sinks []alerting.Sink, open func(sink string, reports bool) Queue, report func(Failure), tracer trace.Tracer) *Dispatcher {
	d := &Dispatcher{}
	for _, s := range sinks {
		l := &lane{
			sink: s, signals: signalPace, report: report, tracer: tracer, stats: Stats{Sink: s.Name()},
			woken: make(chan struct{}, 1), own: map[string]ownNotice{}, unread: map[Queue]queueError{},
		}
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
		return accepts(s, alerting.Notice{Report: &alerting.Report{}})
	}
	return accepts(s, alerting.Notice{Alert: &alerting.Alert{}}) || accepts(s, alerting.Notice{Decision: &alerting.Decision{Action: alerting.ScaleOut}})
}

func isWatchdog(n alerting.Notice) bool { return n.Alert != nil && n.Alert.Name == alerting.Watchdog }

// selector is implemented by sinks that accept only some notices.
type selector interface {
	Accepts(alerting.Notice) bool
}

// accepts reports whether a sink accepts n. Only sinks that select them get the watchdog and reports.
func accepts(s alerting.Sink, n alerting.Notice) bool {
	if s, ok := s.(selector); ok {
		return s.Accepts(n)
	}
	return !isWatchdog(n) && n.Report == nil
}

// namer is implemented by sinks that send only one of the notices with the same id. The other sinks send each notice.
type namer interface {
	ID(alerting.Notice) string
}

// keeper is implemented by sinks that store notices, so that they need those that newer ones have replaced, too.
type keeper interface {
	KeepsAll()
}

// Notify sends the daemon's own notices to every sink that accepts them. They bypass the log, because they may be about
// the log. A failed one is retried with the next call, until it expires or a newer one of its identity replaces it.
func (d *Dispatcher) Notify(notices ...alerting.Notice) {
	for _, l := range d.lanes {
		l.notify(notices)
	}
}

// Stats is the state of every sink's lane, in the order of the sinks.
func (d *Dispatcher) Stats() []Stats {
	out := make([]Stats, 0, len(d.lanes))
	for _, l := range d.lanes {
		out = append(out, l.snapshot())
	}
	return out
}

// lastAttempt is how long a running attempt may still take when the process ends.
const lastAttempt = time.Second

// Run delivers until ctx is done. Undelivered notices stay in the log, for another daemon or the next start. Run
// returns an error if a sink ignores its context.
func (d *Dispatcher) Run(ctx context.Context) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	finished := make(chan struct{})
	var lanes sync.WaitGroup
	for _, l := range d.lanes {
		lanes.Go(func() { l.runOwn(ctx, sending) })
		for _, q := range l.queues {
			lanes.Go(func() { l.run(ctx, sending, q) })
		}
	}
	go func() {
		lanes.Wait()
		close(finished)
	}()
	<-ctx.Done()
	defer time.AfterFunc(lastAttempt/2, stop).Stop()
	select {
	case <-finished:
		return nil
	case <-time.After(lastAttempt):
		return errors.New("a sink does not stop")
	}
}

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
	unread     map[Queue]queueError // of queues that cannot be read now
	own        map[string]ownNotice // the daemon's own notices, by identity, at most maxOwn
}

// queueError is why a queue cannot be read, and since when.
type queueError struct {
	err   string
	since time.Time
}

// maxQueueRetry bounds the pause before a failed read of a queue is retried.
const maxQueueRetry = 5 * time.Second

// run delivers the notices of q until ctx is done. A running attempt then ends with sending.
func (l *lane) run(ctx, sending context.Context, q Queue) {
	for ctx.Err() == nil {
		d, err := q.Next(ctx)
		if err == nil && d != nil {
			err = l.deliver(ctx, sending, q, d)
		}
		if err == nil {
			l.queueWorks(q)
		} else if ctx.Err() == nil {
			sleep.For(ctx, min(l.queueFailed(q, err), maxQueueRetry))
		}
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

// runOwn delivers the daemon's own notices until ctx is done. After a failure the rest waits for the next wake, unless
// it expires or a newer notice of the same identity replaces it.
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
	answer, _ := errors.AsType[alerting.SendError](err)
	switch {
	case err == nil:
		l.count(func(s *Stats) { s.Sent, s.Err, s.Since = s.Sent+1, "", time.Time{} })
		l.recovered()
		return false, 0
	case answer.Gone:
		l.count(func(s *Stats) { s.Failed, s.Disabled = s.Failed+1, true; s.failed(err) })
		l.report(Failure{Sink: l.stats.Sink, Notice: n, Err: err, Failures: 1, Final: true, Disabled: true})
		return false, 0
	case answer.Permanent: // the sink works; only this notice fails
		l.count(func(s *Stats) { s.Failed++; s.failed(err) })
		l.report(Failure{Sink: l.stats.Sink, Notice: n, Err: err, Failures: 1, Final: true})
		return false, 0
	}
	l.count(func(s *Stats) { s.Retried++; s.failed(err) })
	return true, max(l.failed(n, err), min(answer.After, maxRetryAfter))
}

// failed counts a failure, and reports it if it is the first in a row or reportEvery has passed. It returns the pause
// before the next attempt: exponential, with 50 % jitter, so that daemons do not retry at the same time.
func (l *lane) failed(n alerting.Notice, err error) (pause time.Duration) {
	l.mu.Lock()
	l.fails++
	fails, now := l.fails, time.Now()
	report := fails == 1 || now.Sub(l.reportedAt) >= reportEvery
	if report {
		l.reportedAt = now
	}
	l.mu.Unlock()
	if report {
		l.report(Failure{Sink: l.stats.Sink, Notice: n, Err: err, Failures: fails})
	}
	p := l.pace(n)
	pause = min(p.first<<min(fails-1, 20), p.longest)
	return pause/2 + time.Duration(rand.Float64()*float64(pause)/2)
}

// queueFailed counts that q cannot be read, and returns the pause before the next attempt.
func (l *lane) queueFailed(q Queue, err error) (pause time.Duration) {
	l.mu.Lock()
	since := time.Now()
	if known, ok := l.unread[q]; ok {
		since = known.since
	}
	l.unread[q] = queueError{err.Error(), since}
	l.mu.Unlock()
	return l.failed(alerting.Notice{}, err)
}

// queueWorks ends the failure of a queue. That is the end of the sink's failure, if no attempt has failed.
func (l *lane) queueWorks(q Queue) {
	l.mu.Lock()
	_, failed := l.unread[q]
	delete(l.unread, q)
	works := failed && len(l.unread) == 0 && l.stats.Err == ""
	l.mu.Unlock()
	if works {
		l.recovered()
	}
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
	s := l.stats
	for _, e := range l.unread {
		if s.Err == "" {
			s.Err, s.Since = e.err, e.since
		}
	}
	return s
}
