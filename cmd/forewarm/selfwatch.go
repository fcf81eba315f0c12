package main

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
)

const (
	selfEvery  = time.Minute
	selfWindow = 15 // of those, over which telemetry is counted
)

// selfWatch raises the alerts about the daemon itself, by the clock of the machine. What it knows begins with the process:
// a problem that outlasts a restart is raised anew. One goroutine owns it.
type selfWatch struct {
	began  time.Time
	board  *alerting.Board
	intake []intake // one a look, oldest first, at most selfWindow and one
}

// intake is what became of telemetry since the process began.
type intake struct {
	records, lost uint64
	refused       map[string]uint64 // by reason; resends do not count
}

func newSelfWatch(cfg alerting.Config) *selfWatch {
	return &selfWatch{began: time.Now().Truncate(time.Second), board: alerting.NewBoard(cfg)}
}

// watchSelf looks after the daemon each minute until ctx ends.
func (d *daemon) watchSelf(ctx context.Context) error {
	w, ticker := newSelfWatch(d.cfg.Decision), time.NewTicker(selfEvery)
	defer ticker.Stop()
	d.lookAfter(w, time.Now())
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			d.lookAfter(w, now)
		}
	}
}

// lookAfter tells what is the case with the daemon at now, and sends the watchdog while it ticks.
func (d *daemon) lookAfter(w *selfWatch, now time.Time) {
	vitals := w.count(d.takenIn())
	vitals.Sinks = d.sinkVitals()
	d.mu.Lock()
	vitals.Storage, vitals.StorageSince = d.troubleBut(troubleRemote)
	d.mu.Unlock()
	var notices []alerting.Pending
	for _, a := range w.board.Update(now.UTC().Truncate(time.Second), alerting.SelfConditions(&vitals, d.cfg.Decision)) {
		n := alerting.Notice{Alert: &a}
		notices = append(notices, alerting.Pending{Notice: n, Expires: now.Add(n.Life())})
	}
	if len(notices) > 0 {
		err := d.outbox.Announce(time.Time{}, notices)
		d.stored("outbox", err)
		if err != nil {
			d.log.Error("alerts about the daemon are not in the outbox; a restart forgets what is not delivered by then", zap.Error(err))
		}
	}
	if d.ticks(now) {
		a := alerting.NewWatchdog(w.began, now.UTC().Truncate(time.Second), d.cfg.Decision)
		n := alerting.Notice{Alert: &a}
		notices = append(notices, alerting.Pending{Notice: n, Expires: now.Add(n.Life())})
	}
	d.dispatcher.Enqueue(notices...)
}

// count is what came since the oldest look that is remembered.
func (w *selfWatch) count(now intake) alerting.Vitals {
	w.intake = append(w.intake, now)
	if len(w.intake) > selfWindow+1 {
		w.intake = append(w.intake[:0], w.intake[1:]...)
	}
	then := &w.intake[0]
	v := alerting.Vitals{Window: selfWindow * selfEvery, Records: now.records - then.records, Lost: now.lost - then.lost, Refused: map[string]uint64{}}
	for reason, n := range now.refused {
		if n -= then.refused[reason]; n > 0 {
			v.Refused[reason] = n
		}
	}
	return v
}

// ticks says whether a tick came within server.stale_after.
func (d *daemon) ticks(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.tickedAt.IsZero() && now.Sub(d.tickedAt) <= d.cfg.Server.StaleAfter
}

// lost counts messages that were gone before they were read.
func (d *daemon) lost() uint64 {
	n := d.consumer.Lost()
	if d.relay != nil {
		n += d.relay.Lost()
	}
	return n
}

// takenIn is what became of telemetry so far.
func (d *daemon) takenIn() intake {
	d.mu.Lock()
	defer d.mu.Unlock()
	return intake{d.folded, d.lost(), maps.Clone(d.refusals)}
}

// noteRefused counts what could not be used; what was sent again is none of that.
func (d *daemon) noteRefused(refused []ingest.Refusal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range refused {
		if reason := refused[i].Reason; reason != ingest.ReasonDuplicate {
			if d.refusals == nil {
				d.refusals = map[string]uint64{}
			}
			d.refusals[string(reason)]++
		}
	}
}

// sinkVitals is how delivery goes, sink by sink.
func (d *daemon) sinkVitals() []alerting.SinkVitals {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []alerting.SinkVitals
	for _, s := range d.dispatcher.Stats() {
		u, failed := d.undelivery[s.Sink]
		out = append(out, alerting.SinkVitals{Name: s.Sink, Failing: failed && u.sent == s.Sent, Since: u.since, Err: u.err, Waiting: s.Queued, Disabled: s.Disabled})
	}
	return out
}
