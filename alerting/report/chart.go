package report

import (
	"fmt"
	"html/template"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/draw"
	"github.com/forewarm/forewarm/internal/value"
)

const chartWidth, chartHeight = 960.0, 230.0

// figure is a chart with its text.
type figure struct {
	Title, Caption string
	SVG            template.HTML
}

// Charts of a pool: load and capacity of the first resource, and of each other one with a known capacity.
func (v poolView) Charts() (out []figure) {
	if !v.drawn || v.Timeline == nil {
		return nil
	}
	for i := range v.Timeline.Resources {
		if x := &v.Timeline.Resources[i]; i == 0 || value.Highest(x.Capacity) > 0 {
			out = append(out, v.Report.loadChart(v.Pool, x))
		}
	}
	return out
}

// axis is the minutes of the starts (at = 0) or middles (0.5) of a number of bins.
func (t *Timeline) axis(bins int, at float64) []float64 {
	xs := make([]float64, bins)
	for i := range xs {
		xs[i] = (float64(i) + at) * float64(t.Minutes)
	}
	return xs
}

func floats(all []Number) []float64 {
	out := make([]float64, len(all))
	for i, n := range all {
		out[i] = float64(n)
	}
	return out
}

// loadChart draws load, its forecast, and capacity.
func (r *Report) loadChart(p *Pool, x *ResourceTimeline) figure {
	t := p.Timeline
	high := value.Highest(x.Peak, x.P90, x.Capacity, x.Asked)
	title := fmt.Sprintf("Load and capacity: %s of %s", alerting.ResourceName(x.Resource), p.Pool)
	c := draw.New(chartWidth, chartHeight+20, title, fmt.Sprintf("the largest minute was %s", quantity(Number(value.Highest(x.Peak)), x.Unit)), 0, float64(t.Minutes*len(x.Actual)), 0, high*1.05)
	c.YAxis(x.Unit, value.Short)
	c.Days(t.From.In(r.Zone))
	for _, e := range p.Saturation.Episodes[:min(len(p.Saturation.Episodes), marksDrawn)] {
		at := e.Start.Sub(t.From).Minutes()
		c.Span("saturated", at, at+float64(e.Minutes), fmt.Sprintf("%s, %d min, %s at %s of capacity (warning: %s)", r.Day(e.Start), e.Minutes, alerting.ResourceName(e.Resource), value.Percent(e.Utilisation), e.Warned()))
	}
	xs, starts := t.axis(len(x.Actual), .5), t.axis(len(x.Actual), 0)
	c.Band("inner", xs, floats(x.P10), floats(x.P90))
	c.Line("peak", xs, floats(x.Peak))
	c.Line("median", xs, floats(x.P50))
	c.Line("actual", xs, floats(x.Actual))
	c.Steps("asked", starts, floats(x.Asked), c.X1)
	c.Steps("capacity", starts, floats(x.Capacity), c.X1)
	caption := fmt.Sprintf("Black: load, means over %s (dots: the largest minute). Blue: the forecast 15 minutes before, with the range that should hold in 80 %% of the minutes. Red: what the ready replicas can carry; thin: those asked for. Hatched: the load was more, in whichever resource.", value.Count(t.Minutes, "minute"))
	if n := len(p.Saturation.Episodes); n > marksDrawn {
		caption += fmt.Sprintf(" Only the first %d of %d such times are hatched.", marksDrawn, n)
	}
	return figure{Title: title, Caption: caption, SVG: template.HTML(c.String())}
}
