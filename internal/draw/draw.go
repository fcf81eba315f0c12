// Package draw makes small charts as SVG: axes with round numbers, lines, bands, steps and marks.
//
// It is pure. Coordinates are SVG user units; a chart is some hundreds wide. Unknown values (NaN) interrupt a line. All
// text is escaped. Colours are classes of the page's style sheet.
package draw

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"
)

// Chart is a drawing area with linear axes that begin at 0.
type Chart struct {
	b             strings.Builder
	Width, Height float64

	Left, Right, Top, Base float64 // margins
	MaxX, MaxY             float64 // values at the ends of the axes
}

// New begins a chart. Screen readers read its title and description. An axis without an end above 0 ends at 1.
func New(width, height float64, title, description string, maxX, maxY float64) *Chart {
	if !(maxX > 0) {
		maxX = 1
	}
	if !(maxY > 0) {
		maxY = 1
	}
	c := &Chart{Width: width, Height: height, Left: 52, Right: 18, Top: 20, Base: 24, MaxX: maxX, MaxY: maxY}
	fmt.Fprintf(&c.b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s"><title>%s</title><desc>%s</desc>`,
		width, height, html.EscapeString(title+": "+description), html.EscapeString(title), html.EscapeString(description))
	return c
}

// X places a value on the horizontal axis.
func (c *Chart) X(v float64) float64 {
	return c.Left + (c.Width-c.Left-c.Right)*v/c.MaxX
}

// Y places a value on the vertical axis. Values beyond its ends are drawn at the ends.
func (c *Chart) Y(v float64) float64 {
	return c.Height - c.Base - (c.Height-c.Base-c.Top)*min(max(v, 0), c.MaxY)/c.MaxY
}

// YAxis draws a line with a label at each round value, and the name of the axis.
func (c *Chart) YAxis(name string, label func(float64) string) {
	for _, v := range ticks(c.MaxY) {
		fmt.Fprintf(&c.b, `<path class="grid" d="M%.1f %.1fH%.1f"/>`, c.Left, c.Y(v), c.Width-c.Right)
		c.Text(c.Left-6, c.Y(v)+3.5, "end", label(v))
	}
	c.Text(2, 11, "axis", name)
}

// Days draws lines with labels at round local times: days, or hours and minutes in a short span. The horizontal axis has
// minutes since from.
func (c *Chart) Days(from time.Time) {
	span := time.Duration(c.MaxX) * time.Minute
	step, layout := 24*time.Hour, "Mon 2 Jan"
	switch {
	case span <= time.Hour:
		step, layout = 10*time.Minute, "15:04"
	case span <= 8*time.Hour:
		step, layout = time.Hour, "15:04"
	case span <= 48*time.Hour:
		step, layout = 6*time.Hour, "Mon 15:04"
	case span > 21*24*time.Hour:
		step, layout = 7*24*time.Hour, "2 Jan"
	case span > 10*24*time.Hour:
		step, layout = 48*time.Hour, "2 Jan"
	case c.X(24*60)-c.X(0) < 60: // no room for the weekday
		layout = "2 Jan"
	}
	// Count local times as if they were UTC, which has no jumps.
	_, ahead := from.Zone()
	for shown := from.UTC().Add(time.Duration(ahead) * time.Second).Truncate(step); ; shown = shown.Add(step) {
		t := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), 0, 0, from.Location())
		v := t.Sub(from).Minutes()
		if v > c.MaxX {
			return
		}
		if v < 0 || t.Format(layout) != shown.Format(layout) { // before the chart, or skipped by the local clock
			continue
		}
		fmt.Fprintf(&c.b, `<path class="grid" d="M%.1f %.1fV%.1f"/>`, c.X(v), c.Top, c.Height-c.Base+4)
		if c.X(v) < c.Width-c.Right-30 {
			c.Text(c.X(v)+3, c.Height-c.Base+14, "axis", t.Format(layout))
		}
	}
}

// Text writes text of a class at a place; the classes "mid" and "end" set the anchor.
func (c *Chart) Text(x, y float64, class, text string) {
	if text != "" {
		fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, html.EscapeString(text))
	}
}

// Line joins the values at each x.
func (c *Chart) Line(class string, xs, ys []float64) { c.path(class, c.points(xs, ys)) }

// Steps draws each value from its x to the next one, and the last value to end.
func (c *Chart) Steps(class string, xs, ys []float64, end float64) {
	var corners, values []float64
	for i, next := range append(slices.Clone(xs), end)[1:] {
		corners, values = append(corners, xs[i], next), append(values, ys[i], ys[i])
	}
	c.Line(class, corners, values)
}

// Band fills the area between low and high where both are known.
func (c *Chart) Band(class string, xs, low, high []float64) {
	var d strings.Builder
	for i := 0; i < len(xs); i++ {
		end := i
		for end < len(xs) && !math.IsNaN(low[end]+high[end]) {
			end++
		}
		if end == i {
			continue
		}
		around, edge := slices.Concat(xs[i:end], xs[i:end]), slices.Concat(high[i:end], low[i:end])
		slices.Reverse(around[end-i:]) // back along the low values
		slices.Reverse(edge[end-i:])
		d.WriteString(c.points(around, edge) + "Z")
		i = end
	}
	c.path(class, d.String())
}

// points returns the data of a path through values. It begins again after an unknown value.
func (c *Chart) points(xs, ys []float64) string {
	var d strings.Builder
	command := 'M' // move
	for i, x := range xs {
		if math.IsNaN(ys[i]) {
			command = 'M'
			continue
		}
		fmt.Fprintf(&d, "%c%.1f %.1f", command, c.X(x), c.Y(ys[i]))
		command = 'L' // line
	}
	return d.String()
}

// Span fills the whole height between two x; it is at least 1.5 units wide.
func (c *Chart) Span(class string, from, to float64, title string) {
	x := c.X(max(from, 0))
	fmt.Fprintf(&c.b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
		class, x, c.Top, max(c.X(min(to, c.MaxX))-x, 1.5), c.Height-c.Base-c.Top, html.EscapeString(title))
}

// Dot marks a value.
func (c *Chart) Dot(class string, x, y float64, title string) {
	if !math.IsNaN(x + y) {
		fmt.Fprintf(&c.b, `<circle class="%s" cx="%.1f" cy="%.1f" r="3"><title>%s</title></circle>`,
			class, c.X(x), c.Y(y), html.EscapeString(title))
	}
}

func (c *Chart) path(class, d string) {
	if d != "" {
		fmt.Fprintf(&c.b, `<path class="%s" d="%s"/>`, class, d)
	}
}

// String ends the chart.
func (c *Chart) String() string { return c.b.String() + "</svg>" }

// ticks returns three to six round numbers from 0 to most: multiples of 1, 2 or 5 times a power of ten.
func ticks(most float64) (at []float64) {
	if math.IsInf(most, 0) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(most/5)))
	for _, f := range []float64{1, 2, 5, 10} {
		if most/(step*f) <= 5 {
			step *= f
			break
		}
	}
	for i := 0.; i*step <= most+1e-9*step; i++ {
		at = append(at, i*step)
	}
	return at
}
