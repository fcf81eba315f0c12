package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/server"
)

const (
	selfEvery  = time.Minute
	selfWindow = 15 // checks in the evaluation window
)

// selfWatch raises the alerts about the daemon itself, on the wall clock. After a restart, a problem that persists is
// raised again. One goroutine owns it.
type selfWatch struct {
	began   time.Time
	alerts  *alerting.AlertTracker
	intake  []alerting.Vitals // counts since the start, one per check, oldest first, at most selfWindow + 1
	skipped map[string]uint64 // at the last check, see countIntake
}

func (d *Daemon) watchSelf(ctx context.Context) error {
	d.checkSelf(d.watch, time.Now())
	for sleep.For(ctx, selfEvery) {
		d.checkSelf(d.watch, time.Now())
	}
	return nil
}

// checkSelf raises and resolves alerts about the daemon. It sends the watchdog alert while ticks come.
func (d *Daemon) checkSelf(w *selfWatch, now time.Time) {
	intake, skipped := d.countIntake()
	vitals := w.count(intake)
	for text, n := range increase(skipped, w.skipped) {
		d.noteRefused(ingest.Refusal{Detail: text}, n)
	}
	w.skipped = skipped
	vitals.Sinks = d.dispatcher.Stats()
	d.mu.Lock()
	vitals.Storage, vitals.StorageSince = d.failedWrites.text()
	vitals.Refusals, vitals.Divergence = d.refusedText(now), d.divergence
	d.mu.Unlock()
	var notices []alerting.Notice
	var firing []alerting.Alert
	for _, a := range w.alerts.Update(now.UTC().Truncate(time.Second), alerting.SelfConditions(&vitals, d.cfg.Decision)) {
		notices = append(notices, alerting.Notice{Alert: &a})
		if !a.Resolved {
			firing = append(firing, a)
		}
	}
	d.setStatus(func(s *server.Status) { s.Alerts = firing })
	if d.isTicking(now) {
		a := alerting.NewWatchdog(w.began, now.UTC().Truncate(time.Second), d.cfg.Decision)
		notices = append(notices, alerting.Notice{Alert: &a})
	}
	d.dispatcher.Notify(notices...)
}

// count returns the counts since the oldest check in the window.
func (w *selfWatch) count(now alerting.Vitals) alerting.Vitals {
	w.intake = append(w.intake, now)
	w.intake = w.intake[max(0, len(w.intake)-selfWindow-1):]
	then := &w.intake[0]
	return alerting.Vitals{
		Window: selfWindow * selfEvery, Records: now.Records - then.Records, Lost: now.Lost - then.Lost,
		Diverged: now.Diverged - then.Diverged, Refused: increase(now.Refused, then.Refused),
	}
}

// increase returns the counts that grew, and by how much.
func increase(now, then map[string]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for name, n := range now {
		if n > then[name] {
			out[name] = n - then[name]
		}
	}
	return out
}

// readCodes are the listener's answers to requests that were read. What they refuse is counted by reason.
var readCodes = []string{"200", "OK", "other"}

// isTicking reports whether a tick came within server.StaleAfter.
func (d *Daemon) isTicking(now time.Time) bool {
	at := locked(d, &d.status.TickedAt)
	return !at.IsZero() && now.Sub(at) <= server.StaleAfter
}

// countIntake counts telemetry since the start, without harmless refusals. The keys of skipped say what does not count as it
// was sent, and the fix.
func (d *Daemon) countIntake() (v alerting.Vitals, skipped map[string]uint64) {
	o := locked(d, &d.omissions)
	v = alerting.Vitals{
		Records: d.exporter.Records.Get(), Lost: d.consumer.Lost.Load() + d.relay.Lost.Load(), Diverged: d.decisions.Counters().Divergent,
		Refused: map[string]uint64{},
	}
	for _, reason := range ingest.Reasons {
		if !slices.Contains(harmless, reason) {
			v.Refused[string(reason)] = d.exporter.Refused(reason).Get()
		}
	}
	skipped = map[string]uint64{
		"records are counted as class _other: raise features.max_classes if it is reached, or rename their class if it is *": o.Features.OverflowRecords,
		"requests have times that contradict each other, and count as if without times":                                      o.Features.BadTimes,
		"replica reports do not count: the pool has more than 8192 replicas, divide it":                                      o.Features.ReplicasRefused,
		"records are of producers beyond those that can be followed: their clocks are not watched":                           o.ProducersRefused,
		"messages left the stream before they were read: the stream is too small, or the daemon was away":                    v.Lost,
		"samples are not in the history: raise storage.max_series, which is reached":                                         d.store.Counters().Capped,
		"refused records could not be put on the dead-letter subject: the log and this page say why records were refused":    d.deadLetter.Dropped.Load(),
		allIgnored: d.exporter.Ignored.Get(),
	}
	for code, requests := range d.intake.Requests {
		if !slices.Contains(readCodes, code) {
			n := requests.Load()
			n -= min(n, d.intake.Unusable[code].Load()) // their records are counted by reason; the answer is counted later
			v.Refused["http "+code] = n
			skipped["requests were answered "+code+" by listeners.http: see the producer's log"] = n
		}
	}
	return v, skipped
}

// allIgnored is logged once, and shown only while no record counts.
const allIgnored = "records are sound but ask for nothing of a pool, such as tool calls: if requests are missing, docs/integrations.md says what each producer has to send"
