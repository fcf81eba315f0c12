package sink

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/forewarm/forewarm/alerting"
)

// pace is how long one attempt may take, and how long to wait after the first failure in a row: twice as long after each, up to
// longest.
type pace struct {
	timeout, first, longest time.Duration
}

// Advice and alerts lapse within minutes. Servers that refuse the first attempt at a mail (greylisting), or lock out who gives a wrong
// password, want minutes between attempts.
var (
	signalPace = pace{15 * time.Second, 500 * time.Millisecond, 15 * time.Second}
	reportPace = pace{time.Minute, time.Minute, time.Hour}
)

// Stats counts what became of a sink's notices in this process.
type Stats struct {
	Sink       string
	Sent       uint64
	Retried    uint64 // failed attempts that are tried again
	Superseded uint64 // replaced by something newer before they were delivered
	Failed     uint64 // refused for good
	Lapsed     uint64 // not delivered while they were worth telling, or for a consumer that is gone
	Queued     int    // behind the one at hand, as of the newest
	Disabled   bool   // the consumer wants no more until a restart
}

// Failure is how a sink fails. It is told when that begins, each saidEvery while it lasts, and when it is over.
type Failure struct {
	Sink     string
	Notice   alerting.Notice
	Err      error // nil when it is over
	Failures int   // attempts in a row
	Final    bool  // this notice is not tried again

	Disabled bool // the consumer is gone: nothing is sent to it until a restart
}

// saidEvery is how often a failure that lasts is told of.
const saidEvery = 5 * time.Minute

// Queue gives the notices of the log to one sink, until each is settled. It is for one goroutine.
type Queue interface {
	// Next waits for the next notices, so many at most; none when none came for a while.
	Next(ctx context.Context, most int) ([]*alerting.Delivery, error)
	// Delivered is the id of the notice that the sink last took of an identity, "" when it took none lately.
	Delivered(ctx context.Context, identity string) (id string, err error)
	NoteTold(ctx context.Context, identity, id string) error
}

// Dispatcher hands notices to sinks, each at its own pace: a sink that hangs or refuses holds up only its own queue.
type Dispatcher struct {
	lanes []*lane
}

// NewDispatcher prepares delivery to sinks; [Dispatcher.Run] does it. open gives the queue of a sink: of reports or of all else,
// of which at most so many are under way. report is told of failures, by one goroutine per sink. tracer makes a span of each
// attempt.
func NewDispatcher(sinks []alerting.Sink, open func(sink string, reports bool, most int) Queue, report func(Failure), tracer trace.Tracer) *Dispatcher {
	d := &Dispatcher{}
	for _, s := range sinks {
		l := &lane{sink: s, signals: signalPace, report: report, tracer: tracer, stats: Stats{Sink: s.Name()}, own: newOwnQueue()}
		l.queues = []Queue{l.own}
		for _, reports := range []bool{false, true} {
			if wants(s, reports) {
				l.queues = append(l.queues, open(s.Name(), reports, l.most()))
			}
		}
		d.lanes = append(d.lanes, l)
	}
	return d
}

// wants says whether a sink takes any reports, or anything else.
func wants(s alerting.Sink, reports bool) bool {
	if reports {
		return accepts(s, alerting.Notice{Report: &alerting.Report{}})
	}
	return accepts(s, alerting.Notice{Alert: &alerting.Alert{}}) || accepts(s, alerting.Notice{Decision: &alerting.Decision{Action: alerting.ScaleOut}})
}

// selector is implemented by sinks that want only some notices.
type selector interface {
	Accepts(alerting.Notice) bool
}

// accepts says whether a sink wants n. Nobody has to hear of the watchdog, or get reports, who does not ask for it.
func accepts(s alerting.Sink, n alerting.Notice) bool {
	if picky, ok := s.(selector); ok {
		return picky.Accepts(n)
	}
	return !isWatchdog(n) && n.Report == nil
}

// namer is implemented by sinks that tell some notices as one: what has the same id is sent once. The others tell each
// notice under its own id.
type namer interface {
	ID(alerting.Notice) string
}

// keeper is implemented by sinks that keep what they are told, so that they want notices that newer ones have replaced, too.
type keeper interface {
	KeepsAll()
}

// batcher is implemented by sinks whose consumers take several notices at once. SendAll fails as Send does, for all of them.
type batcher interface {
	SendAll(ctx context.Context, notices []alerting.Notice) error
}

// batchMost bounds the notices that are sent at once, as Prometheus bounds its own.
const batchMost = 256

// Tell hands the daemon's own notices to every sink that accepts them, past the log, which they may be about. One that could not
// be delivered is tried again with the next call, until it lapses; a newer one of its identity takes its place.
func (d *Dispatcher) Tell(notices ...alerting.Notice) {
	for _, l := range d.lanes {
		for _, n := range notices {
			if accepts(l.sink, n) {
				l.own.add(n)
			}
		}
		l.own.wake()
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

// lastAttempt is how long an attempt that is under way may still take when the process ends.
const lastAttempt = time.Second

// Run delivers until ctx is done. What is not delivered then stays in the log, for a twin or the next start. It does not wait
// for a sink that ignores its context.
func (d *Dispatcher) Run(ctx context.Context) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	finished := make(chan struct{})
	var lanes sync.WaitGroup
	for _, l := range d.lanes {
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
