package report

import (
	"cmp"
	_ "embed" // the templates
	"fmt"
	"slices"
	"strings"
	"text/template"

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

	document = markdown.New(text, page, template.FuncMap{
		"class": features.ClassName, "resource": alerting.ResourceName, "ahead": horizonText,
		"big": value.Large, "money": value.Dollars, "percent": value.Percent, "minutes": value.Minutes,
		"quantity": quantity, "hours": Amount.hours,
		"inc":     func(i int) int { return i + 1 },
		"lasting": func(minutes int) string { return value.Minutes(Number(minutes)) },
		"share":   func(part, whole int) string { return value.Percent(Number(part) / Number(whole)) },
		"times":   func(n int) string { return value.Count(n, "time") },
	}, "in time", "late", "no warning")
)

// Bounds of the Markdown and the page; the JSON has all.
const (
	poolsDrawn    = 10  // with charts
	marksDrawn    = 200 // saturations in a chart
	classesShown  = 20  // heaviest of a pool
	episodesShown = 10  // worst of a pool
)

// Render writes r as json (unknown numbers are null); as md: the summary, the advice, then a section for each pool with
// details that open on a click; as html: one page without external resources or scripts, with charts of the ten most
// urgent pools. A page of forty pools is less than 3 MB.
func Render(r *Report, format string) ([]byte, error) {
	v := view{Report: r}
	for i := range r.Pools {
		v.Order = append(v.Order, poolView{Report: r, Pool: &r.Pools[i]})
	}
	slices.SortStableFunc(v.Order, compareUrgency)
	for i := range min(len(v.Order), poolsDrawn) {
		v.Order[i].drawn = true
	}
	return document.Render(format, v)
}

type view struct {
	*Report
	Order []poolView `json:"-"` // most urgent first
}

type poolView struct {
	*Report
	*Pool
	drawn bool
}

func (v view) Title() string {
	return "Forewarm report, " + alerting.Period(v.From.In(v.Zone), v.To, "2 January 2006")
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
	return map[Outcome]string{InTime: "in time", Late: "late", Missed: "no warning"}[e.Outcome]
}

// Forecasts of the pool's total.
func (p *Pool) Forecasts() []Accuracy {
	return slices.DeleteFunc(slices.Clone(p.Accuracy), func(a Accuracy) bool {
		return a.Class != features.TotalClass || a.Outcomes == 0
	})
}

// Worst are the worst saturations, by time.
func (p *Pool) Worst() []Episode {
	all := slices.Clone(p.Saturation.Episodes)
	slices.SortStableFunc(all, func(a, b Episode) int { return b.compareShortfall(&a) })
	all = all[:min(len(all), episodesShown)]
	slices.SortFunc(all, func(a, b Episode) int { return a.Start.Compare(b.Start) })
	return all
}

// Classes are the pool and its heaviest classes by tokens.
func (p *Pool) Classes() []Total {
	all := slices.Clone(p.Totals)
	slices.SortStableFunc(all, func(a, b Total) int { return cmp.Compare(b.tokens(), a.tokens()) }) // the pool has most
	return all[:min(len(all), classesShown+1)]
}

// quantity shows a value with its unit: 12300 tokens/s is "12.3k tokens/s".
func quantity(n Number, unit string) string {
	switch text := value.Short(float64(n)); {
	case !n.Known():
		return text
	case unit == "1/s":
		return text + "/s"
	default:
		return strings.TrimSpace(text + " " + unit)
	}
}

// hours shows GPU-hours, or replica-hours if the GPUs of a replica are unknown, and the cost if known.
func (a Amount) hours() string {
	text := value.Large(a.GPUHours) + " GPU-hours"
	if !a.GPUHours.Known() {
		text = value.Large(a.ReplicaHours) + " replica-hours"
	}
	if a.USD.Known() {
		text += " (" + value.Dollars(a.USD) + ")"
	}
	return text
}
