package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/forewarm/forewarm/ingest"
)

const (
	refusalShownFor   = 15 * time.Minute // how long a kind is shown after its newest record
	refusalLogEvery   = 10 * time.Minute // between two log lines about one kind
	refusalKindsMax   = 64               // kinds that are counted separately; the rest is one kind per reason
	duplicatesIgnored = 5                // duplicates that are not logged
	refusalsListed    = 4                // kinds that one text lists
)

// refusals counts the refused records of one kind (producer, pool and reason), on the wall clock.
type refusals struct {
	ingest.Refusal        // of the kind; Detail is of the newest record
	n, of          uint64 // refused records, and all records since the first of them
	first, last    time.Time
	log            rate.Sometimes
}

// noteRefused counts refused records, and logs new kinds. refusedText shows duplicates only if they are most of the
// telemetry.
func (d *Daemon) noteRefused(refused []ingest.Refusal) {
	now, applied := time.Now(), d.exporter.Records.Get()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range refused {
		x := d.refusalsOf(f, now)
		x.n++
		x.last, x.Detail = now, f.Detail
		if !x.shown(applied) || f.Reason == ingest.ReasonDuplicate && x.n < duplicatesIgnored {
			continue
		}
		x.log.Do(func() {
			d.log.Warn("telemetry is refused: "+f.Detail, zap.String("producer", f.Producer), zap.String("pool", f.Pool),
				zap.String("reason", string(f.Reason)), zap.Uint64("records", x.n), zap.Time("since", x.first))
		})
	}
}

// refusalsOf finds or creates the count of the kind of a refusal. The caller holds mu.
func (d *Daemon) refusalsOf(kind ingest.Refusal, now time.Time) *refusals {
	kind.Detail = ""
	x := d.refusedBy[kind]
	if x == nil && len(d.refusedBy) >= refusalKindsMax {
		if d.forgetRefusals(now); len(d.refusedBy) >= refusalKindsMax {
			kind.Producer, kind.Pool = "(others)", ""
			x = d.refusedBy[kind]
		}
	}
	if x == nil {
		x = &refusals{Refusal: kind, of: d.exporter.Records.Get(), first: now, log: rate.Sometimes{Interval: refusalLogEvery}}
		d.refusedBy[kind] = x
	}
	return x
}

func (d *Daemon) forgetRefusals(now time.Time) {
	maps.DeleteFunc(d.refusedBy, func(_ ingest.Refusal, x *refusals) bool { return now.Sub(x.last) > refusalShownFor })
}

// shown reports whether users should see it. Duplicates are harmless unless they are most of the telemetry.
func (x *refusals) shown(applied uint64) bool {
	return x.Reason != ingest.ReasonDuplicate || x.n > applied-x.of
}

// refusedText lists recent refusals, their senders and the fix, "" if none. The caller holds mu.
func (d *Daemon) refusedText(now time.Time) string {
	d.forgetRefusals(now)
	applied := d.exporter.Records.Get()
	var out []string
	shown := slices.SortedFunc(maps.Values(d.refusedBy), func(a, b *refusals) int {
		return cmp.Or(cmp.Compare(b.n, a.n), a.first.Compare(b.first))
	})
	shown = slices.DeleteFunc(shown, func(x *refusals) bool { return !x.shown(applied) })
	for _, x := range shown[:min(len(shown), refusalsListed)] {
		who := "of producers without a name"
		if x.Producer != "" {
			who = fmt.Sprintf("of producer %.64q", x.Producer)
		}
		if x.Pool != "" {
			who += fmt.Sprintf(" for pool %.64q", x.Pool)
		}
		out = append(out, fmt.Sprintf("%d record(s) %s refused as %s: %s (since %s, the newest at %s; %d others were counted)", x.n, who, x.Reason,
			x.Detail, x.first.UTC().Format("15:04:05"), x.last.UTC().Format("15:04:05 MST"), applied-x.of))
	}
	if more := len(shown) - refusalsListed; more > 0 {
		out = append(out, fmt.Sprintf("and %d more kinds, see forewarm_ingest_refused_total and the log", more))
	}
	if d.omitted != "" {
		out = append(out, d.omitted)
	}
	return strings.Join(out, "; ")
}
