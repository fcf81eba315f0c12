package server

import (
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/draw"
	"github.com/forewarm/forewarm/internal/value"
)

// The drawings, in SVG user units.
const (
	wideWidth, wideHeight = 940.0, 300.0
	lowHeight             = 130.0
	halfWidth, halfHeight = 460.0, 190.0
)

// highestLimit is the largest factor of capacity over load that is drawn: a higher capacity would flatten the load.
const highestLimit = 3

type figure struct {
	Title  string
	SVG    template.HTML
	Legend []key
	Note   string
}

// key is a legend entry for a class of the style sheet: a box for areas, else a line.
type key struct {
	Class, Name string
	Filled      bool
}

// timeAxis is an empty chart of a span of time. Positions on its axis are minutes since from.
func timeAxis(title, description, unit string, width, height float64, from, to time.Time, top float64) *draw.Chart {
	c := draw.New(width, height, title, description, to.Sub(from).Minutes(), top)
	c.YAxis(unit, value.Short)
	c.Days(from)
	return c
}

// axis is an empty chart of the span of a timeline.
func (t *timelineJSON) axis(title, unit string, height, top float64) *draw.Chart {
	description := "of pool " + t.Pool + "; the table below has the numbers"
	return timeAxis(title, description, unit, wideWidth, height, t.From, t.To, top)
}

// loadChart draws load and capacity from the answer of /timeline.
func loadChart(t *timelineJSON) *figure {
	load := columnOf(t.Actual, func(x *pointJSON) float64 { return float64(x.Value) })
	ahead := columnOf(t.Forecast, func(x *bandJSON) float64 { return x.At.Sub(t.From).Minutes() + .5 })
	p90 := columnOf(t.Forecast, func(x *bandJSON) float64 { return float64(x.P90) })
	p95 := columnOf(t.Forecast, func(x *bandJSON) float64 { return float64(x.P95) })
	limits := columnOf(t.Steps, func(x *stepJSON) float64 { return float64(x.Capacity) })
	out := &figure{
		Title: dimensionName(t.Resource) + ": load and capacity, " + t.Unit,
		Legend: []key{
			{"actual", "load", false},
			{"median", "forecast", false},
			{"inner", "8 of 10 outcomes lie in it", true},
			{"outer", "19 of 20 lie below its top", true},
		},
	}
	top, shown := value.Highest(load, p95), value.Highest(limits)
	if shown > top*highestLimit && top > 0 {
		out.Note, limits = "The capacity ("+value.Short(shown)+" "+t.Unit+") is above the picture.", nil
	} else {
		top = max(top, shown)
	}
	c := t.axis(out.Title, t.Unit, wideHeight, 1.08*top)
	now := t.At.Sub(t.From).Minutes()
	if t.Decision != nil {
		c.Span("warmup", now, now+t.Decision.LeadTime/60, "a replica asked for at the start of this span is ready at its end")
		out.Legend = append(out.Legend, key{"warmup", "a new replica warms up", true})
	}
	c.Band("outer", ahead, p90, p95)
	c.Band("inner", ahead, columnOf(t.Forecast, func(x *bandJSON) float64 { return float64(x.P10) }), p90)
	c.Line("median", ahead, columnOf(t.Forecast, func(x *bandJSON) float64 { return float64(x.P50) }))
	c.Line("actual", columnOf(t.Actual, func(x *pointJSON) float64 { return x.At.Sub(t.From).Minutes() + .5 }), load)
	if limits != nil {
		drawSteps(c, t, "limit", limits)
		out.Legend = append(out.Legend, key{"limit", "capacity of ready replicas", false})
		if t.known() < len(t.Steps) {
			out.Legend = append(out.Legend, key{"limit later", "with those that are starting", false})
		}
	}
	if value.Highest(load) == 0 && !slices.Contains(load, 0) {
		out.Note = strings.TrimSpace(out.Note + " No load of this time is in the history.")
	}
	c.Line("now", []float64{now, now}, []float64{0, 1.08 * top})
	for _, x := range t.Marks { // along the upper edge
		c.Dot("mark "+x.Kind, x.At.Sub(t.From).Minutes(), 1.04*top, x.At.Format("15:04")+" "+x.Text)
	}
	if len(t.Marks) > 0 {
		out.Legend = append(out.Legend, key{"mark scale_out", "decision", false}, key{"mark page", "alert", false})
	}
	out.SVG = template.HTML(c.String()) // escaped there
	return out
}

// known is how many steps are not ahead; these are the first ones.
func (t *timelineJSON) known() int {
	if n := slices.IndexFunc(t.Steps, func(x stepJSON) bool { return x.Ahead }); n >= 0 {
		return n
	}
	return len(t.Steps)
}

// drawSteps draws each value until the next one.
func drawSteps(c *draw.Chart, t *timelineJSON, class string, values []float64) {
	at, n := columnOf(t.Steps, func(x *stepJSON) float64 { return x.At.Sub(t.From).Minutes() }), t.known()
	end := min(t.Newest.Sub(t.From).Minutes(), c.MaxX)
	if n > 0 && n < len(at) {
		end = at[n]
		c.Line(class+" later", []float64{end, end}, values[n-1:n+1])
	}
	c.Steps(class, at[:n], values[:n], end)
	c.Steps(class+" later", at[n:], values[n:], c.MaxX)
}

// replicaChart draws ready replicas, starting ones on top of them, and the requested number.
func replicaChart(t *timelineJSON) *figure {
	if len(t.Steps) == 0 {
		return nil
	}
	all := columnOf(t.Steps, func(x *stepJSON) float64 { return float64(x.Ready + x.Pending) })
	asked := columnOf(t.Steps, func(x *stepJSON) float64 { return float64(x.Desired) })
	out := &figure{
		Title:  "Replicas",
		Legend: []key{{"actual", "ready", false}, {"starting", "with those that are starting", false}, {"asked", "asked for", false}},
	}
	c := t.axis(out.Title, "replicas", lowHeight, 1.15*value.Highest(all, asked))
	drawSteps(c, t, "asked", asked)
	drawSteps(c, t, "starting", all)
	drawSteps(c, t, "actual", columnOf(t.Steps, func(x *stepJSON) float64 { return float64(x.Ready) }))
	out.SVG = template.HTML(c.String())
	return out
}

// lineChart draws stored series of one unit.
func lineChart(title, unit string, from, to time.Time, series []seriesJSON) *figure {
	out := &figure{Title: title}
	xs, ys := make([][]float64, len(series)), make([][]float64, len(series))
	for i, x := range series {
		xs[i] = columnOf(x.Points, func(p *pointJSON) float64 { return p.At.Sub(from).Minutes() + classBin/2 })
		ys[i] = columnOf(x.Points, func(p *pointJSON) float64 { return float64(p.Value) })
	}
	top := value.Highest(ys...)
	if top == 0 {
		return nil
	}
	c := timeAxis(title, "the last hours", unit, halfWidth, halfHeight, from, to, 1.08*top)
	for i, x := range series {
		class := "line hue" + strconv.Itoa(i)
		c.Line(class, xs[i], ys[i])
		out.Legend = append(out.Legend, key{class, x.Label, false})
	}
	out.SVG = template.HTML(c.String())
	return out
}

// counted is what a dimension is about, if its name does not say so.
var counted = map[string]string{
	features.DimPrefill: " (prompt tokens to compute)",
	features.DimDecode:  " (output tokens)",
	features.DimKV:      " (active tokens)",
}

func dimensionName(dimension string) string {
	name := alerting.ResourceName(dimension)
	return strings.ToUpper(name[:1]) + name[1:] + counted[dimension]
}
