package report

import (
	"cmp"
	_ "embed" // the templates
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	texttemplate "text/template"
	"unicode/utf8"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/markdown"
)

var (
	//go:embed templates/report.md
	text string
	//go:embed templates/report.html
	page string

	textTemplate = texttemplate.Must(texttemplate.New("report").Funcs(texttemplate.FuncMap{
		"text": markdown.Text, "inc": func(i int) int { return i + 1 }, "share": knownShare, "assumed": assumed, "resource": resource, "ahead": ahead,
		"percent": percent, "big": big, "quantity": quantity, "money": money, "minutes": minutes, "lasting": lasting, "count": count, "times": times,
		"hours": Amount.hours, "row": row,
	}).Parse(text))
	pageTemplate = template.Must(template.New("page").Parse(page))
)

// unbroken keeps percent signs with their numbers, and units whole, where lines end.
var unbroken = strings.NewReplacer(" %", "\u00a0%", "GPU-h", "GPU\u2011h", "replica-h", "replica\u2011h").Replace

// What the Markdown and the page show at most; the JSON has all.
const (
	poolsFirst    = 64 // of which the first page says what to do
	poolsDrawn    = 10 // with charts
	classesShown  = 20 // of a pool, the heaviest
	episodesShown = 10 // of a pool, the worst
)

// WriteJSON writes r as indented JSON; numbers that are not known are null.
func WriteJSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// view is a report for the templates.
type view struct {
	*Report
	Order []*Pool // those first that need a reader most
}

// poolView is one pool for the templates.
type poolView struct {
	*Report
	*Pool
}

func newView(r *Report) view { return view{r, byNeed(r)} }

// First are the pools of the first page.
func (v view) First() []*Pool { return v.Order[:min(len(v.Order), poolsFirst)] }

// More says how many other pools there are; "" without any.
func (v view) More() string {
	if n := len(v.Order) - poolsFirst; n > 0 {
		return count(n, "more pool")
	}
	return ""
}

// Title names the period.
func (v view) Title() string { return "Forewarm report, " + v.period("2 January 2006") }

// Clock names the zone of times.
func (v view) Clock() string { return v.Zone.location().String() }

// markdown executes a part of the template.
func (v view) markdown(part string, data any) (string, error) {
	var b strings.Builder
	err := textTemplate.ExecuteTemplate(&b, part, data)
	return b.String(), err
}

// parts executes several parts of the template for one pool.
func (v view) parts(p *Pool, names ...string) (out []string, err error) {
	for _, name := range names {
		part, err := v.markdown(name, poolView{v.Report, p})
		if err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	return out, nil
}

// front is the first page; with the table of pools, where there are several.
func (v view) front(table bool) (string, error) {
	out, err := v.markdown("front", v)
	if err != nil || !table {
		return out, err
	}
	pools, err := v.markdown("pools", v)
	return out + pools, err
}

// WriteMarkdown writes r for people: the summary, what to do, then a part for each pool, whose details are folded. It is written in
// one piece; the error is that of w.
func WriteMarkdown(w io.Writer, r *Report) error {
	v := newView(r)
	front, err := v.front(true)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(front)
	for _, p := range v.Order {
		parts, err := v.parts(p, "pool", "tables", "more")
		if err != nil {
			return err
		}
		b.WriteString(parts[0] + parts[1])
		if parts[2] != "" {
			b.WriteString("\n<details><summary>Details of " + template.HTMLEscapeString(p.Pool) + "</summary>\n" + parts[2] + "\n</details>\n")
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// toHTML is Markdown as HTML.
func toHTML(text string) (template.HTML, error) {
	out, err := markdown.HTML(unbroken(text), string(good), string(watch), string(act), string(noData), InTime.words(), Late.words(), Missed.words())
	return template.HTML(out), err // escaped by the Markdown package
}

// WriteHTML writes r as one page that needs nothing else: no script, no font, no picture from elsewhere. It is the Markdown
// with charts. A page of forty pools is less than 3 MB. It is written in one piece; the error is that of w.
func WriteHTML(w io.Writer, r *Report) error {
	v := newView(r)
	front, err := v.front(true)
	if err != nil {
		return err
	}
	if more := len(v.Order) - poolsDrawn; more > 0 {
		front += fmt.Sprintf("\n%d pools that need a reader least have no charts below.\n", more)
	}
	type section struct {
		Head, Tables, More template.HTML
		Charts             []figure
	}
	data := struct {
		Title string
		Front template.HTML
		Pools []section
	}{Title: v.Title()}
	if data.Front, err = toHTML(front); err != nil {
		return err
	}
	for i, p := range v.Order {
		parts, err := v.parts(p, "pool", "tables", "more")
		if err != nil {
			return err
		}
		var x section
		for j, to := range []*template.HTML{&x.Head, &x.Tables, &x.More} {
			if *to, err = toHTML(parts[j]); err != nil {
				return err
			}
		}
		if i < poolsDrawn {
			x.Charts = r.charts(p)
		}
		data.Pools = append(data.Pools, x)
	}
	var b strings.Builder
	if err := pageTemplate.Execute(&b, data); err != nil {
		return fmt.Errorf("the page of the report: %w", err)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

const mailEnd = "\nCharts and details are in the attached page.\n"

// WriteMail writes the first page for readers of mail.
func WriteMail(w io.Writer, r *Report) error {
	front, err := newView(r).front(false)
	if err != nil {
		return err
	}
	body, err := toHTML(front + mailEnd)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"></head>\n<body style=\"font-family:Arial,Helvetica,sans-serif;font-size:14px;line-height:1.5\">\n%s</body></html>\n", body)
	return err
}

// WriteText writes the first page as plain text, in lines of at most 78 characters but for names that are longer.
func WriteText(w io.Writer, r *Report) error {
	front, err := newView(r).front(false)
	if err != nil {
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(front + mailEnd) {
		wrap(&b, line)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// wrap writes a line in lines of at most 78 characters.
func wrap(b *strings.Builder, line string) {
	const most = 78
	column := 0
	for i, word := range strings.Fields(line) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > most:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
}

// words are a name without underscores.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// ahead is a horizon in words, without the unit.
func ahead(horizon string) string {
	if horizon == forecaster.HorizonWindowMax {
		return fmt.Sprintf("largest of %d–%d", forecaster.WindowFrom, forecaster.WindowTo)
	}
	return horizon
}

// words are the outcome for people.
func (o Outcome) words() string {
	if o == Missed {
		return "no warning"
	}
	return words(string(o))
}

// Warned says whether an episode was warned of.
func (e Episode) Warned() string {
	if e.Outcome == Missed {
		return e.Outcome.words()
	}
	return fmt.Sprintf("%s (%s before)", e.Outcome.words(), minutes(e.LeadMinutes))
}

// assumed is the name of an assumption in words.
func assumed(name string) string {
	switch name {
	case "kv_per_replica":
		return "KV memory"
	case "warmup_p50":
		return "start, half of them within"
	case "warmup_p90":
		return "start, 90 % of them within"
	}
	return words(name)
}

// Short says what a lack of replicas cost; "" where that is not known, or nothing.
func (v Provision) Short() string {
	if v.ShortUSD > 0 {
		return "By slo_violation_minute_usd, the missing replicas cost " + money(v.ShortUSD) + "."
	}
	return ""
}

// row is an amount as a row of a table.
func row(title string, a Amount) string {
	return fmt.Sprintf("| %s | %s | %s | %s |\n", markdown.Text(title), big(a.ReplicaHours), big(a.GPUHours), money(a.USD))
}

// ForecastError is that of the forecasts of the resource that came nearest to its capacity.
func (p *Pool) ForecastError() string {
	if a := p.main(); a != nil {
		return percent(a.WAPE)
	}
	return unknown
}

// Forecasts are those of the pool's total: of the resource that came nearest to its capacity, or of the others.
func (p *Pool) Forecasts(tightest bool) (rows []Accuracy) {
	first := p.main()
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
	slices.SortStableFunc(all, func(a, b Episode) int { return cmp.Compare(b.lacked(), a.lacked()) })
	all = all[:min(len(all), episodesShown)]
	slices.SortFunc(all, func(a, b Episode) int { return a.Start.Compare(b.Start) })
	return all
}

// Unlisted says how many saturations are not among the worst; "" without any.
func (p *Pool) Unlisted() string {
	if n := len(p.Saturation.Episodes) - episodesShown; n > 0 {
		return count(n, "smaller saturation")
	}
	return ""
}

// payer is a tenant, a feature or a model in a table.
type payer struct {
	Kind string
	CostShare
}

// Payers are the tenants, features and models that have series of their own.
func (p *Pool) Payers() (rows []payer) {
	for i, list := range [len(spendersBy)][]CostShare{p.Cost.Tenants, p.Cost.Features, p.Cost.Models} {
		for _, x := range list {
			rows = append(rows, payer{spendersBy[i], x})
		}
	}
	return rows
}

// LateNote says what tokens came too late for any minute, and which classes are not listed; "" where there is nothing to say.
func (p *Pool) LateNote() (note string) {
	if t := p.total(); t != nil && t.Late.Records > 0 {
		note = fmt.Sprintf("%s came too late to count in any minute (features.revise); with them came %s of all tokens.", count(int(t.Late.Records), "record"), percent(t.Late.Share))
	}
	if n := max(len(p.Totals)-1-classesShown, 0) + p.Data.ClassesLeftOut; n > 0 {
		note = strings.TrimSpace(note + fmt.Sprintf(" Lighter classes are not listed: %s.", big(Number(n))))
	}
	return note
}

// classRow is a class in a table.
type classRow struct {
	Total
	Name  string
	Error string // of the forecasts of its requests
	CostShare
}

// Classes are the pool and its heaviest classes by tokens.
func (p *Pool) Classes() (rows []classRow) {
	errors, nearest := map[string]string{}, map[string]int{}
	for _, a := range p.Accuracy {
		if d, ok := nearest[a.Class]; a.Dimension == features.DimRequests && (!ok || far(a.Horizon) < d) {
			errors[a.Class], nearest[a.Class] = percent(a.WAPE), far(a.Horizon)
		}
	}
	totals := slices.Clone(p.Totals)
	slices.SortStableFunc(totals, func(a, b Total) int {
		return cmp.Or(boolFirst(a.Class == features.TotalClass, b.Class == features.TotalClass), cmp.Compare(b.tokens(), a.tokens()))
	})
	for _, t := range totals[:min(len(totals), classesShown+1)] {
		row := classRow{Total: t, Name: t.Class, Error: cmp.Or(errors[t.Class], unknown), CostShare: p.Cost.of(t.Class)}
		if t.Class == features.TotalClass {
			row.Name, row.CostShare = "all", CostShare{Share: 1, UnitPrices: p.Cost.UnitPrices}
		}
		rows = append(rows, row)
	}
	return rows
}
