package main

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

func (f *flaky) Send(context.Context, alerting.Notice) error {
	if f.sent++; f.sent == 1 {
		return errors.New("unreachable")
	}
	return nil
}

func TestTroubleEndsWhenItIsOver(t *testing.T) {
	d := &daemon{log: zap.NewNop()}
	d.stored("snapshot", errors.New("disk full"))
	d.stored("journal", nil)
	if got := d.storageTrouble(); got != "snapshot: disk full" {
		t.Errorf("storage: %q", got)
	}
	d.stored("snapshot", nil)
	if got := d.storageTrouble(); got != "" {
		t.Errorf("storage, written again: %q", got)
	}

	var during string
	d.dispatcher = sink.NewDispatcher(sink.Delivery{Backoff: time.Millisecond}, []alerting.Sink{&flaky{}}, nil, func(f sink.Failure) {
		d.undelivered(&f)
		during = d.sinkTrouble()
	})
	now := time.Now()
	d.dispatcher.Enqueue(alerting.Pending{Notice: alerting.Notice{Decision: &alerting.Decision{Pool: "p", Tick: now, Expires: now.Add(time.Hour)}}, Expires: now.Add(time.Hour)})
	ctx, stop := context.WithCancel(context.Background())
	stop() // what is queued is delivered all the same
	if err := d.dispatcher.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if during != "flaky: unreachable (1 wait)" || d.sinkTrouble() != "" {
		t.Errorf("sinks: %q while it failed, %q after", during, d.sinkTrouble())
	}
}
