package backtest

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	text "text/template"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/draw"
	"github.com/forewarm/forewarm/internal/value"
)

//go:embed templates
var templates embed.FS

var functions = template.FuncMap{
	"base":    filepath.Base,
	"setting": func(knob string) string { return strings.ReplaceAll(knob, ",", ", ") },
	"number":  cellText,
	"percent": func(format string, x Number) string { return cellText(format+" %%", 100*x) },
	"minutes": func(x Number) string { return cellText("%.0f min", x/60) },
}

var (
	reportTemplate  = template.Must(template.New("report.html").Funcs(functions).ParseFS(templates, "templates/report.html"))
	summaryTemplate = text.Must(text.New("summary.txt").Funcs(functions).ParseFS(templates, "templates/summary.txt"))
)

// cellText formats a number, – if unknown or not reached.
func cellText(format string, x Number) string {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return "–"
	}
	return fmt.Sprintf(format, x)
}

// WriteText writes the summary for a terminal: the scores of the pool, its alarms and policies.
func (s *Summary) WriteText(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	return errors.Join(summaryTemplate.Execute(columns, s), columns.Flush())
}

type page struct {
	*Summary
	Title, Scored, Sizing string
	Shown                 []shownPolicy // the tuned or the default setting of each policy
	Recorded, Own         *Result       // if the replicas were recorded
	Forecast              template.HTML
}

type shownPolicy struct {
	Result
	Track template.HTML
}

// writeReport writes a self-contained, printable page without scripts.
func (r *runner) writeReport(path string, s *Summary) error {
	const layout = "2006-01-02 15:04"
	warmup := func(p float64) time.Duration { return r.pool.Warmup.Quantile(p).Round(time.Second) }
	p := page{
		Summary: s, Title: filepath.Base(r.cfg.Trace), Sizing: fmt.Sprintf("%s, warm-up p50 %s, p90 %s", r.sizing, warmup(.5), warmup(.9)),
		Scored: fmt.Sprintf("%s to %s UTC", r.scores.from.UTC().Format(layout), r.until.UTC().Format(layout)),
	}
	if r.cfg.Recorded != nil {
		p.Title = "pool " + r.cfg.Options.Pool
	}
	for i, settings := range r.policies {
		shown := func(c *contender) bool { return c.isDefault }
		if len(s.Comparisons) > 0 { // the setting that is tuned for the first target
			shown = func(c *contender) bool { return c.knob == s.Comparisons[0].Costs[i].Tuned.Knob }
		}
		c := settings[slices.IndexFunc(settings, shown)]
		row := c.row()
		p.Shown = append(p.Shown, shownPolicy{row, drawTrack(c.track, r.scores.from)})
		switch row.Policy {
		case RecordedPolicy:
			p.Recorded = &row
		case ForewarmPolicy:
			p.Own = &row
		}
	}
	p.Forecast = r.plot.draw(r.demand)
	return writeFile(path, func(w io.Writer) error { return reportTemplate.Execute(w, &p) })
}

// forecastPlot draws the pool's demand and forecasts in one dimension. Each minute shows the newest forecast made at
// least plotLead minutes before, when a replica could still warm up.
type forecastPlot struct {
	dimension string
	from      time.Time
	q50, q95  []float64 // of each minute of the trace from its start; NaN without a forecast
}

// plotLead is the shortest lead of a plotted forecast.
const plotLead = 15

// newPlot plots the first dimension of the trace.
func newPlot(demand *Demand, from time.Time) *forecastPlot {
	peak, none := demand.Peak(), slices.Repeat([]float64{math.NaN()}, len(demand.Minutes))
	dimensions := []string{features.DimPrefill, features.DimDecode, features.DimRequests, features.DimKV}
	first := max(0, slices.IndexFunc(dimensions, func(d string) bool { return peak.Of(d) > 0 }))
	return &forecastPlot{dimension: dimensions[first], from: from, q50: none, q95: slices.Clone(none)}
}

// add adds the forecasts of one origin. They replace earlier forecasts of the same minutes.
func (p *forecastPlot) add(start time.Time, totals []forecaster.Forecast) {
	for i := range totals {
		f := &totals[i]
		if f.Dimension != p.dimension || f.Origin.Before(p.from) {
			continue
		}
		origin := int(f.Origin.Sub(start) / features.Minute)
		for h := plotLead; h < forecaster.Horizon && origin+h < len(p.q50); h++ {
			p.q50[origin+h], p.q95[origin+h] = f.Minute[h][forecaster.L50], f.Minute[h][forecaster.L95]
		}
	}
}

// draw returns "" without a forecast.
func (p *forecastPlot) draw(demand *Demand) template.HTML {
	first := slices.IndexFunc(p.q50, func(v float64) bool { return !math.IsNaN(v) })
	if first < 0 {
		return ""
	}
	var xs, outcomes []float64
	for m := first; m < len(p.q50); m++ {
		xs, outcomes = append(xs, float64(m-first)), append(outcomes, demand.Minutes[m].Of(p.dimension))
	}
	top := value.Highest(outcomes, p.q95[first:])
	dim, _ := features.DimensionByName(p.dimension)
	const text = "grey: what came; blue: the median forecast 15 to 30 minutes before; band: up to its 95 % quantile"
	c := draw.New(1000, 320, p.dimension+" of the pool", text, float64(len(xs)), 1.04*top)
	c.Top, c.Left = 34, 64
	c.Text(c.Left, 26, "name", p.dimension+" of the pool; "+text)
	c.YAxis(dim.Unit, value.Short)
	c.Days(demand.Start.Add(time.Duration(first) * features.Minute))
	c.Band("inner", xs, p.q50[first:], p.q95[first:])
	c.Line("actual", xs, outcomes)
	c.Line("median", xs, p.q50[first:])
	return template.HTML(c.String())
}

// trackMinute is a minute of a pool, for drawing. It is small, because a sweep has hundreds of pools.
type trackMinute struct {
	need         float32 // NaN if unknown
	ready, asked int32   // replicas; asked includes those that warm up
}

// trackBins bounds the points of a drawn track.
const trackBins = 600

// drawTrack shows the largest demand, and the mean ready replicas and sum of ready and warming replicas, in bins of whole
// minutes. It returns "" without a minute.
func drawTrack(track []trackMinute, from time.Time) template.HTML {
	if len(track) == 0 {
		return ""
	}
	width := (len(track) + trackBins - 1) / trackBins
	var xs, need, ready, asked []float64
	for bin := range slices.Chunk(track, width) {
		highest, sumReady, sumAsked, n := math.NaN(), 0, 0, float64(len(bin))
		for _, m := range bin {
			if m.need >= 0 && !(highest >= float64(m.need)) { // not below: it is NaN at first
				highest = float64(m.need)
			}
			sumReady, sumAsked = sumReady+int(m.ready), sumAsked+int(m.asked)
		}
		xs = append(xs, (float64(len(xs))+.5)*float64(width))
		need, ready, asked = append(need, highest), append(ready, float64(sumReady)/n), append(asked, float64(sumAsked)/n)
	}
	peak := max(1, value.Highest(need, asked))
	c := draw.New(900, 160, "Replicas and demand", fmt.Sprintf("at most %.4g replicas", peak), float64(len(xs)*width), peak*1.05)
	c.Right = 150
	c.YAxis("replicas", func(v float64) string { return fmt.Sprintf("%.4g", v) })
	c.Days(from.UTC())
	c.Band("need", xs, make([]float64, len(xs)), need)
	c.Line("asked", xs, asked)
	c.Line("ready", xs, ready)
	x := c.Width - c.Right + 8
	c.Text(x, 30, "name demand", "demand")
	c.Text(x, 46, "name own", "ready")
	c.Text(x, 62, "name warming", "with warming")
	return template.HTML(c.String())
}
