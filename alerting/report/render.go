package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// episodesShown bounds the saturations listed per pool in the Markdown; the JSON has them all.
const episodesShown = 50

// accuracyShown bounds the forecasts listed per pool in the Markdown; the JSON has them all.
const accuracyShown = 200

// WriteJSON writes r as indented JSON; numbers that are not known are null.
func WriteJSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteMarkdown writes r for people: the summary and one table, then the details. It is written in one piece; the error is
// that of w.
func WriteMarkdown(w io.Writer, r *Report) error {
	r = r.shown()
	var b strings.Builder
	b.WriteString("# Forewarm report, " + period(r) + "\n\n")
	b.WriteString(strings.Join(r.Summary, " ") + "\n")
	if len(r.Pools) > 0 {
		firstPage(&b, r)
		explained(&b, r)
		saturations(&b, r)
		decided(&b, r)
		provided(&b, r)
		paid(&b, r)
		assumed(&b, r)
		headlines(&b, r)
		against(&b, r)
		drifted(&b, r)
		totals(&b, r)
		shapes(&b, r)
		gaps(&b, r)
		otherSettings(&b, r)
		details(&b, r)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table writes a Markdown table; columns from the second on that begin with ">" are right-aligned.
func table(b *strings.Builder, header []string, rows [][]string) {
	rule := make([]string, len(header))
	for i, h := range header {
		rule[i] = "---"
		if name, right := strings.CutPrefix(h, ">"); right {
			header[i], rule[i] = name, "---:"
		}
	}
	b.WriteString("\n")
	for _, row := range append([][]string{header, rule}, rows...) {
		b.WriteString("|")
		for _, cell := range row {
			// Names come from telemetry: they must not break the table.
			b.WriteString(" " + strings.NewReplacer("|", "\\|", "\n", " ", "*", "\\*", "<", "&lt;").Replace(cell) + " |")
		}
		b.WriteString("\n")
	}
}

// firstPage is the table for a reader in a hurry.
func firstPage(b *strings.Builder, r *Report) {
	g := firstTable(byNeed(r))
	table(b, g.Head, g.Rows)
}

// cell shows GPU-hours, or replica-hours where the GPUs of one are not known, and what they cost.
func (a Amount) cell() string {
	text := quantity(a.GPUHours, "GPU-h")
	if text == unknown {
		text = quantity(a.ReplicaHours, "replica-h")
	}
	if cost := money(a.USD); cost != unknown && text != unknown {
		text += ", " + cost
	}
	return text
}

// headlines are the pools' forecasts at the headline horizon, and of the window maximum.
func headlines(b *strings.Builder, r *Report) {
	var rows [][]string
	horizon := ""
	for i := range r.Pools {
		p := &r.Pools[i]
		lines := p.headline()
		for _, a := range p.Accuracy {
			if a.Class == features.TotalClass && a.Horizon == forecaster.HorizonWindowMax && a.Outcomes > 0 {
				lines = append(lines, a)
			}
		}
		for _, a := range lines {
			ahead := a.Horizon + " min"
			if a.Horizon == forecaster.HorizonWindowMax {
				ahead = "largest of 15–30 min"
			} else {
				horizon = a.Horizon
			}
			rows = append(rows, []string{p.Pool, resource(a.Dimension), ahead, quantity(a.Mean, a.Unit), percent(a.WAPE), signed(a.Bias),
				signed(a.Skill), a.Q90.String(), fmt.Sprint(a.Outcomes)})
		}
	}
	if horizon == "" {
		return
	}
	fmt.Fprintf(b, "\n## Forecasts of pools, %s minutes ahead\n\nError is Σ|median − demand| / Σ demand (WAPE); skill is the share of the last value's error that is gone.\n", horizon)
	table(b, []string{"pool", "demand", "ahead", ">mean", ">error", ">bias", ">skill", ">90 % quantile held (95 % interval)", ">outcomes"}, rows)
}

// against shows the pools' forecasts beside baselines, at the same horizon as the headlines.
func against(b *strings.Builder, r *Report) {
	var rows [][]string
	header := []string{"pool", "demand"}
	for base := range forecaster.NumBaselines {
		header = append(header, ">"+strings.ReplaceAll(base.String(), "_", " "))
	}
	for i := range r.Pools {
		p := &r.Pools[i]
		for _, a := range p.headline() {
			row := []string{p.Pool, resource(a.Dimension)}
			for _, c := range a.Baselines {
				row = append(row, c.String())
			}
			row = append(row, strings.ReplaceAll(a.Best, "_", " "))
			rows = append(rows, row)
		}
	}
	header = append(header, "hardest to beat")
	if len(rows) > 0 {
		b.WriteString("\n## Against baselines\n\nShare of a baseline's quantile loss that is gone, and how probable as much would be by chance (Diebold–Mariano).\n")
		table(b, header, rows)
	}
}

func saturations(b *strings.Builder, r *Report) {
	b.WriteString("\n## Saturations\n")
	var rows, episodes [][]string
	hidden := 0
	for i := range r.Pools {
		p, s := &r.Pools[i], &r.Pools[i].Saturation
		if s.KnownMinutes == 0 {
			rows = append(rows, []string{p.Pool, "not known", "", "", "", "", "", "", ""})
			continue
		}
		rows = append(rows, []string{p.Pool, fmt.Sprintf("%d of %d", s.SaturatedMinutes, s.KnownMinutes), fmt.Sprint(s.InTime),
			fmt.Sprint(s.Late), fmt.Sprint(s.Missed), fmt.Sprint(s.Averted), fmt.Sprint(s.False), fmt.Sprint(s.Open), lead(s.LeadMinutes)})
		shown := min(len(s.Episodes), episodesShown)
		hidden += len(s.Episodes) - shown
		for _, e := range s.Episodes[:shown] {
			episodes = append(episodes, []string{p.Pool, day(e.Start), fmt.Sprintf("%d min", e.Minutes), resource(e.Resource),
				percent(e.Utilisation), strings.ReplaceAll(string(e.Outcome), "_", " "), lead(e.LeadMinutes)})
		}
	}
	table(b, []string{"pool", ">saturated minutes", ">in time", ">late", ">missed", ">averted", ">false", ">open", ">median lead"}, rows)
	if len(episodes) > 0 {
		table(b, []string{"pool", named("start", r.Zone.location()), ">length", "resource", ">peak of capacity", "announced", ">lead"}, episodes)
	}
	if hidden > 0 {
		fmt.Fprintf(b, "\n%d more are in the JSON.\n", hidden)
	}
}

func decided(b *strings.Builder, r *Report) {
	b.WriteString("\n## Decisions\n")
	var rows [][]string
	for i := range r.Pools {
		p, d := &r.Pools[i], &r.Pools[i].Decisions
		if d.Ticks == 0 {
			rows = append(rows, []string{p.Pool, "no data", "", "", "", "", "", "", "", ""})
			continue
		}
		rows = append(rows, []string{p.Pool, d.Mode, fmt.Sprint(d.Events), fmt.Sprint(d.ScaleOut), fmt.Sprint(d.ScaleIn), fmt.Sprint(d.Hold),
			fmt.Sprint(d.Clamped), fmt.Sprint(d.Stale), fmt.Sprintf("%.1f (peak %d)", d.DesiredReplicaHours, d.PeakDesired),
			fmt.Sprintf("%.1f (peak %d)", d.ReadyReplicaHours, d.PeakReady)})
	}
	table(b, []string{"pool", "mode", ">events", ">ticks out", ">in", ">hold", ">clamped", ">stale", ">replica-hours asked", ">replica-hours ready"}, rows)
}

func details(b *strings.Builder, r *Report) {
	for i := range r.Pools {
		p := &r.Pools[i]
		fmt.Fprintf(b, "\n## %s, every forecast\n\nDemand is known for %d of %d minutes; a decision stood in %d.\n",
			strings.ReplaceAll(p.Pool, "\n", " "), p.Data.Observed, p.Data.Minutes, p.Data.Decided)
		if n := p.Data.ClassesLeftOut; n > 0 {
			fmt.Fprintf(b, "\n%d more classes are too light to be reported by themselves.\n", n)
		}
		if len(p.Accuracy) == 0 {
			continue
		}
		var rows [][]string
		for _, a := range p.Accuracy[:min(len(p.Accuracy), accuracyShown)] {
			class := a.Class
			if class == features.TotalClass {
				class = "all"
			}
			row := []string{class, resource(a.Dimension), ahead(a.Horizon), quantity(a.Mean, a.Unit), percent(a.WAPE), signed(a.Bias), signed(a.Skill),
				quantity(a.Pinball, a.Unit), quantity(a.CRPS, a.Unit)}
			for i := range forecaster.Centrals {
				held := Number(math.NaN())
				if i < len(a.Intervals) {
					held = a.Intervals[i].Held
				}
				row = append(row, percent(held))
			}
			rows = append(rows, append(row, percent(a.Q90.Share), percent(a.Q99.Share), fmt.Sprint(a.Outcomes), fmt.Sprint(a.Missing)))
		}
		header := []string{"class", "demand", ">ahead (min)", ">mean", ">error", ">bias", ">skill", ">pinball", ">CRPS"}
		for _, central := range forecaster.Centrals {
			header = append(header, fmt.Sprintf(">in %.0f %%", 100*central))
		}
		table(b, append(header, ">below q90", ">q99", ">outcomes", ">missing"), rows)
		if n := len(p.Accuracy) - accuracyShown; n > 0 {
			fmt.Fprintf(b, "\n%d more are in the JSON.\n", n)
		}
	}
}

// String gives the share and its interval.
func (c Covered) String() string {
	if percent(c.Share) == unknown {
		return unknown
	}
	return fmt.Sprintf("%s (%s – %s)", percent(c.Share), percent(c.Low), percent(c.High))
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
