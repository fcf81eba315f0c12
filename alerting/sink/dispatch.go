package sink

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/forewarm/forewarm/alerting"
)

// pace is how long one attempt may take, and how long to wait after the first failure in a row: twice as long after
// each, up to longest.
type pace struct {
	timeout, first, longest time.Duration
}

// Advice and alerts lapse within minutes. Servers that refuse the first attempt at a mail (greylisting), or lock out
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
			woken: make(chan struct{}, 1), own: map[string]ownNotice{},
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
