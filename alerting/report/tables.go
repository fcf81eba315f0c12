package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/markdown"
)

func (p *Pool) episodes() markdown.Table {
	s := &p.Saturation
	t := markdown.Table{Title: "Saturations", Note: "Whether it saturated is not known."}
	if s.KnownMinutes > 0 {
		t.Note = fmt.Sprintf("Saturated in %d of %d known minutes. Saturations: %d announced in time, %d late, %d missed, %d averted after an announcement; %s; %d announcements open; median lead %s.",
			s.SaturatedMinutes, s.KnownMinutes, s.InTime, s.Late, s.Missed, s.Averted, count(s.False, "false alarm"), s.Open, lead(s.LeadMinutes))
	}
	shown := s.Episodes[:min(len(s.Episodes), episodesShown)]
	if len(shown) > 0 {
		t.Head = []string{"start", ">length", "resource", ">peak of capacity", "announced", ">lead"}
	}
	for _, e := range shown {
		t.Rows = append(t.Rows, []string{day(e.Start), fmt.Sprintf("%d min", e.Minutes), resource(e.Resource), percent(e.Utilisation), e.Outcome.words(), lead(e.LeadMinutes)})
	}
	if more := len(s.Episodes) - len(shown); more > 0 {
		t.Note += fmt.Sprintf(" %s more are in the JSON.", count(more, "saturation"))
	}
	return t
}

// words are the outcome for people.
func (o Outcome) words() string { return strings.ReplaceAll(string(o), "_", " ") }

func (p *Pool) causes() markdown.Table {
	rows, note := p.whyWrong()
	if len(rows) == 0 {
		return markdown.Table{}
	}
	head := incidentHead
	if !slices.ContainsFunc(rows, func(row []string) bool { return row[len(row)-1] != "" }) { // no notes
		head = head[:len(head)-1]
		for i := range rows {
			rows[i] = rows[i][:len(head)]
		}
	}
	return markdown.Table{Title: "Why forecasts were wrong", Note: whyNote + " " + note, Head: head, Rows: rows}
}

// whyNote says how to read a table of errors.
const whyNote = "Use of capacity as forecast and as it came, in percent of the ready replicas. Causes are in points of that; all of them (in the JSON) add up to the difference." +
	" An error is large from 10 points on, and from twice what is usual."

func (p *Pool) provided() markdown.Table {
	v := &p.Decisions.Provision
	g := markdown.Table{Title: "What was provided", Head: []string{"", ">replica-hours", ">GPU-hours", ">cost"}}
	if v.KnownMinutes == 0 {
		return g
	}
	for _, x := range []struct {
		name string
		Amount
	}{
		{"ready", v.Ready}, {"warming up", v.Pending}, {"taken by demand", v.Needed}, {"ready beyond demand and reserves", v.Over}, {"missing", v.Under},
		{"paid", v.Paid}, {"least for one who knew demand", v.Clairvoyant}, {"paid beyond that", v.Regret},
	} {
		g.Rows = append(g.Rows, []string{x.name, quantity(x.ReplicaHours, ""), quantity(x.GPUHours, ""), money(x.USD)})
	}
	g.Note = fmt.Sprintf("Over the %d minutes in which demand, capacity and replicas are known.", v.KnownMinutes)
	if cost := money(v.ShortUSD); cost != unknown {
		g.Note += " What was missing cost " + cost + "."
	}
	return g
}

// askedFor says what became of each replica that was asked for.
func (p *Pool) askedFor() markdown.Table {
	g := markdown.Table{
		Title: "What became of replicas asked for",
		Note: "Times are medians (90th percentile): from when the need could be seen, in demand or in a decision, to the ask, and from the ask on. " +
			"The queue is the most requests that waited from the ask until the replica was ready.",
		Head: []string{">asked for", ">came", ">withdrawn", ">nobody obeyed", ">need seen until asked", ">until ready", ">until demand took them", ">queue meanwhile", ">ready in time", ">too late", ">not needed",
			">actions taken back in an hour", ">in the lead time"},
	}
	d := &p.Decisions
	if a := &d.Asks; a.Replicas > 0 {
		queue := unknown
		if a.QueueMeanwhile.Count > 0 {
			queue = fmt.Sprintf("%s (%s)", quantity(a.QueueMeanwhile.P50, ""), quantity(a.QueueMeanwhile.P90, ""))
		}
		g.Rows = [][]string{{fmt.Sprint(a.Replicas), fmt.Sprint(a.Ready), fmt.Sprint(a.Withdrawn), fmt.Sprint(a.Ignored), a.VisibleToEvent.String(), a.EventToReady.String(), a.EventToCrossing.String(), queue,
			fmt.Sprint(a.InTime), fmt.Sprint(a.Late), fmt.Sprint(a.Unneeded), fmt.Sprint(d.Thrash.WithinHour), fmt.Sprint(d.Thrash.WithinLead)}}
	}
	return g
}

// String gives the median and the 90th percentile.
func (s Spread) String() string {
	if s.Count == 0 {
		return unknown
	}
	return fmt.Sprintf("%s (%s)", lead(s.P50), lead(s.P90))
}

func (p *Pool) assumed() markdown.Table {
	g := markdown.Table{Title: "What decisions rest on", Head: []string{"assumption", ">stated", ">learned", ">used", ">off by", "last evidence", ">age", "note"}}
	for _, a := range p.Assumptions {
		confirmed := "never"
		if a.Confirmed != nil {
			confirmed = alerting.Clock(*a.Confirmed, "2 Jan 2006 15:04")
		}
		g.Rows = append(g.Rows, []string{strings.ReplaceAll(a.Name, "_", " "), quantity(a.Stated, a.Unit), quantity(a.Learned, a.Unit), quantity(a.Used, a.Unit), signed(a.Off), confirmed, a.age(), a.Note})
	}
	return g
}

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

// drifted shows the halves of the period side by side.
func (p *Pool) drifted() markdown.Table {
	g := markdown.Table{Title: "First and second half", Head: []string{"dimension", ">ahead (min)", ">error", ">bias", ">50 % held", ">90 % held", ">99 % held"}}
	both := func(x, y Number) string { return percent(x) + " → " + percent(y) }
	for _, d := range p.Drift {
		if x, y := &d.First, &d.Second; x.Outcomes > 0 && y.Outcomes > 0 {
			g.Rows = append(g.Rows, []string{resource(d.Dimension), d.Horizon, both(x.WAPE, y.WAPE), signed(x.Bias) + " → " + signed(y.Bias), both(x.Q50, y.Q50), both(x.Q90, y.Q90), both(x.Q99, y.Q99)})
		}
	}
	return g
}

func (p *Pool) scores() markdown.Table {
	g := markdown.Table{
		Title: "Every forecast of the pool's total",
		Note:  "Error is Σ|median − demand| / Σ demand (WAPE); skill is the share of the last value's error that is gone. Forecasts of classes at every horizon are in the JSON.",
		Head:  []string{"dimension", ">ahead (min)", ">mean demand", ">error", ">bias", ">skill", ">CRPS", ">80 % held", ">90 % held (95 % interval)", ">95 %", ">99 %", ">outcomes", ">missing"},
	}
	for _, a := range p.Accuracy {
		if a.Class == features.TotalClass {
			g.Rows = append(g.Rows, []string{resource(a.Dimension), ahead(a.Horizon), quantity(a.Mean, a.Unit), percent(a.WAPE), signed(a.Bias), signed(a.Skill), quantity(a.CRPS, a.Unit),
				percent(a.Q80.Share), a.Q90.String(), percent(a.Q95.Share), percent(a.Q99.Share), fmt.Sprint(a.Outcomes), fmt.Sprint(a.Missing)})
		}
	}
	return g
}

// String gives the share and its interval.
func (c Covered) String() string {
	if percent(c.Share) == unknown {
		return unknown
	}
	return fmt.Sprintf("%s (%s – %s)", percent(c.Share), percent(c.Low), percent(c.High))
}

func (p *Pool) rivals() markdown.Table {
	g := markdown.Table{Title: "Against simple forecasts", Note: "Share of their quantile loss that is gone, and how probable as much would be by chance (Diebold–Mariano).", Head: []string{"dimension"}}
	for base := range forecaster.NumBaselines {
		g.Head = append(g.Head, ">"+strings.ReplaceAll(base.String(), "_", " "))
	}
	g.Head = append(g.Head, "hardest to beat")
	for _, a := range p.headline() {
		row := []string{resource(a.Dimension)}
		for _, c := range a.Baselines {
			row = append(row, c.String())
		}
		g.Rows = append(g.Rows, append(row, strings.ReplaceAll(a.Best, "_", " ")))
	}
	return g
}

// String gives the skill and the probability.
func (a Against) String() string {
	s := signed(a.Skill)
	switch p := float64(a.P); {
	case s == unknown || math.IsNaN(p):
	case p < 0.001:
		s += " (p < 0.001)"
	default:
		s += fmt.Sprintf(" (p = %.3f)", p)
	}
	return s
}

// gaps lists when demand was not known.
func (p *Pool) gaps() markdown.Table {
	g := markdown.Table{Title: "Without telemetry", Note: "The longest periods in which demand is not known; nothing is scored in them.", Head: []string{"start", ">length"}}
	for _, x := range p.Data.Gaps {
		g.Rows = append(g.Rows, []string{day(x.Start), lasting(x.Minutes)})
	}
	if more := p.Data.GapCount - len(g.Rows); more > 0 {
		g.Note += fmt.Sprintf(" %s shorter.", count(more, "more gap"))
	}
	return g
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

// otherSettings is the table of what another setting would have cost, or only a note where none was tried.
func (p *Pool) otherSettings() markdown.Table {
	g := markdown.Table{Title: "What another setting would have cost", Note: p.OtherSettingsNote}
	if len(p.OtherSettings) > 0 {
		g.Head = []string{"setting", ">value now", ">other value", ">GPU-hours", ">saturated minutes"}
	}
	for _, x := range p.OtherSettings {
		g.Rows = append(g.Rows, []string{x.Setting, x.Now, x.Other, quantity(x.GPUHoursNow, "") + " → " + quantity(x.GPUHours, ""),
			fmt.Sprintf("%d → %d", x.SaturatedMinutesNow, x.SaturatedMinutes)})
	}
	return g
}

// classes shows the heaviest classes by tokens, and adds the others up.
func (p *Pool) classes() markdown.Table {
	g := markdown.Table{Title: "Classes", Head: []string{"class", ">requests", ">prompt tokens", ">of those cached", ">output tokens", ">tokens that came late", ">error of requests", ">90 % held"}}
	rows := map[string]*Accuracy{}
	for i := range p.Accuracy {
		a := &p.Accuracy[i]
		if old := rows[a.Class]; a.Dimension == features.DimRequests && (old == nil || far(a.Horizon) < far(old.Horizon)) {
			rows[a.Class] = a
		}
	}
	add := func(t *Total, name, late string) {
		wape, q90 := unknown, unknown
		if a := rows[t.Class]; a != nil {
			wape, q90 = percent(a.WAPE), percent(a.Q90.Share)
		}
		g.Rows = append(g.Rows, []string{name, quantity(t.Requests, ""), quantity(t.PromptTokens, ""), quantity(t.CachedTokens, ""), quantity(t.OutputTokens, ""), late, wape, q90})
	}
	if t := p.total(); t != nil {
		late := "none"
		if t.Late.Records > 0 {
			late = fmt.Sprintf("%s in %s", percent(t.Late.Share), count(int(t.Late.Records), "record"))
			g.Note = "Tokens that came later than features.revise are in these figures, and in no minute's demand."
		}
		add(t, "all", late)
	}
	var totals []Total
	for _, t := range p.Totals {
		if t.Class != features.TotalClass {
			totals = append(totals, t)
		}
	}
	slices.SortStableFunc(totals, func(a, b Total) int { return cmp.Compare(b.tokens(), a.tokens()) })
	nan := Number(math.NaN())
	rest := Total{Requests: nan, PromptTokens: nan, CachedTokens: nan, OutputTokens: nan}
	for i, t := range totals {
		if i < classesShown {
			add(&t, t.Class, percent(t.Late.Share))
			continue
		}
		rest.Requests.add(float64(t.Requests))
		rest.PromptTokens.add(float64(t.PromptTokens))
		rest.CachedTokens.add(float64(t.CachedTokens))
		rest.OutputTokens.add(float64(t.OutputTokens))
	}
	if n := len(totals) - classesShown; n > 0 {
		add(&rest, fmt.Sprintf("(%d more)", n), "")
		g.Note = strings.TrimSpace(g.Note + fmt.Sprintf(" The %d with the most tokens; %s are added up in the last row, and are in the JSON one by one.", classesShown, count(n, "other")))
	}
	return g
}
