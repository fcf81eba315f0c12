package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/draw"
)

// marksDrawn bounds the saturations that are marked in a drawing.
const marksDrawn = 200

const (
	wideWidth, narrowWidth = 960.0, 470.0
	chartHeight            = 230.0
)

// charts are a pool's; those without data are left out.
func (p *Pool) charts() (out []figure) {
	add := func(f figure, ok bool) {
		if ok {
			out = append(out, f)
		}
	}
	if t := p.Timeline; t != nil {
		add(p.fanChart(&t.ResourceTimeline, true))
		add(p.decisionChart())
		for i := range t.Others {
			add(p.fanChart(&t.Others[i], false))
		}
		add(t.mixChart())
		add(t.percentChart("Prompt tokens served from cache", "% of prompt tokens", t.Cached))
		add(t.percentChart("Retries", "% of attempts", t.Retried))
	}
	add(p.horizonChart())
	add(p.costChart())
	return out
}

// axis is the minutes of the bins' beginnings, or of their middles.
func (t *Timeline) axis(at float64) []float64 {
	xs := make([]float64, len(t.Actual))
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

// top is the largest of what is known, 0 of nothing.
func top(lists ...[]Number) (top float64) {
	for _, list := range lists {
		for _, n := range list {
			if v := float64(n); v > top {
				top = v
			}
		}
	}
	return top
}

// mixChart stacks the tokens of classes.
func (t *Timeline) mixChart() (figure, bool) {
	sum := make([]float64, len(t.Actual))
	layers := [][]float64{slices.Clone(sum)}
	for _, l := range t.Mix {
		for i, v := range l.Values {
			sum[i] += zeroIfUnknown(float64(v))
		}
		layers = append(layers, slices.Clone(sum))
	}
	high := slices.Max(append(sum, 0))
	if high == 0 {
		return figure{}, false
	}
	title := "Mix of classes"
	c := draw.New(narrowWidth, chartHeight, title, "tokens of the heaviest classes, stacked", 0, float64(t.Minutes*len(t.Actual)), 0, high*1.05)
	c.Right = 84
	c.YAxis("tokens/s", draw.Short)
	c.Days(t.From)
	var names []string
	var middles []float64
	for i, l := range t.Mix {
		c.Band(fmt.Sprintf("area hue%d", i), t.axis(.5), layers[i], layers[i+1])
		names = append(names, l.Class)
		middles = append(middles, (layers[i][len(sum)-1]+layers[i+1][len(sum)-1])/2)
	}
	c.Names(names, middles)
	return figure{Title: title, Caption: fmt.Sprintf("Prompt and output tokens by class, means over %s; %s is all other classes.", count(t.Minutes, "minute"), features.OverflowClass), SVG: template.HTML(c.String())}, true
}

// percentChart draws shares in percent.
func (t *Timeline) percentChart(title, unit string, shares []Number) (figure, bool) {
	high := 100 * top(shares)
	if high == 0 {
		return figure{}, false
	}
	c := draw.New(narrowWidth, chartHeight, title, fmt.Sprintf("at most %s %s", draw.Short(high), unit), 0, float64(t.Minutes*len(t.Actual)), 0, high*1.05)
	c.YAxis(unit, draw.Short)
	c.Days(t.From)
	ys := floats(shares)
	for i := range ys {
		ys[i] *= 100
	}
	c.Line("line hue0", t.axis(.5), ys)
	return figure{Title: title, Caption: fmt.Sprintf("Means over %s.", count(t.Minutes, "minute")), SVG: template.HTML(c.String())}, true
}

func (p *Pool) fanChart(t *ResourceTimeline, wide bool) (figure, bool) {
	if top(t.P50, t.Peak) == 0 {
		return figure{}, false
	}
	line := p.Timeline
	width := narrowWidth
	if wide {
		width = wideWidth
	}
	high := top(t.Peak, t.P99)
	limit := top(t.Capacity)
	shown := limit > 0 && limit <= 3*high // a line far above would flatten the demand
	if shown {
		high = max(high, limit)
	}
	span := float64(line.Minutes * len(t.Actual))
	title := fmt.Sprintf("%s of %s: forecast %d minutes ahead, and what came", resource(t.Resource), p.Pool, t.Ahead)
	saturated := p.Saturation.SaturatedMinutes
	c := draw.New(width, chartHeight+20, title, fmt.Sprintf("the largest minute was %s %s; %d minutes were saturated", draw.Short(top(t.Peak)), t.Unit, saturated), 0, span, 0, high*1.05)
	c.YAxis(perSecond(t.Unit), draw.Short)
	c.Days(line.From)
	p.markEpisodes(c, line)
	xs := line.axis(.5)
	c.Band("outer", xs, floats(t.P10), floats(t.P99))
	c.Band("inner", xs, floats(t.P10), floats(t.P90))
	c.Line("peak", xs, floats(t.Peak))
	c.Line("median", xs, floats(t.P50))
	c.Line("actual", xs, floats(t.Actual))
	caption := fmt.Sprintf("Means over %s. Line: what came; dashed: the median forecast; bands: 10 to 90 %% and up to 99 %%; dots: the largest minute.", count(line.Minutes, "minute"))
	if line.Minutes == 1 {
		caption = "Line: what came; dashed: the median forecast; bands: 10 to 90 % and up to 99 %."
	}
	if shown {
		c.Steps("capacity", line.axis(0), floats(t.Capacity), float64(line.Minutes))
		caption += " Red line: what the ready replicas can take."
	} else if limit > 0 {
		caption += fmt.Sprintf(" What the ready replicas can take, %s and more, is above the picture.", draw.Short(least(t.Capacity)))
	}
	if saturated > 0 {
		caption += " Hatched: saturated, in whichever resource."
	}
	return figure{Title: title, Caption: caption, SVG: template.HTML(c.String()), Wide: wide}, true
}

func perSecond(unit string) string {
	if unit == "1/s" {
		return "per second"
	}
	return unit
}

// least is the smallest of what is known, 0 of nothing.
func least(list []Number) float64 {
	out := math.Inf(1)
	for _, n := range list {
		if v := float64(n); v < out {
			out = v
		}
	}
	if math.IsInf(out, 1) {
		return 0
	}
	return out
}

// markEpisodes marks when the pool was saturated.
func (p *Pool) markEpisodes(c *draw.Chart, t *Timeline) {
	for i, e := range p.Saturation.Episodes {
		if i == marksDrawn {
			return
		}
		at := e.Start.Sub(t.From).Minutes()
		c.Span("saturated", at, at+float64(e.Minutes), fmt.Sprintf("%s, %d min, %s at %s of capacity, %s", day(e.Start), e.Minutes, e.Resource, percent(e.Utilisation), e.Outcome))
	}
}

func (p *Pool) decisionChart() (figure, bool) {
	t := p.Timeline
	if t == nil || top(t.Desired, t.Ready) == 0 {
		return figure{}, false
	}
	title := "Replicas of " + p.Pool + ": ready, asked for, and needed in hindsight"
	high := min(top(t.Ready, t.Desired, t.Needed), 2*top(t.Ready, t.Desired))
	c := draw.New(wideWidth, chartHeight, title, fmt.Sprintf("most ready %d, most asked for %d, most needed %.0f", p.Decisions.PeakReady, p.Decisions.PeakDesired, top(t.Needed)),
		0, float64(t.Minutes*len(t.Actual)), 0, high*1.12)
	c.YAxis("replicas", draw.Short)
	c.Days(t.From)
	p.markEpisodes(c, t)
	xs, width := t.axis(0), float64(t.Minutes)
	c.Columns("needed", xs, floats(t.Needed), width)
	c.Steps("ready", xs, floats(t.Ready), width)
	c.Steps("desired", xs, floats(t.Desired), width)
	for i := 0; i < len(xs); i++ {
		from, most := i, t.Probability[i]
		for ; i < len(t.Announced) && t.Announced[i]; i++ {
			most = max(most, t.Probability[i])
		}
		if i > from {
			c.Bar("alert", xs[from], xs[i-1]+width, high*1.06, high*1.12, fmt.Sprintf("announced from %s on: probability of saturation up to %s", day(t.From.Add(minutesOf(xs[from]))), percent(most)))
		}
	}
	return figure{Title: title, Wide: true, SVG: template.HTML(c.String()),
		Caption: "Blue line: ready; dashed: asked for; grey: what demand took, known only afterwards. Marks at the top: saturation was announced. Hatched: saturated, in whichever resource."}, true
}

func minutesOf(m float64) time.Duration { return time.Duration(m) * time.Minute }

// horizonChart draws the error of the pool's totals by how far ahead.
func (p *Pool) horizonChart() (figure, bool) {
	type line struct {
		name   string
		xs, ys []float64
	}
	var lines []line
	far, high := 0.0, 0.0
	for _, a := range p.Accuracy {
		m, err := strconv.Atoi(a.Horizon)
		if err != nil || a.Class != features.TotalClass || a.Outcomes == 0 || math.IsNaN(float64(a.WAPE)) {
			continue
		}
		if len(lines) == 0 || lines[len(lines)-1].name != resource(a.Dimension) {
			lines = append(lines, line{name: resource(a.Dimension)})
		}
		l := &lines[len(lines)-1]
		l.xs, l.ys = append(l.xs, float64(m)), append(l.ys, 100*float64(a.WAPE))
		far, high = max(far, float64(m)), max(high, 100*float64(a.WAPE))
	}
	if len(lines) == 0 {
		return figure{}, false
	}
	title := "Error by how far ahead"
	description := ""
	for _, l := range lines {
		description += fmt.Sprintf("%s %.1f %% at %.0f and %.1f %% at %.0f minutes; ", l.name, l.ys[0], l.xs[0], l.ys[len(l.ys)-1], l.xs[len(l.xs)-1])
	}
	c := draw.New(narrowWidth, chartHeight, title, description, 0, far*1.02, 0, high*1.1)
	c.Right = 84
	c.YAxis("% of demand", draw.Short)
	for _, v := range lines[0].xs {
		c.XMark(v, fmt.Sprintf("%.0f", v))
	}
	var names []string
	var ends []float64
	for i, l := range lines {
		class := fmt.Sprintf("line hue%d", i%6)
		c.Line(class, l.xs, l.ys)
		for j := range l.xs {
			c.Dot(fmt.Sprintf("dot hue%d", i%6), l.xs[j], l.ys[j], fmt.Sprintf("%s, %.0f min: %.1f %%", l.name, l.xs[j], l.ys[j]))
		}
		names, ends = append(names, l.name), append(ends, l.ys[len(l.ys)-1])
	}
	c.Names(names, ends)
	return figure{Title: title, Caption: "Absolute error of the median, of the mean demand (WAPE), by minutes ahead.", SVG: template.HTML(c.String())}, true
}

// costChart draws what was provided as bars.
func (p *Pool) costChart() (figure, bool) {
	v := &p.Decisions.Provision
	bars := []struct {
		name  string
		class string
		Amount
	}{
		{"paid", "column", v.Paid}, {"ready", "column", v.Ready}, {"taken", "column", v.Needed}, {"idle", "column soft", v.Over}, {"missing", "column bad", v.Under}, {"least", "column", v.Clairvoyant},
	}
	high := 0.0
	for _, b := range bars {
		if x := float64(b.ReplicaHours); x > high {
			high = x
		}
	}
	if v.KnownMinutes == 0 || high == 0 {
		return figure{}, false
	}
	title := "What was paid, and what it was for"
	c := draw.New(narrowWidth, chartHeight, title, fmt.Sprintf("ready %s, taken by demand %s, idle %s, missing %s", v.Ready.cell(), v.Needed.cell(), v.Over.cell(), v.Under.cell()), 0, float64(len(bars)), 0, high*1.15)
	c.YAxis("replica-hours", draw.Short)
	for i, b := range bars {
		x := float64(i)
		c.Bar(b.class, x+.2, x+.8, 0, float64(b.ReplicaHours), b.name+": "+b.Amount.cell())
		c.XMark(x+.5, b.name)
		if !math.IsNaN(float64(b.ReplicaHours)) {
			c.Text(c.X(x+.5), c.Y(float64(b.ReplicaHours))-5, "mid", draw.Short(float64(b.ReplicaHours)))
		}
	}
	caption := "Paid: ready and warming up. Taken: what demand took. Idle: ready beyond demand, reserves and the least size. Least: what one who knew demand would have paid."
	if v.ShortUSD > 0 {
		caption += " Saturated minutes cost " + money(v.ShortUSD) + " beside."
	}
	return figure{Title: title, Caption: caption, SVG: template.HTML(c.String())}, true
}
