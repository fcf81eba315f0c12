package report

import (
	"cmp"
	_ "embed" // the templates
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	texttemplate "text/template"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/markdown"
	"github.com/forewarm/forewarm/internal/value"
)

var (
	//go:embed templates/report.md
	text string
	//go:embed templates/report.html
	page string

	textTemplate = texttemplate.Must(texttemplate.New("report").Funcs(texttemplate.FuncMap{
		"text": markdown.Text, "inc": func(i int) int { return i + 1 }, "share": shareText, "resource": alerting.ResourceName, "ahead": horizonText,
		"percent": percent, "big": countText, "quantity": quantity, "money": money, "minutes": minutesText, "lasting": durationText, "count": count, "times": timesText,
		"hours": Amount.hours, "row": amountRow, "class": classText,
	}).Parse(text))
	pageTemplate = template.Must(template.New("page").Parse(page))
)

// unbroken keeps a number and its percent sign, and units, on one line.
var unbroken = strings.NewReplacer(" %", "\u00a0%", "GPU-h", "GPU\u2011h", "replica-h", "replica\u2011h").Replace

// Bounds of the Markdown and the page; the JSON has all.
const (
	poolsDrawn    = 10 // with charts
	classesShown  = 20 // heaviest of a pool
	episodesShown = 10 // worst of a pool
)

// WriteJSON writes r as indented JSON; unknown numbers are null.
func WriteJSON(w io.Writer, r *Report) error { return value.WriteJSON(w, r) }

// view is a report for the templates.
type view struct {
	*Report
	Order []*Pool // most urgent first
}

// poolView is one pool for the templates.
type poolView struct {
	*Report
	*Pool
}

func newView(r *Report) view { return view{r, byUrgency(r)} }

// Title names the period.
func (v view) Title() string { return "Forewarm report, " + v.period("2 January 2006") }

// WriteMarkdown writes r for people: the summary, the advice, then a section for each pool with folded details. It is
// one write; the error is that of w.
func WriteMarkdown(w io.Writer, r *Report) error {
	v := newView(r)
	out, err := markdown.Render(textTemplate, v, "front", "pools")
	for _, p := range v.Order {
		if err != nil {
			return err
		}
		var part string
		part, err = markdown.Render(textTemplate, poolView{r, p}, "pool", "tables", "folded")
		out += part
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, out)
	return err
}

// toHTML renders parts of the template as HTML.
func toHTML(data any, parts ...string) (template.HTML, error) {
	text, err := markdown.Render(textTemplate, data, parts...)
	if err != nil {
		return "", err
	}
	out, err := markdown.HTML(unbroken(text), string(good), string(watch), string(act), string(noData), "in time", "late", "no warning")
	return template.HTML(out), err // escaped by the Markdown package
}

// WriteHTML writes the Markdown as one page without external resources or scripts, with charts of the ten most urgent
// pools. A page of forty pools is less than 3 MB. It is one write; the error is that of w.
func WriteHTML(w io.Writer, r *Report) error {
	type section struct {
		Head, Tables, More template.HTML
		Charts             []figure
	}
	v := newView(r)
	var pools []section
	front, err := toHTML(v, "front", "pools")
	for i, p := range v.Order {
		var x section
		for part, to := range []*template.HTML{&x.Head, &x.Tables, &x.More} {
			if err == nil {
				*to, err = toHTML(poolView{r, p}, [...]string{"pool", "tables", "more"}[part])
			}
		}
		if i < poolsDrawn {
			x.Charts = r.charts(p)
		}
		pools = append(pools, x)
	}
	var b strings.Builder
	if err == nil {
		err = pageTemplate.Execute(&b, map[string]any{"Title": v.Title(), "Front": front, "Pools": pools})
	}
	if err != nil {
		return fmt.Errorf("the page of the report: %w", err)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// WriteMail writes the first page as HTML for mail.
func WriteMail(w io.Writer, r *Report) error {
	body, err := toHTML(newView(r), "front", "attached")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"></head>\n<body style=\"font-family:Arial,Helvetica,sans-serif;font-size:14px;line-height:1.5\">\n%s</body></html>\n", body)
	return err
}

// WriteText writes the first page as Markdown, for mail.
func WriteText(w io.Writer, r *Report) error {
	text, err := markdown.Render(textTemplate, newView(r), "front", "attached")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// horizonText is a horizon in words, without the unit.
func horizonText(horizon string) string {
	if horizon == forecaster.HorizonWindowMax {
		return fmt.Sprintf("largest of %d–%d", forecaster.WindowFrom, forecaster.WindowTo)
	}
	return horizon
}

// Warned is the outcome in words.
func (e Episode) Warned() string {
	if e.Outcome == Missed {
		return "no warning"
	}
	return strings.ReplaceAll(string(e.Outcome), "_", " ")
}

// classText names a class, or all of them.
func classText(class string) string {
	if class == features.TotalClass {
		return "all"
	}
	return class
}

// amountRow is an amount as a row of a table.
func amountRow(title string, a Amount) string {
	return fmt.Sprintf("| %s | %s | %s | %s |\n", markdown.Text(title), withOneDecimal(a.ReplicaHours), withOneDecimal(a.GPUHours), money(a.USD))
}

// ForecastError is the error of the tightest resource's forecasts.
func (p *Pool) ForecastError() string {
	if a := p.mainAccuracy(); a != nil {
		return percent(a.WAPE)
	}
	return unknown
}

// Forecasts of the pool's total: of the tightest resource, or of the others.
func (p *Pool) Forecasts(tightest bool) (rows []Accuracy) {
	first := p.mainAccuracy()
	for _, a := range p.Accuracy {
		if first != nil && a.Class == features.TotalClass && a.Outcomes > 0 && (a.Dimension == first.Dimension) == tightest {
			rows = append(rows, a)
		}
	}
	return rows
}

// Worst are the worst saturations, by time.
func (p *Pool) Worst() []Episode {
	all := slices.Clone(p.Saturation.Episodes)
	slices.SortStableFunc(all, func(a, b Episode) int { return cmp.Compare(b.shortfall(), a.shortfall()) })
	all = all[:min(len(all), episodesShown)]
	slices.SortFunc(all, func(a, b Episode) int { return a.Start.Compare(b.Start) })
	return all
}

// Unlisted is the number of saturations that are not among the worst; "" if there are none.
func (p *Pool) Unlisted() string {
	if n := len(p.Saturation.Episodes) - episodesShown; n > 0 {
		return count(n, "smaller saturation")
	}
	return ""
}

// UnlistedClasses counts the classes that are lighter than those in the table; "" if there are none.
func (p *Pool) UnlistedClasses() string {
	if n := len(p.Totals) - 1 - classesShown; n > 0 {
		return fmt.Sprintf("Lighter classes are not listed: %s.", countText(Number(n)))
	}
	return ""
}

// Classes are the pool and its heaviest classes by tokens.
func (p *Pool) Classes() []Total {
	all := slices.Clone(p.Totals)
	slices.SortStableFunc(all, func(a, b Total) int {
		return cmp.Or(totalFirst(a.Class, b.Class), cmp.Compare(b.tokens(), a.tokens()))
	})
	return all[:min(len(all), classesShown+1)]
}

// ClassError is the error of the forecasts of a class's requests.
func (p *Pool) ClassError(class string) string {
	for _, a := range p.Accuracy {
		if a.Class == class && a.Dimension == features.DimRequests && a.Horizon == headline {
			return percent(a.WAPE)
		}
	}
	return unknown
}
