package backtest

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/forewarm/forewarm/internal/draw"
)

// chart is a drawing area. The vertical axis is linear from yLow to yTop; the horizontal one goes from 0 to xTop, by the
// root when small values matter most.
type chart struct {
	b                 strings.Builder
	width, height     float64
	xTop, yLow, yTop  float64
	root              bool
	left, right, base float64 // margins; base below
}

const chartTop = 12.0

func newChart(width, height, xTop, yTop float64) *chart {
	c := &chart{width: width, height: height, xTop: max(xTop, 1e-12), yTop: max(yTop, 1e-12), left: 56, right: 150, base: 34}
	fmt.Fprintf(&c.b, `<svg viewBox="0 0 %g %g" role="img">`, width, height)
	return c
}

func (c *chart) x(v float64) float64 {
	at := v / c.xTop
	if c.root {
		at = math.Sqrt(at)
	}
	return c.left + (c.width-c.left-c.right)*at
}

// y of a value; what lies above the axis is drawn at its top.
func (c *chart) y(v float64) float64 {
	return c.height - c.base - (c.height-c.base-chartTop)*(min(v, c.yTop)-c.yLow)/(c.yTop-c.yLow)
}

// axes draws both with round numbers, and says what they are.
func (c *chart) axes(xLabel, yLabel string, xTicks []float64, xText, yText func(float64) string) {
	for _, v := range draw.Ticks(c.yLow, c.yTop, 8) {
		fmt.Fprintf(&c.b, `<path class="grid" d="M%.1f %.1fH%.1f"/><text x="%.1f" y="%.1f" class="end">%s</text>`, c.left, c.y(v), c.width-c.right, c.left-6, c.y(v)+4, yText(v))
	}
	for _, v := range xTicks {
		fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" class="mid">%s</text>`, c.x(v), c.height-c.base+16, xText(v))
	}
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" class="mid axis">%s</text><text x="4" y="9" class="axis">%s</text>`,
		(c.left+c.width-c.right)/2, c.height-3, html.EscapeString(xLabel), html.EscapeString(yLabel))
}

func (c *chart) end() template.HTML {
	c.b.WriteString("</svg>")
	return template.HTML(c.b.String())
}

// hues of the rivals' lines; Forewarm and those that know the future have styles of their own.
var hues = []string{"#c2553a", "#8a6d1f", "#4f7f3a", "#1f7f86", "#7a5bb0", "#b04f8c", "#6d7178", "#a3784f"}

// How far the curves are drawn: saturated minutes, and multiples of the least cost.
const (
	shownSaturation = .05
	shownCost       = 2.2
)

// drawCurves draws cost against attainment: saturated minutes along, GPU-hours up, the names at the lines' ends.
func drawCurves(all []namedCurve) template.HTML {
	least, most := math.Inf(1), 0.0
	for _, n := range all {
		for _, p := range n.line {
			if p.saturated <= shownSaturation {
				least, most = min(least, p.hours), max(most, p.hours)
			}
		}
	}
	if most == 0 {
		return ""
	}
	c := newChart(900, 420, shownSaturation, min(most, shownCost*least)*1.02)
	c.root = true
	if c.yLow = least - .15*(c.yTop-least); most <= least {
		c.yLow = 0
	}
	c.axes("saturated minutes", "GPU-hours", []float64{0, .001, .005, .01, .02, .03, .05}, func(v float64) string { return fmt.Sprintf("%g %%", math.Round(1e4*v)/100) },
		func(v float64) string { return fmt.Sprintf("%.4g", v) })
	for _, t := range Targets {
		fmt.Fprintf(&c.b, `<path class="target" d="M%.1f %gV%.1f"/>`, c.x(t), chartTop, c.height-c.base)
	}
	hue := 0
	var labels []label
	for _, n := range all {
		style := fmt.Sprintf(`stroke="%s"`, hues[hue%len(hues)])
		switch n.name {
		case ForewarmPolicy:
			style = `stroke="#1550c8" stroke-width="3"`
		case OraclePolicy:
			style = `stroke="#111" stroke-dasharray="6 4" stroke-width="2"`
		case "perfect_forecast", "perfect_level":
			style = `stroke="#555" stroke-dasharray="2 3"`
		default:
			hue++
		}
		path, last := c.line(n.line)
		if path == "" {
			continue
		}
		fmt.Fprintf(&c.b, `<g %s fill="none"><path d="%s"/>`, style, path)
		for i, p := range n.points {
			if p.saturated <= shownSaturation && p.hours <= c.yTop {
				fmt.Fprintf(&c.b, `<circle cx="%.1f" cy="%.1f" r="2.4"><title>%s %s: %.2f %%, %.0f GPU-hours</title></circle>`,
					c.x(p.saturated), c.y(p.hours), n.name, html.EscapeString(n.knobs[i]), 100*p.saturated, p.hours)
			}
		}
		c.b.WriteString("</g>")
		labels = append(labels, label{c.y(last.hours), n.name, strings.SplitN(strings.TrimPrefix(style, `stroke="`), `"`, 2)[0]})
	}
	c.label(labels)
	return c.end()
}

// line is the path of what is shown of a curve, and its last point; "" where nothing is.
func (c *chart) line(all curve) (path string, last point) {
	for _, p := range all {
		if p.saturated > shownSaturation {
			if path != "" { // up to the edge
				last = point{shownSaturation, all.hoursAt(shownSaturation)}
				path += fmt.Sprintf("L%.1f %.1f", c.x(last.saturated), c.y(last.hours))
			}
			return path, last
		}
		if p.hours > c.yTop { // dearer than is shown
			continue
		}
		pen := "L"
		if path == "" {
			pen = "M"
		}
		path += fmt.Sprintf("%s%.1f %.1f", pen, c.x(p.saturated), c.y(p.hours))
		last = p
	}
	return path, last
}

// label is a name beside a line's end.
type label struct {
	y          float64
	text, fill string
}

// label writes names at the right, moved apart where they would overlap.
func (c *chart) label(all []label) {
	var heights []float64
	for _, l := range all {
		heights = append(heights, l.y)
	}
	for i, y := range draw.Spread(heights, 13, chartTop, c.height-c.base) {
		fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" fill="%s" class="name">%s</text>`, c.width-c.right+8, y+4, all[i].fill, html.EscapeString(all[i].text))
	}
}

// draw is demand, ready and asked-for replicas, and the headroom below.
func (t *track) draw() template.HTML {
	if t == nil || len(t.bins) == 0 {
		return ""
	}
	top := 1.0
	for _, b := range t.bins {
		top = max(top, b.need, b.asked)
	}
	c := newChart(900, 190, float64(len(t.bins)), top*1.05)
	c.base = 62
	for _, v := range draw.Ticks(0, c.yTop, 8) {
		fmt.Fprintf(&c.b, `<path class="grid" d="M%.1f %.1fH%.1f"/><text x="%.1f" y="%.1f" class="end">%.4g</text>`, c.left, c.y(v), c.width-c.right, c.left-6, c.y(v)+4, v)
	}
	for i, last := 0, -1; i < len(t.bins); i++ {
		at := t.from.UTC().Add(t.width * time.Duration(i))
		if d := at.YearDay(); d != last {
			if last >= 0 || at.Hour() == 0 {
				fmt.Fprintf(&c.b, `<path class="grid" d="M%.1f %gV%.1f"/><text x="%.1f" y="%.1f" class="axis">%s</text>`, c.x(float64(i)), chartTop, c.height-14, c.x(float64(i))+3, c.height-3, at.Format("Mon 2 Jan"))
			}
			last = d
		}
	}
	need, ready, asked := "", "", ""
	for i, b := range t.bins {
		pen := "L"
		if i == 0 {
			pen = "M"
		}
		x := c.x(float64(i) + .5)
		need += fmt.Sprintf("%s%.1f %.1f", pen, x, c.y(b.need))
		ready += fmt.Sprintf("%s%.1f %.1f", pen, x, c.y(b.ready))
		asked += fmt.Sprintf("%s%.1f %.1f", pen, x, c.y(b.asked))
	}
	fmt.Fprintf(&c.b, `<path class="need" d="%sV%.1fH%.1fZ"/><path class="asked" d="%s"/><path class="ready" d="%s"/>`, need, c.y(0), c.x(.5), asked, ready)
	// Headroom: the share of ready replicas that the largest minute of each bin leaves, below zero where it is short.
	const band = 30.0
	zero := c.height - 14 - 8
	room, short := "", ""
	for i, b := range t.bins {
		if b.ready <= 0 {
			continue
		}
		bar := func(h float64) string { return fmt.Sprintf("M%.1f %.1fv%.1f", c.x(float64(i)+.5), zero, -h*(band-8)) }
		if h := max(-.3, 1-b.need/b.ready); h >= 0 {
			room += bar(h)
		} else {
			short += bar(h)
		}
	}
	width := c.x(1) - c.x(0) + .3
	fmt.Fprintf(&c.b, `<path class="room" stroke-width="%.2f" d="%s"/><path class="short" stroke-width="%.2f" d="%s"/>`, width, room, max(width, 1.5), short)
	fmt.Fprintf(&c.b, `<path class="zero" d="M%.1f %.1fH%.1f"/>`, c.left, zero, c.width-c.right)
	x := c.width - c.right + 8
	fmt.Fprintf(&c.b, `<text x="%.1f" y="30" class="name" fill="#9a7b3c">demand</text><text x="%.1f" y="46" class="name" fill="#1550c8">ready</text><text x="%.1f" y="62" class="name" fill="#7d9be0">with warming</text><text x="%.1f" y="%.1f" class="name" fill="#4f7f3a">headroom</text>`, x, x, x, x, zero-4)
	return c.end()
}

// drawAlarms draws recall against false alarms a week, with the operating point.
func drawAlarms(a *Alarms) template.HTML {
	if a == nil || a.Onsets == 0 {
		return ""
	}
	most := 1.0
	for _, p := range a.Curve {
		most = max(most, float64(p.FalsePerWeek))
	}
	c := newChart(900, 300, most*1.02, 1.02)
	c.axes("false alarms a week", "recall", draw.Ticks(0, c.xTop, 8), func(v float64) string { return fmt.Sprintf("%.3g", v) }, func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) })
	path := ""
	for i := len(a.Curve) - 1; i >= 0; i-- {
		p := a.Curve[i]
		pen := "L"
		if path == "" {
			pen = "M"
		}
		x, y := c.x(float64(p.FalsePerWeek)), c.y(float64(p.Recall))
		path += fmt.Sprintf("%s%.1f %.1f", pen, x, y)
		fmt.Fprintf(&c.b, `<circle class="dot" cx="%.1f" cy="%.1f" r="3"><title>probability ≥ %g: recall %.0f %%, precision %s, %.2f false a week</title></circle>`,
			x, y, float64(p.Threshold), 100*float64(p.Recall), cellText(p.Precision, 100, "%.0f %%"), float64(p.FalsePerWeek))
	}
	o := a.Operating
	fmt.Fprintf(&c.b, `<path class="ready" d="%s"/><circle cx="%.1f" cy="%.1f" r="6" class="op"/><text x="%.1f" y="%.1f" class="name">%s</text>`,
		path, c.x(float64(o.FalsePerWeek)), c.y(float64(o.Recall)), c.x(float64(o.FalsePerWeek))+10, c.y(float64(o.Recall))+16, a.operating())
	return c.end()
}
