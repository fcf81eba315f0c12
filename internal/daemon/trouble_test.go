package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/sink"
)

// flaky is a sink that refuses its first notice.
type flaky struct{ sent int }

func (*flaky) Name() string { return "flaky" }

func (*flaky) Accepts(alerting.Notice) bool { return true }

func (f *flaky) Send(context.Context, alerting.Notice) error {
	if f.sent++; f.sent == 1 {
		return errors.New("unreachable")
	}
	return nil
}

func trouble(d *Daemon) string { text, _ := d.failedWrites.text(); return text }

// TestTroubleEnds: a failed write or delivery is reported until one succeeds.
func TestTroubleEnds(t *testing.T) {
	d := &Daemon{log: zap.NewNop(), failedWrites: faults{}}
	d.note(d.failedWrites, "snapshot", errors.New("disk full"))
	d.note(d.failedWrites, "log", nil)
	_, since := d.failedWrites.text()
	d.note(d.failedWrites, "snapshot", errors.New("no rights"))
	if text, still := d.failedWrites.text(); text != "snapshot: no rights" || !still.Equal(since) {
		t.Errorf("storage: %q since %s, want %s", text, still, since)
	}
	d.note(d.failedWrites, "snapshot", nil)
	if got := trouble(d); got != "" {
		t.Errorf("storage, after a successful write: %q", got)
	}

	during := make(chan string, 2)
	d.dispatcher = sink.NewDispatcher([]alerting.Sink{&flaky{}}, func(string, bool) sink.Queue { return idle{} }, func(sink string, n alerting.Notice, failures int, err error) {
		d.undelivered(sink, n, failures, err)
		during <- d.sinkTrouble()
	})
	now := time.Now()
	notify := func() {
		d.dispatcher.Notify(alerting.Notice{Decision: &alerting.Decision{Pool: "p", Tick: now, Expires: now.Add(time.Hour)}})
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- d.dispatcher.Run(ctx) }()
	notify()
	if got := <-during; got != "flaky: unreachable (1 waited at the last attempt)" {
		t.Errorf("sinks: %q while it failed", got)
	}
	notify()
	if got := <-during; got != "" {
		t.Errorf("sinks: %q after", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// idle is a queue without notices.
type idle struct{}

func (idle) Next(ctx context.Context) (*alerting.Delivery, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (idle) Delivered(context.Context, string) (string, error)  { return "", nil }
func (idle) SetDelivered(context.Context, string, string) error { return nil }
