package daemon

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
)

const (
	refusalsKept   = 15 * time.Minute // a kind of refusal is shown for so long after its newest record
	refusalsSaid   = 10 * time.Minute // between two lines of the log about the same kind
	refusalsMost   = 64               // kinds that are told apart; further ones count as one for each reason
	refusalsFew    = 5                // duplicates that are not worth a line of the log
	refusalsListed = 4                // kinds that one text lists
)

// refusalKind is what is counted together: records of one producer and pool that are refused for one reason.
type refusalKind struct {
	producer, pool string
	reason         ingest.Reason
}

// refusals is what was refused of one kind, by the clock of the machine.
type refusals struct {
	refusalKind
	n, of       uint64 // records, and those counted before the first of them
	first, last time.Time
	said        time.Time
	detail      string // of the newest record
}

// noteRefused counts what could not be used, and logs what is new. Duplicates are shown by refusedText only where they are
// most of the telemetry.
func (d *Daemon) noteRefused(refused []ingest.Refusal) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range refused {
		f := &refused[i]
		if f.Reason != ingest.ReasonDuplicate {
			if d.refusals == nil {
				d.refusals = map[string]uint64{}
			}
			d.refusals[string(f.Reason)]++
		}
		x := d.refusalsOf(refusalKind{f.Producer, f.Pool, f.Reason}, now)
		x.n++
		few := f.Reason == ingest.ReasonDuplicate && x.n < refusalsFew
		if x.last, x.detail = now, f.Detail; !few && x.shown(d.applied) && now.Sub(x.said) >= refusalsSaid {
			x.said = now
			d.log.Warn("telemetry is refused: "+f.Detail, zap.String("producer", f.Producer), zap.String("pool", f.Pool),
				zap.String("reason", string(f.Reason)), zap.Uint64("records", x.n), zap.Time("since", x.first))
		}
	}
}

// refusalsOf finds the count of a kind, or begins one. The caller holds mu.
func (d *Daemon) refusalsOf(kind refusalKind, now time.Time) *refusals {
	is := func(x *refusals) bool { return x.refusalKind == kind }
	if i := slices.IndexFunc(d.refusedBy, is); i >= 0 {
		return d.refusedBy[i]
	}
	d.forgetRefusals(now)
	if len(d.refusedBy) >= refusalsMost {
		kind.producer, kind.pool = "(others)", ""
		if i := slices.IndexFunc(d.refusedBy, is); i >= 0 {
			return d.refusedBy[i]
		}
	}
	x := &refusals{refusalKind: kind, of: d.applied, first: now}
	d.refusedBy = append(d.refusedBy, x)
	return x
}

func (d *Daemon) forgetRefusals(now time.Time) {
	d.refusedBy = slices.DeleteFunc(d.refusedBy, func(x *refusals) bool { return now.Sub(x.last) > refusalsKept })
}

// shown says whether people should know: always but for duplicates, which are harmless unless little else comes.
func (x *refusals) shown(applied uint64) bool {
	return x.reason != ingest.ReasonDuplicate || x.n > applied-x.of
}

// refusedText says what is refused of late, by whom it was sent and how to mend that; "" for nothing. The caller holds mu.
func (d *Daemon) refusedText(now time.Time) string {
	d.forgetRefusals(now)
	var out []string
	shown := slices.DeleteFunc(slices.Clone(d.refusedBy), func(x *refusals) bool { return !x.shown(d.applied) })
	slices.SortStableFunc(shown, func(a, b *refusals) int { return cmp.Compare(b.n, a.n) })
	for _, x := range shown[:min(len(shown), refusalsListed)] {
		who := "of producers without a name"
		if x.producer != "" {
			who = fmt.Sprintf("of producer %.64q", x.producer)
		}
		if x.pool != "" {
			who += fmt.Sprintf(" for pool %.64q", x.pool)
		}
		out = append(out, fmt.Sprintf("%d record(s) %s refused as %s since %s, the newest at %s, beside %d that count: %s", x.n, who, x.reason,
			x.first.UTC().Format("15:04:05"), x.last.UTC().Format("15:04:05 MST"), d.applied-x.of, x.detail))
	}
	if more := len(shown) - refusalsListed; more > 0 {
		out = append(out, fmt.Sprintf("and %d more kinds, see forewarm_ingest_refused_total and the log", more))
	}
	if d.omitted != "" {
		out = append(out, d.omitted)
	}
	return strings.Join(out, "; ")
}
