package report

import (
	"fmt"
	"html/template"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/draw"
	"github.com/forewarm/forewarm/internal/value"
)

const chartWidth, chartHeight = 960.0, 250.0

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

func floats(all []Number) []float64 {
	out := make([]float64, len(all))
	for i, n := range all {
		out[i] = float64(n)
	}
	return out
}

func (r *Report) loadChart(p *Pool, x *ResourceTimeline) figure {
	t := p.Timeline
	width := float64(t.Minutes)
	end := width * float64(len(x.Actual))
	top := 1.05 * value.Highest(x.Peak, x.P90, x.Capacity, x.Asked)
	title := fmt.Sprintf("Load and capacity: %s of %s", alerting.ResourceName(x.Resource), p.Pool)
	largest := "the largest minute was " + quantity(Number(value.Highest(x.Peak)), x.Unit)
	c := draw.New(chartWidth, chartHeight, title, largest, end, top)
	c.YAxis(x.Unit, value.Short)
	c.Days(t.From.In(r.Zone))
	for _, e := range p.Saturation.Episodes[:min(len(p.Saturation.Episodes), marksDrawn)] {
		at := e.Start.Sub(t.From).Minutes()
		c.Span("saturated", at, at+float64(e.Minutes), fmt.Sprintf("%s, %d min: %s (warning: %s)",
			r.Day(e.Start), e.Minutes, e.reached(""), e.Warned()))
	}
	var starts, middles []float64 // of bins, in minutes
	for i := range x.Actual {
		starts = append(starts, width*float64(i))
		middles = append(middles, width*(float64(i)+.5))
	}
	c.Band("inner", middles, floats(x.P10), floats(x.P90))
	c.Line("peak", middles, floats(x.Peak))
	c.Line("median", middles, floats(x.P50))
	c.Line("actual", middles, floats(x.Actual))
	c.Steps("asked", starts, floats(x.Asked), end)
	c.Steps("capacity", starts, floats(x.Capacity), end)
	caption := fmt.Sprintf("Black: load, means over %s (dots: the largest minute). "+
		"Blue: the forecast 15 minutes before, with the range that should hold in 80 %% of the minutes. "+
		"Red: what the ready replicas can carry; thin: those asked for. Hatched: the load was more, in whichever resource.",
		value.Count(t.Minutes, "minute"))
	if n := len(p.Saturation.Episodes); n > marksDrawn {
		caption += fmt.Sprintf(" Only the first %d of %d such times are hatched.", marksDrawn, n)
	}
	return figure{Title: title, Caption: caption, SVG: template.HTML(c.String())}
}
