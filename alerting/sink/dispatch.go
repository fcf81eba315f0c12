package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// Delivery bounds and paces the dispatcher; zero values mean what their comments say.
type Delivery struct {
	Queue      int           `yaml:"queue"`       // notices waiting for each sink; 0 means 1024
	Timeout    time.Duration `yaml:"timeout"`     // of one attempt; 0 means 15s
	Backoff    time.Duration `yaml:"backoff"`     // before the first retry, doubling; 0 means 500ms
	MaxBackoff time.Duration `yaml:"max_backoff"` // 0 means 1m
	Drain      time.Duration `yaml:"drain"`       // for what is queued when the process ends; 0 means 5s
}

func (c Delivery) check() error {
	if c.Queue < 0 {
		return fmt.Errorf("queue: %d is below 0; set 1024", c.Queue)
	}
	for _, span := range []struct {
		key   string
		value time.Duration
	}{{"timeout", c.Timeout}, {"backoff", c.Backoff}, {"max_backoff", c.MaxBackoff}, {"drain", c.Drain}} {
		if span.value < 0 {
			return fmt.Errorf("%s: %s is below 0; set 0 for the default, or more", span.key, span.value)
		}
	}
	return nil
}

// Stats counts what became of a sink's notices.
type Stats struct {
	Sink       string
	Sent       uint64
	Retried    uint64 // failed attempts that are tried again
	Superseded uint64 // replaced by something newer before they were delivered
	Failed     uint64 // refused for good
	Dropped    uint64 // expired, pushed out of a full queue, or for a consumer that is gone
	Queued     int
	Disabled   bool // the consumer wants no more until a restart
}

// Failure is one failed attempt.
type Failure struct {
	Sink   string
	Notice alerting.Notice
	Err    error
	Final  bool // not tried again

	Disabled bool // the consumer is gone: nothing is sent to it until a restart
}

// Dispatcher hands notices to sinks, each at its own pace. Enqueue never blocks; a sink that hangs holds up only its
// own queue.
type Dispatcher struct {
	cfg   Delivery
	lanes []*lane
}

// NewDispatcher prepares delivery to sinks; [Dispatcher.Run] does it. Without a ledger nothing is remembered. report is
// told of failed attempts, by one goroutine per sink; nil ignores them. cfg is one that Open accepted.
func NewDispatcher(cfg Delivery, sinks []alerting.Sink, ledger Ledger, report func(Failure)) *Dispatcher {
	cfg.Queue = cmp.Or(cfg.Queue, 1024)
	cfg.Timeout = cmp.Or(cfg.Timeout, 15*time.Second)
	cfg.Backoff = cmp.Or(cfg.Backoff, 500*time.Millisecond)
	cfg.MaxBackoff = cmp.Or(cfg.MaxBackoff, time.Minute)
	cfg.Drain = cmp.Or(cfg.Drain, 5*time.Second)
	if report == nil {
		report = func(Failure) {}
	}
	if ledger == nil {
		ledger = forgetful{}
	}
	d := &Dispatcher{cfg: cfg}
	for _, s := range sinks {
		own := cfg
		if p, ok := s.(pacer); ok {
			own.Backoff, own.MaxBackoff = p.Pace()
		}
		if p, ok := s.(patient); ok {
			own.Timeout = p.Patience()
		}
		d.lanes = append(d.lanes, &lane{
			sink: s, cfg: own, ledger: ledger, report: report, wake: make(chan struct{}, 1), jitter: rand.Float64, stats: Stats{Sink: s.Name()},
		})
	}
	return d
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

// pacer is implemented by sinks whose consumers expect another pace of retries than Delivery's.
type pacer interface {
	Pace() (backoff, maxBackoff time.Duration)
}

// patient is implemented by sinks that are given more time for an attempt than Delivery's.
type patient interface {
	Patience() time.Duration
}

// batcher is implemented by sinks whose consumers take several notices at once. SendAll fails as Send does, for all of
// them: where that is for good, each is then sent alone, so that one which the consumer refuses takes no other with it.
type batcher interface {
	SendAll(ctx context.Context, notices []alerting.Notice) error
}

// Enqueue queues notices until they expire, by the wall clock, for every sink that accepts them. Decisions and alerts are
// copied, what they point to is not and must stay as it is. A newer decision of a pool replaces an older one that waits, and
// so does a newer state of an alert. What a sink has dealt with already, by the ledger, is not sent again. What is queued at
// once can be sent at once.
func (d *Dispatcher) Enqueue(notices ...alerting.Pending) {
	entries := make([]entry, 0, len(notices))
	for _, p := range notices {
		e := entry{notice: p.Notice, identity: p.Notice.Identity(), expires: p.Expires}
		switch {
		case p.Notice.Decision != nil:
			e.notice.Decision = new(*p.Notice.Decision)
		case p.Notice.Alert != nil:
			e.notice.Alert = new(*p.Notice.Alert)
		case p.Notice.Report != nil:
		default:
			continue
		}
		entries = append(entries, e)
	}
	for _, l := range d.lanes {
		l.put(entries)
	}
}

// Owes says whether a sink that accepts n has not dealt with it yet, by the ledger.
func (d *Dispatcher) Owes(n alerting.Notice) bool {
	return slices.ContainsFunc(d.lanes, func(l *lane) bool {
		return accepts(l.sink, n) && l.ledger.Settled(l.stats.Sink, n.Identity()) != l.id(n)
	})
}

// Stats is the state of every sink's lane, in the order of the sinks.
func (d *Dispatcher) Stats() []Stats {
	out := make([]Stats, 0, len(d.lanes))
	for _, l := range d.lanes {
		out = append(out, l.snapshot())
	}
	return out
}

// Run delivers until ctx is done, then for at most Delivery.Drain what is still queued. It returns nil when nothing was
// left, and otherwise an error that says how much was. It does not wait longer than Drain and a second for a sink that
// ignores its context.
func (d *Dispatcher) Run(ctx context.Context) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	finished := make(chan struct{})
	var lanes sync.WaitGroup
	for _, l := range d.lanes {
		lanes.Go(func() { l.run(ctx, sending) })
	}
	go func() {
		lanes.Wait()
		close(finished)
	}()
	<-ctx.Done()
	for _, patience := range []time.Duration{d.cfg.Drain, time.Second} {
		timer := time.NewTimer(patience)
		select {
		case <-finished:
			timer.Stop()
			return d.undelivered()
		case <-timer.C:
			stop()
		}
	}
	return errors.Join(d.undelivered(), errors.New("a sink does not stop"))
}

func (d *Dispatcher) undelivered() error {
	var left []string
	for _, s := range d.Stats() {
		if s.Queued > 0 {
			left = append(left, fmt.Sprintf("%d for %s", s.Queued, s.Sink))
		}
	}
	if left == nil {
		return nil
	}
	return fmt.Errorf("notices not delivered at the end: %s", strings.Join(left, ", "))
}
