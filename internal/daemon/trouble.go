package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/value"
)

// faults are the parts that failed at their last attempt, by name.
type faults map[string]fault

type fault struct {
	since time.Time
	err   string // of the last attempt
}

const (
	troubleStreams = "streams" // the part for faults of streams
	faultsListed   = 8         // parts that one text lists
)

// note records whether the last attempt of a part succeeded.
func (d *Daemon) note(f faults, what string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u, failing := f[what]
	if err == nil {
		if failing {
			d.log.Info("a part works again", zap.String("part", what), zap.Time("since", u.since))
		}
		delete(f, what)
		return
	}
	if !failing {
		u.since = time.Now()
		d.log.Warn("a part fails", zap.String("part", what), zap.Error(err))
	}
	u.err = value.Printable(err.Error())
	f[what] = u
}

// text lists the parts that fail, except streams, and when the first failure began; "" if none.
func (f faults) text() (trouble string, since time.Time) {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(f)) {
		u := f[what]
		if what == troubleStreams {
			continue
		}
		out = append(out, what+": "+u.err)
		if since.IsZero() || u.since.Before(since) {
			since = u.since
		}
	}
	if more := len(out) - faultsListed; more > 0 {
		out = append(out[:faultsListed], fmt.Sprintf("and %d more, which the log names", more))
	}
	return strings.Join(out, "; "), since
}

// undelivered logs that a sink fails or has recovered.
func (d *Daemon) undelivered(sink string, n alerting.Notice, failures int, err error) {
	log := d.log.With(zap.String("sink", sink), zap.Int("failures in a row", failures))
	answer, _ := errors.AsType[alerting.SendError](err)
	switch {
	case err == nil:
		log.Info("a sink accepts notices again")
	case answer.Gone:
		log.Error("a sink refuses all notices and gets none until a restart: fix the consumer, or remove it from the configuration", zap.Error(err))
	default:
		log.Warn("a notice is not delivered", zap.String("notice", n.ID()), zap.Bool("retried", !answer.Permanent), zap.Error(err))
	}
}

// sinkTrouble lists the sinks that fail, "" if none.
func (d *Daemon) sinkTrouble() string {
	var out []string
	for _, s := range d.dispatcher.Stats() {
		if s.Err != "" {
			out = append(out, fmt.Sprintf("%s: %s (%d waited at the last attempt)", s.Sink, s.Err, s.Queued))
		}
	}
	return strings.Join(out, "; ")
}

const (
	refusalShownFor   = 15 * time.Minute // how long a kind is shown after its newest record
	refusalLogEvery   = 10 * time.Minute // between two log lines about one kind
	refusalKindsMax   = 64               // kinds that are counted separately; the rest is one kind per reason
	duplicatesIgnored = 5                // duplicates that are not logged
	refusalsListed    = 4                // kinds that one text lists
)

// refusals counts refused records of one producer, pool and reason, or records that are skipped for one cause, without a
// reason. Times are by the wall clock.
type refusals struct {
	ingest.Refusal        // Detail is that of the newest record
	n              uint64 // refused or skipped records
	before         uint64 // records that were applied before the first of them
	first, last    time.Time
	log            rate.Sometimes
}

// harmless are the reasons of refusals by which no demand is missed.
var harmless = []ingest.Reason{ingest.ReasonDuplicate, ingest.ReasonUnknownEvent}

// noteRefused counts n refused or skipped records, and logs new kinds.
func (d *Daemon) noteRefused(f ingest.Refusal, n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, applied := time.Now(), d.exporter.Records.Get()
	x := d.refusalsOf(f, now, applied)
	x.n += n
	x.last, x.Detail = now, f.Detail
	if !x.shown(applied) || f.Reason == ingest.ReasonDuplicate && x.n <= duplicatesIgnored {
		return
	}
	x.log.Do(func() {
		d.log.Warn("telemetry is refused or skipped: "+f.Detail, zap.String("producer", f.Producer), zap.String("pool", f.Pool),
			zap.String("reason", string(f.Reason)), zap.Uint64("records", x.n), zap.Time("since", x.first))
	})
}

// refusalsOf finds or creates the count of the kind of a refusal. The caller holds mu.
func (d *Daemon) refusalsOf(kind ingest.Refusal, now time.Time, applied uint64) *refusals {
	if kind.Reason != "" {
		kind.Detail = ""
	}
	x := d.refusedBy[kind]
	if x == nil && len(d.refusedBy) >= refusalKindsMax {
		d.forgetRefusals(now)
	}
	if x == nil && len(d.refusedBy) >= refusalKindsMax {
		kind.Producer, kind.Pool = "(others)", ""
		x = d.refusedBy[kind]
	}
	if x == nil {
		x = &refusals{Refusal: kind, before: applied, first: now, log: rate.Sometimes{Interval: refusalLogEvery}}
		d.refusedBy[kind] = x
	}
	return x
}

func (d *Daemon) forgetRefusals(now time.Time) {
	maps.DeleteFunc(d.refusedBy, func(_ ingest.Refusal, x *refusals) bool { return now.Sub(x.last) > refusalShownFor })
}

// shown reports whether users should see it. Duplicates are harmless unless they are most of the telemetry, and records
// without demand unless there are no others.
func (x *refusals) shown(applied uint64) bool {
	counted := applied - x.before
	return (x.Reason != ingest.ReasonDuplicate || x.n > counted) && (x.Detail != allIgnored || counted == 0)
}

// refusedText lists recent refusals, their senders and the fix, "" if none. The caller holds mu.
func (d *Daemon) refusedText(now time.Time) string {
	d.forgetRefusals(now)
	applied := d.exporter.Records.Get()
	var out []string
	// Missed demand comes first, and skipped records, which have no reason, come last.
	rank := func(x *refusals) int {
		switch {
		case x.Reason == "":
			return 2
		case slices.Contains(harmless, x.Reason):
			return 1
		}
		return 0
	}
	shown := slices.SortedFunc(maps.Values(d.refusedBy), func(a, b *refusals) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.n, a.n), a.first.Compare(b.first))
	})
	shown = slices.DeleteFunc(shown, func(x *refusals) bool { return !x.shown(applied) })
	for _, x := range shown[:min(len(shown), refusalsListed)] {
		out = append(out, x.text(applied))
	}
	if more := len(shown) - refusalsListed; more > 0 {
		out = append(out, fmt.Sprintf("and %s more: see forewarm_ingest_refused_total and the log", value.Count(more, "kind")))
	}
	return strings.Join(out, "; ")
}

func (x *refusals) text(applied uint64) string {
	span := fmt.Sprintf("since %s, the newest at %s, %d others were counted", x.first.UTC().Format("15:04:05"),
		x.last.UTC().Format("15:04:05 MST"), applied-x.before)
	if x.Reason == "" {
		return fmt.Sprintf("%d %s (%s)", x.n, x.Detail, span)
	}
	return fmt.Sprintf("%d record(s) of producer %.64q for pool %.64q refused as %s: %s (%s)",
		x.n, cmp.Or(x.Producer, "(no name)"), cmp.Or(x.Pool, "(unknown)"), x.Reason, x.Detail, span)
}
