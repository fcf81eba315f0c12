package backtest

import (
	"fmt"
	"html/template"
	"math"

	"github.com/forewarm/forewarm/internal/draw"
)

// hues is how many of the rivals' lines have a colour of their own in the page's style; Forewarm and those that know the
// future have styles of their own.
const hues = 8

// How far the curves are drawn: saturated minutes, and multiples of the least cost.
const (
	shownSaturation = .05
	shownCost       = 2.2
)

// drawCurves draws cost against attainment: saturated minutes along, by the root because small values matter most, GPU-hours
// up, the names at the lines' ends.
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
	top := min(most, shownCost*least) * 1.02
	low := least - .15*(top-least)
	if most <= least {
		low = 0
	}
	c := draw.New(900, 420, "Cost against attainment", "saturated minutes along, GPU-hours up", 0, math.Sqrt(shownSaturation), low, top)
	c.Right = 150
	c.YAxis("GPU-hours, over saturated minutes", func(v float64) string { return fmt.Sprintf("%.4g", v) })
	for _, v := range []float64{0, .001, .005, .01, .02, .03, .05} {
		c.XMark(math.Sqrt(v), fmt.Sprintf("%g %%", math.Round(1e4*v)/100))
	}
	for _, t := range Targets {
		c.Line("target", []float64{math.Sqrt(t), math.Sqrt(t)}, []float64{low, top})
	}
	hue := 0
	var names, classes []string
	var ends []float64
	for _, n := range all {
		class := fmt.Sprintf("hue%d", hue%hues)
		switch n.name {
		case ForewarmPolicy:
			class = "own"
		case OraclePolicy:
			class = "oracle"
		default:
			hue++
		}
		xs, ys := n.line.shown(top)
		if len(xs) == 0 {
			continue
		}
		c.Line("curve "+class, xs, ys)
		for i, p := range n.points {
			if p.saturated <= shownSaturation && p.hours <= top {
				c.Dot("knob "+class, math.Sqrt(p.saturated), p.hours, fmt.Sprintf("%s %s: %.2f %%, %.0f GPU-hours", n.name, n.knobs[i], 100*p.saturated, p.hours))
			}
		}
		names, classes, ends = append(names, n.name), append(classes, class), append(ends, c.Y(ys[len(ys)-1]))
	}
	for i, y := range draw.Spread(ends, 13, c.Top, c.Height-c.Base) {
		c.Text(c.Width-c.Right+8, y+4, "name "+classes[i], names[i])
	}
	return template.HTML(c.String())
}

// shown is what is drawn of a curve below a cost: roots of saturated minutes, and GPU-hours.
func (all curve) shown(top float64) (xs, ys []float64) {
	for _, p := range all {
		if p.saturated > shownSaturation {
			if len(xs) > 0 { // up to the edge
				xs, ys = append(xs, math.Sqrt(shownSaturation)), append(ys, all.hoursAt(shownSaturation))
			}
			break
		}
		if p.hours <= top {
			xs, ys = append(xs, math.Sqrt(p.saturated)), append(ys, p.hours)
		}
	}
	return xs, ys
}

// draw is demand, ready and asked-for replicas, and below the headroom: the share of ready replicas that the largest minute
// of each bin leaves, below zero where it is short.
func (t *track) draw() template.HTML {
	if t == nil || len(t.bins) == 0 {
		return ""
	}
	var xs, zero, need, ready, asked, room, short []float64
	most := 1.0
	for i, b := range t.bins {
		most = max(most, b.need, b.asked)
		free := math.NaN()
		if b.ready > 0 {
			free = max(-.3, 1-b.need/b.ready)
		}
		xs, zero = append(xs, (float64(i)+.5)*t.width.Minutes()), append(zero, 0)
		need, ready, asked = append(need, b.need), append(ready, b.ready), append(asked, b.asked)
		room, short = append(room, max(free, 0)), append(short, min(free, 0))
	}
	span := float64(len(t.bins)) * t.width.Minutes()
	c := draw.New(900, 160, "Replicas and demand", fmt.Sprintf("at most %.4g replicas", most), 0, span, 0, most*1.05)
	c.Right = 150
	c.YAxis("replicas", func(v float64) string { return fmt.Sprintf("%.4g", v) })
	c.Days(t.from.UTC())
	c.Band("need", xs, zero, need)
	c.Line("asked", xs, asked)
	c.Line("ready", xs, ready)
	for i, name := range []string{"demand", "ready", "with warming"} {
		c.Text(c.Width-c.Right+8, 30+16*float64(i), []string{"name demand", "name own", "name warming"}[i], name)
	}
	h := draw.New(900, 60, "Headroom", "share of ready replicas that the largest minute leaves", 0, span, -.3, 1)
	h.Right, h.Base, h.Top = 150, 6, 6
	h.Band("room", xs, zero, room)
	h.Band("short", xs, short, zero)
	h.Line("zero", []float64{0, span}, []float64{0, 0})
	h.Text(h.Width-h.Right+8, h.Y(0), "name headroom", "headroom")
	return template.HTML(c.String() + h.String())
}
