package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/forewarm/forewarm/alerting"
)

// explained says why the largest errors happened.
func explained(b *strings.Builder, r *Report) {
	var rows [][]string
	var notes []string
	for i := range r.Pools {
		p := &r.Pools[i]
		told, note := p.whyWrong()
		for _, cells := range told {
			rows = append(rows, append([]string{p.Pool}, cells...))
		}
		if len(told) > 0 {
			notes = append(notes, strings.ReplaceAll(p.Pool, "\n", " ")+": "+note)
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n## Why forecasts were wrong\n\n" + whyNote + "\n")
		table(b, append([]string{"pool"}, storyHead(r.Zone.location())...), rows)
		b.WriteString("\n" + strings.Join(notes, "\n\n") + "\n")
	}
}

// provided says what was paid for what, and what became of each replica that was asked for.
func provided(b *strings.Builder, r *Report) {
	var rows, asks [][]string
	for i := range r.Pools {
		p, d, v := &r.Pools[i], &r.Pools[i].Decisions, &r.Pools[i].Decisions.Provision
		if v.KnownMinutes > 0 {
			rows = append(rows, []string{p.Pool, v.Paid.cell(), v.Pending.cell(), v.Needed.cell(), v.Over.cell(), v.Under.cell(), v.Clairvoyant.cell(), v.Regret.cell(), money(v.ShortUSD)})
		}
		if a := &d.Asks; a.Replicas > 0 {
			asks = append(asks, []string{p.Pool, fmt.Sprint(a.Replicas), fmt.Sprint(a.Ready), fmt.Sprint(a.Withdrawn), a.VisibleToEvent.String(), a.untilReady(), a.EventToCrossing.String(), a.queued(),
				fmt.Sprint(a.InTime), fmt.Sprint(a.Late), fmt.Sprint(a.Unneeded), fmt.Sprint(d.Thrash.WithinHour), fmt.Sprint(d.Thrash.WithinLead)})
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n## What replicas cost\n\nWith hindsight is the least that would have been paid, warm-ups included, by one who knew demand.\n")
		table(b, []string{"pool", ">used", ">of that warming up", ">demand took", ">beyond need", ">missing", ">with hindsight", ">regret", ">cost of what was missing"}, rows)
	}
	if len(asks) > 0 {
		b.WriteString("\n## What became of replicas asked for\n\nTimes are medians (90th percentile): from when the need could be seen, in demand or in a decision, to the ask, and from the ask on. The queue is the most requests that waited from the ask until the replica was ready.\n")
		table(b, []string{"pool", ">asked for", ">came", ">withdrawn", ">need seen until asked", ">until ready", ">until demand took them", ">queue meanwhile", ">ready in time", ">too late", ">not needed", ">actions taken back in an hour", ">in the lead time"}, asks)
	}
}

// String gives the median and the 90th percentile.
func (s Spread) String() string {
	if s.Count == 0 {
		return unknown
	}
	return fmt.Sprintf("%s (%s)", lead(s.P50), lead(s.P90))
}

// untilReady says how long the replicas that came took, and how many asks nobody obeyed.
func (a *Asks) untilReady() string {
	switch {
	case a.Ignored > 0 && a.Ready == 0:
		return "nobody obeyed"
	case a.Ignored > 0:
		return fmt.Sprintf("%s; %d nobody obeyed", a.EventToReady, a.Ignored)
	}
	return a.EventToReady.String()
}

// queued says how long queues became meanwhile.
func (a *Asks) queued() string {
	if a.QueueMeanwhile.Count == 0 {
		return unknown
	}
	return fmt.Sprintf("%s (%s)", quantity(a.QueueMeanwhile.P50, ""), quantity(a.QueueMeanwhile.P90, ""))
}

// assumed says what decisions rest on.
func assumed(b *strings.Builder, r *Report) {
	var rows [][]string
	for i := range r.Pools {
		for _, a := range r.Pools[i].Assumptions {
			confirmed := "never"
			if a.Confirmed != nil {
				confirmed = alerting.Clock(*a.Confirmed, "2 Jan 2006 15:04")
			}
			rows = append(rows, []string{r.Pools[i].Pool, strings.ReplaceAll(a.Name, "_", " "), quantity(a.Stated, a.Unit), quantity(a.Learned, a.Unit), quantity(a.Used, a.Unit),
				signed(a.Off), confirmed, a.age(), a.Note})
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n## What decisions rest on\n")
		table(b, []string{"pool", "assumption", ">stated", ">learned", ">used", ">off by", named("last evidence", r.Zone.location()), ">age", "note"}, rows)
	}
}

// drifted shows the halves of the period side by side.
func drifted(b *strings.Builder, r *Report) {
	var rows [][]string
	both := func(x, y Number) string { return percent(x) + " → " + percent(y) }
	for i := range r.Pools {
		for _, d := range r.Pools[i].Drift {
			if d.oneSided() {
				continue
			}
			x, y := &d.First, &d.Second
			rows = append(rows, []string{r.Pools[i].Pool, resource(d.Dimension), both(x.WAPE, y.WAPE), both(x.Bias, y.Bias), both(x.Q50, y.Q50), both(x.Q90, y.Q90), both(x.Q99, y.Q99)})
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n## From the first half to the second\n")
		table(b, []string{"pool", "demand", ">error", ">bias", ">q50 held", ">q90", ">q99"}, rows)
	}
}

// oneSided says that there is nothing to compare.
func (d *Drift) oneSided() bool { return d.First.Outcomes == 0 || d.Second.Outcomes == 0 }

// age says how long before the newest decision an assumption was last confirmed.
func (a *Assumption) age() string {
	switch days := float64(a.AgeDays); {
	case a.Confirmed == nil:
		return unknown
	case days < 1:
		return "under a day"
	default:
		return count(int(math.Round(days)), "day")
	}
}

// lasting shows how long something took, in hours or days where minutes say no more.
func lasting(minutes int) string {
	const hour, day = 60, 24 * 60
	switch {
	case minutes < 3*hour:
		return fmt.Sprintf("%d min", minutes)
	case minutes < 3*day:
		return fmt.Sprintf("%d h", (minutes+hour/2)/hour)
	}
	return fmt.Sprintf("%d days", (minutes+day/2)/day)
}

// gaps lists when demand was not known.
func gaps(b *strings.Builder, r *Report) {
	var rows [][]string
	hidden := 0
	for i := range r.Pools {
		d := &r.Pools[i].Data
		for _, g := range d.Gaps {
			rows = append(rows, []string{r.Pools[i].Pool, day(g.Start), lasting(g.Minutes)})
		}
		hidden += d.GapCount - len(d.Gaps)
	}
	if len(rows) > 0 {
		b.WriteString("\n## Without telemetry\n\nThe longest stretches in which demand is not known; nothing is scored in them.\n")
		table(b, []string{"pool", named("start", r.Zone.location()), ">length"}, rows)
		if hidden > 0 {
			fmt.Fprintf(b, "\n%s shorter.\n", count(hidden, "more gap"))
		}
	}
}
