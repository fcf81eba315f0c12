package report

import (
	"fmt"
	"html/template"
	"math"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/draw"
	"github.com/forewarm/forewarm/internal/value"
)

// marksDrawn bounds the marked saturations of a chart.
const marksDrawn = 200

const chartWidth, chartHeight = 960.0, 230.0

// figure is a chart with its text.
type figure struct {
	Title, Caption string
	SVG            template.HTML
}

// Charts of a pool: load and capacity of each resource with a known capacity, and replicas.
func (v poolView) Charts() (out []figure) {
	r, p, t := v.Report, v.Pool, v.Timeline
	if !v.drawn || t == nil {
		return nil
	}
	for i := range t.Resources {
		if x := &t.Resources[i]; value.Highest(x.P50, x.Peak) > 0 && (i == 0 || value.Highest(x.Capacity) > 0) {
			out = append(out, r.loadChart(p, x))
		}
	}
	if value.Highest(t.Desired, t.Ready) > 0 {
		out = append(out, r.replicaChart(p))
	}
	return out
}

// axis is the minutes of the bins' starts (at = 0) or middles (0.5).
func (t *Timeline) axis(at float64) []float64 {
	xs := make([]float64, len(t.Ready))
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
	high := value.Highest(x.Peak, x.P90, x.Capacity)
	title := fmt.Sprintf("Load and capacity: %s of %s", alerting.ResourceName(x.Resource), p.Pool)
	c := draw.New(chartWidth, chartHeight+20, title, fmt.Sprintf("the largest minute was %s", quantity(Number(value.Highest(x.Peak)), x.Unit)), 0, float64(t.Minutes*len(x.Actual)), 0, high*1.05)
	c.YAxis(x.Unit, value.Short)
	c.Days(t.From.In(r.Zone))
	r.markEpisodes(c, p)
	xs := t.axis(.5)
	c.Band("inner", xs, floats(x.P10), floats(x.P90))
	c.Line("peak", xs, floats(x.Peak))
	c.Line("median", xs, floats(x.P50))
	c.Line("actual", xs, floats(x.Actual))
	caption := fmt.Sprintf("Black: load, means over %s (dots: the largest minute). Blue: the forecast 15 minutes before, with the range that should hold in 80 %% of the minutes. Red: what the ready replicas can carry. Hatched: the load was more, in whichever resource.", value.Count(t.Minutes, "minute"))
	c.Steps("capacity", t.axis(0), floats(x.Capacity), c.X1)
	return figure{Title: title, Caption: caption, SVG: template.HTML(c.String())}
}

// markEpisodes marks the saturated times.
func (r *Report) markEpisodes(c *draw.Chart, p *Pool) {
	for _, e := range p.Saturation.Episodes[:min(len(p.Saturation.Episodes), marksDrawn)] {
		at := e.Start.Sub(p.Timeline.From).Minutes()
		c.Span("saturated", at, at+float64(e.Minutes), fmt.Sprintf("%s, %d min, %s at %s of capacity (warning: %s)", r.Day(e.Start), e.Minutes, alerting.ResourceName(e.Resource), value.Percent(e.Utilisation), e.Warned()))
	}
}

// replicaChart draws the ready, desired and needed replicas.
func (r *Report) replicaChart(p *Pool) figure {
	t := p.Timeline
	title := "Replicas of " + p.Pool
	high := min(value.Highest(t.Ready, t.Desired, t.Needed), 2*value.Highest(t.Ready, t.Desired))
	c := draw.New(chartWidth, chartHeight, title, fmt.Sprintf("at most %d ready, %d asked for, %.0f needed", p.Decisions.PeakReady, p.Decisions.PeakDesired, value.Highest(t.Needed)),
		0, float64(t.Minutes*len(t.Ready)), 0, high*1.12)
	c.YAxis("replicas", value.Short)
	c.Days(t.From.In(r.Zone))
	r.markEpisodes(c, p)
	xs := t.axis(0)
	warned := make([]float64, len(xs)) // a line at the top
	for i := range warned {
		if warned[i] = math.NaN(); t.Warned[i] {
			warned[i] = high * 1.09
		}
	}
	c.Band("needed", t.axis(.5), make([]float64, len(xs)), floats(t.Needed))
	c.Steps("ready", xs, floats(t.Ready), c.X1)
	c.Steps("desired", xs, floats(t.Desired), c.X1)
	c.Steps("alert", xs, warned, c.X1)
	return figure{Title: title, SVG: template.HTML(c.String()),
		Caption: "Blue: ready. Dashed: asked for. Grey: what the load needed, known only afterwards. Line at the top: a warning. Hatched: the load was more than the ready replicas can carry."}
}
