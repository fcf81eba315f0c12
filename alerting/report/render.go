package report

import (
	_ "embed" // the page
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/markdown"
)

//go:embed templates/report.html
var reportPage string

var reportTemplate = template.Must(template.New("report").Parse(reportPage))

// unbroken keeps percent signs with their numbers, and units whole, where lines end.
var unbroken = strings.NewReplacer(" %", "\u00a0%", "GPU-h", "GPU\u2011h", "replica-h", "replica\u2011h").Replace

// What the Markdown and the page show at most; the JSON has all.
const (
	poolsDrawn    = 10 // with charts, and on the page with all tables
	classesShown  = 20 // of a pool, the heaviest
	errorsShown   = 12 // of a pool
	episodesShown = 50 // saturations of a pool
)

// figure is a chart with what it says.
type figure struct {
	Title, Caption string
	SVG            template.HTML
	Wide           bool
}

// WriteJSON writes r as indented JSON; numbers that are not known are null.
func WriteJSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteMarkdown writes r for people: the summary and one table, then a part for each pool, those first that need a reader
// most. It is written in one piece; the error is that of w.
func WriteMarkdown(w io.Writer, r *Report) error {
	r = r.shown()
	order := byNeed(r)
	var b strings.Builder
	b.WriteString("# " + r.title() + "\n\n" + r.front(order))
	for _, p := range order {
		b.WriteString("\n" + p.head() + p.details(true))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteHTML writes r as one page that needs nothing else: no script, no font, no picture from elsewhere. It is the Markdown
// with charts. Of many pools and classes the page shows the heaviest and says how many are left out: a report of forty
// pools, ten of them of 10,000 classes, is less than 3 MB. It is written in one piece; the error is that of w.
func WriteHTML(w io.Writer, r *Report) error {
	r = r.shown()
	type part struct {
		Head, Tables template.HTML
		Charts       []figure
	}
	var failed error
	page := func(text string) template.HTML {
		out, err := markdown.HTML(unbroken(text), string(held), string(watch), string(act), string(noData), InTime.words(), Late.words(), Missed.words())
		if err != nil {
			failed = err
		}
		return template.HTML(out) // escaped by the Markdown package
	}
	order := byNeed(r)
	front := r.front(order)
	if more := len(order) - poolsDrawn; more > 0 {
		front += fmt.Sprintf("\n%d pools that need a reader least have no charts below; the JSON has all of them.\n", more)
	}
	var parts []part
	for i, p := range order {
		x := part{Head: page(p.head()), Tables: page(p.details(i < poolsDrawn))}
		if i < poolsDrawn {
			x.Charts = p.charts()
		}
		parts = append(parts, x)
	}
	var b strings.Builder
	err := reportTemplate.Execute(&b, map[string]any{"Title": r.title(), "Front": page(front), "Pools": parts})
	if err != nil || failed != nil {
		return fmt.Errorf("the page of the report: %w", errors.Join(err, failed))
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// title names the period that r is about.
func (r *Report) title() string {
	return "Forewarm report, " + alerting.Period(r.From, r.To, "2 January 2006")
}

// front is the summary and the table of all pools.
func (r *Report) front(order []*Pool) string {
	var b strings.Builder
	for i, s := range r.Summary {
		fmt.Fprintf(&b, "%d. %s\n", i+1, markdown.Text(s))
	}
	if len(order) == 0 {
		return b.String()
	}
	first := firstTable(order)
	first.Write(&b, 2)
	b.WriteString("\n" + legend + " " + r.times() + "\n")
	return b.String()
}

// legend says how to read the first table.
const legend = "Held: nothing saturated that was not announced in time. Watch: it saturated, alarms were false more often than not, quantiles did not hold, " +
	"telemetry or decisions were missing, or more than half of what was used was beyond need. Act: a saturation was late or missed. " +
	"Announced in time: of the saturations that came, before the lead time. Used: ready and warming up. Beyond need: ready beyond demand, reserves and the least size. " +
	"With hindsight: the least for one who knew demand."

// times says by whose clock times are.
func (r *Report) times() string {
	if zone := r.Zone.location().String(); zone != "UTC" {
		return "Times are by the clock of " + zone + "."
	}
	return "Times are UTC."
}

// head is the title of a pool's part, and what is known of the pool.
func (p *Pool) head() string {
	d := &p.Decisions
	text := fmt.Sprintf("Demand is known for %d of %d minutes; a decision stood in %d.", p.Data.Observed, p.Data.Minutes, p.Data.Decided)
	if d.Ticks > 0 {
		text += fmt.Sprintf(" Of %s (mode %s) %d scaled out, %d in, %d held; %d met a constraint, %d had stale telemetry. Advice changed %s, the number of replicas asked for %s.",
			count(d.Ticks, "decision"), d.Mode, d.ScaleOut, d.ScaleIn, d.Hold, d.Clamped, d.Stale, times(d.Events), times(d.Actions))
		text += fmt.Sprintf(" Asked for: %.1f replica-hours (peak %d); ready: %.1f (peak %d).", d.DesiredReplicaHours, d.PeakDesired, d.ReadyReplicaHours, d.PeakReady)
	}
	if n := p.Data.ClassesLeftOut; n > 0 {
		text += fmt.Sprintf(" %d more classes are too light to be reported by themselves.", n)
	}
	return "## " + markdown.Text(p.Pool) + "\n\n" + markdown.Text(text) + "\n"
}

// details are the tables of a pool, or only that of its saturations.
func (p *Pool) details(all bool) string {
	tables := []markdown.Table{p.episodes()}
	if all {
		tables = append(tables, p.causes(), p.provided(), p.askedFor(), p.paidFor(), p.payers(), p.assumed(), p.drifted(), p.scores(), p.rivals(), p.classes(), p.shape(), p.gaps(), p.otherSettings())
	}
	var b strings.Builder
	for i := range tables {
		if len(tables[i].Rows) > 0 || tables[i].Head == nil && tables[i].Note != "" {
			tables[i].Write(&b, 3)
		}
	}
	return b.String()
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
