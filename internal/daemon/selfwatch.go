package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/server"
)

const (
	selfEvery  = time.Minute
	selfWindow = 15 // checks in the evaluation window
)

// selfWatch raises the alerts about the daemon itself, on the wall clock. It has no state over a restart: a problem
// that persists is raised again. One goroutine owns it.
type selfWatch struct {
	began  time.Time
	alerts alerting.AlertTracker
	intake []intake // one per check, oldest first, at most selfWindow + 1

	omitted map[string]uint64 // at the last check
}

// intake counts telemetry since the start of the process, by result.
type intake struct {
	records, lost uint64
	diverged      uint64
	refused       map[string]uint64 // by reason; without resends
	omitted       map[string]uint64 // by text: other records that were rejected or changed
}

func newSelfWatch() *selfWatch {
	return &selfWatch{began: time.Now().Truncate(time.Second)}
}

// watchSelf checks the daemon each minute until ctx ends.
func (d *Daemon) watchSelf(ctx context.Context) error {
	w, ticker := newSelfWatch(), time.NewTicker(selfEvery)
	defer ticker.Stop()
	d.checkSelf(w, time.Now())
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			d.checkSelf(w, now)
			d.inspectLog(ctx, now)
		}
	}
}

// checkSelf raises and resolves alerts about the daemon. It sends the watchdog alert while ticks come.
func (d *Daemon) checkSelf(w *selfWatch, now time.Time) {
	vitals, omitted := w.count(d.countIntake())
	if vitals.Records > 0 {
		delete(omitted, allIgnored)
	}
	text := d.logOmitted(w.omitted, omitted)
	w.omitted = omitted
	vitals.Sinks = d.dispatcher.Stats()
	d.mu.Lock()
	vitals.Storage, vitals.StorageSince = d.writeTrouble(troubleRemote)
	vitals.Refusals, vitals.Divergence = d.refusedText(now), d.divergence
	d.mu.Unlock()
	var notices []alerting.Notice
	var firing []alerting.Alert
	for _, a := range w.alerts.Update(now.UTC().Truncate(time.Second), alerting.SelfConditions(&vitals, d.cfg.Decision), d.cfg.Decision) {
		notices = append(notices, alerting.Notice{Alert: &a})
		if !a.Resolved {
			firing = append(firing, a)
		}
	}
	d.setStatus(func(s *server.Status) { s.Alerts, d.omitted = firing, text })
	if d.ticks(now) {
		a := alerting.NewWatchdog(w.began, now.UTC().Truncate(time.Second), d.cfg.Decision)
		notices = append(notices, alerting.Notice{Alert: &a})
	}
	d.dispatcher.Notify(notices...)
}

// count returns the counts since the oldest check in the window.
func (w *selfWatch) count(now intake) (v alerting.Vitals, omitted map[string]uint64) {
	w.intake = append(w.intake, now)
	if len(w.intake) > selfWindow+1 {
		w.intake = append(w.intake[:0], w.intake[1:]...)
	}
	then := &w.intake[0]
	v = alerting.Vitals{Window: selfWindow * selfEvery, Records: now.records - then.records, Lost: now.lost - then.lost, Diverged: now.diverged - then.diverged, Refused: increase(now.refused, then.refused)}
	return v, increase(now.omitted, then.omitted)
}

// increase returns the counts that grew, and by how much.
func increase(now, then map[string]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for name, n := range now {
		if n -= then[name]; n > 0 {
			out[name] = n
		}
	}
	return out
}

// readCodes are the listener's response codes for requests that were read. Their refused records are counted by reason.
var readCodes = []string{"200", "400", "OK", "InvalidArgument", "other"}

// logOmitted logs new omissions, and returns all of the window as text, "" if none.
func (d *Daemon) logOmitted(before, now map[string]uint64) string {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(now)) {
		out = append(out, fmt.Sprintf("in %.0f min %d %s", (selfWindow*selfEvery).Minutes(), now[what], what))
		if before[what] == 0 {
			d.log.Warn("telemetry is skipped: "+what, zap.Uint64("so far", now[what]))
		}
	}
	return strings.Join(out, "; ")
}

// ticks reports whether a tick came within server.stale_after.
func (d *Daemon) ticks(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.status.TickedAt.IsZero() && now.Sub(d.status.TickedAt) <= d.cfg.Server.StaleAfter
}

// lost returns the number of messages that were deleted before they were read.
func (d *Daemon) lost() uint64 {
	return d.consumer.Lost() + d.relay.Lost()
}

// countIntake counts telemetry so far.
func (d *Daemon) countIntake() intake {
	o := locked(d, &d.omissions)
	now := intake{records: d.exporter.Records.Get(), lost: d.lost(), diverged: d.decisions.Counters().Divergent, refused: map[string]uint64{}}
	for _, reason := range ingest.Reasons {
		if reason != ingest.ReasonDuplicate {
			now.refused[string(reason)] = d.exporter.Refused(reason).Get()
		}
	}
	now.omitted = map[string]uint64{
		"records are counted as class _other: raise features.max_classes, which is reached":                               o.Features.OverflowRecords,
		"requests have times that contradict each other, and count as if without times":                                   o.Features.BadTimes,
		"replica reports do not count: the pool has more than 8192 replicas, divide it":                                   o.Features.ReplicasRefused,
		"records are of producers beyond those that can be followed: their clocks are not watched":                        o.ProducersRefused,
		"messages left the stream before they were read: the stream is too small, or the daemon was away":                 now.lost,
		"samples are not in the history: raise storage.max_series, which is reached":                                      d.store.Counters().Capped,
		"refused records could not be put on the dead-letter subject: the log and this page say why records were refused": d.deadLetter.Dropped(),
	}
	if d.scraper != nil {
		for reason, n := range d.scraper.Stats().Failures {
			now.omitted["looks at the metrics of engines failed ("+reason+"): the log names the engines"] = n.Load()
		}
		now.omitted["addresses of engines are not scraped: there are too many"] = d.scraper.Stats().LeftOut.Load()
	}
	for code, requests := range d.intake.Requests {
		if !slices.Contains(readCodes, code) {
			now.refused["http "+code] = requests.Load()
			now.omitted["requests were answered "+code+" by listeners.http: see the producer's log"] = requests.Load()
		}
	}
	now.omitted[allIgnored] = d.exporter.Ignored.Get() + d.intake.Ignored.Load()
	return now
}

// allIgnored is shown only while no record counts.
const allIgnored = "records are sound but ask for nothing of a pool, and none else came: see the producer's format with forewarm decode"
