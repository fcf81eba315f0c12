// Package draw makes small charts as SVG: axes with round numbers, lines, bands, steps and marks.
//
// It is pure. Coordinates are SVG user units, of which a chart is some hundreds wide; values that are not known (NaN) lift
// the pen. All text is escaped. Colours are classes, for the page's style sheet to name.
package draw

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"time"
)

// Chart is a drawing area with linear axes.
type Chart struct {
	b             strings.Builder
	Width, Height float64

	Left, Right, Top, Base float64 // margins
	X0, X1, Y0, Y1         float64 // values at the edges
}

// New begins a chart with the title and description that stand for it where it cannot be seen. Ranges without extent get
// one.
func New(width, height float64, title, description string, x0, x1, y0, y1 float64) *Chart {
	if !(x1 > x0) {
		x1 = x0 + 1
	}
	if !(y1 > y0) {
		y1 = y0 + 1
	}
	c := &Chart{Width: width, Height: height, Left: 52, Right: 18, Top: 20, Base: 24, X0: x0, X1: x1, Y0: y0, Y1: y1}
	fmt.Fprintf(&c.b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s"><title>%s</title><desc>%s</desc>`,
		width, height, html.EscapeString(title+": "+description), html.EscapeString(title), html.EscapeString(description))
	return c
}

// X places a value on the horizontal axis.
func (c *Chart) X(v float64) float64 {
	return c.Left + (c.Width-c.Left-c.Right)*(v-c.X0)/(c.X1-c.X0)
}

// Y places a value on the vertical axis; what lies beyond its ends is drawn there.
func (c *Chart) Y(v float64) float64 {
	return c.Height - c.Base - (c.Height-c.Base-c.Top)*(min(max(v, c.Y0), c.Y1)-c.Y0)/(c.Y1-c.Y0)
}

// YAxis draws a line at each round value, named by label, and what they are.
func (c *Chart) YAxis(name string, label func(float64) string) {
	for _, v := range Ticks(c.Y0, c.Y1, 5) {
		fmt.Fprintf(&c.b, `<path class="grid" d="M%.1f %.1fH%.1f"/>`, c.Left, c.Y(v), c.Width-c.Right)
		c.Text(c.Left-6, c.Y(v)+3.5, "end", label(v))
	}
	c.Text(2, 11, "axis", name)
}

// XMark draws the name of a value below the axis.
func (c *Chart) XMark(v float64, label string) {
	c.Text(c.X(v), c.Height-c.Base+14, "mid", label)
}

// Days marks the days, or the hours of a short span, of a horizontal axis in minutes from a time on.
func (c *Chart) Days(from time.Time) {
	span := time.Duration(c.X1-c.X0) * time.Minute
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
	// What clocks show is counted as if it were UTC, which has no jumps.
	_, ahead := from.Zone()
	for shown := from.UTC().Add(time.Duration(ahead) * time.Second).Truncate(step); ; shown = shown.Add(step) {
		t := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), 0, 0, from.Location())
		v := c.X0 + t.Sub(from).Minutes()
		if v > c.X1 {
			return
		}
		if v < c.X0 || t.Format(layout) != shown.Format(layout) { // clocks jump over it
			continue
		}
		fmt.Fprintf(&c.b, `<path class="grid" d="M%.1f %.1fV%.1f"/>`, c.X(v), c.Top, c.Height-c.Base+4)
		if c.X(v) < c.Width-c.Right-30 {
			c.Text(c.X(v)+3, c.Height-c.Base+14, "axis", t.Format(layout))
		}
	}
}

// Text writes at a place, in a class: "", "mid" or "end" for its anchor, and others.
func (c *Chart) Text(x, y float64, class, text string) {
	if text != "" {
		fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, html.EscapeString(class), html.EscapeString(text))
	}
}

// Line joins the values at each x.
func (c *Chart) Line(class string, xs, ys []float64) {
	var p Path
	for i, x := range xs {
		p.To(c.X(x), c.Y(ys[i]))
	}
	c.path(class, p.String())
}

// Steps holds each value for width from its x on.
func (c *Chart) Steps(class string, xs, ys []float64, width float64) {
	var p Path
	for i, x := range xs {
		p.To(c.X(x), c.Y(ys[i]))
		p.To(c.X(x+width), c.Y(ys[i]))
	}
	c.path(class, p.String())
}

// Band fills what is between low and high, wherever both are known.
func (c *Chart) Band(class string, xs, low, high []float64) {
	var p Path
	for i := 0; i < len(xs); {
		if math.IsNaN(low[i] + high[i]) {
			i++
			continue
		}
		end := i
		for end < len(xs) && !math.IsNaN(low[end]+high[end]) {
			end++
		}
		for j := i; j < end; j++ {
			p.To(c.X(xs[j]), c.Y(high[j]))
		}
		for j := end - 1; j >= i; j-- {
			p.To(c.X(xs[j]), c.Y(low[j]))
		}
		p.Close()
		i = end
	}
	c.path(class, p.String())
}

// Span marks what is between two x over the whole height, at least a hair wide.
func (c *Chart) Span(class string, from, to float64, title string) {
	x := c.X(max(from, c.X0))
	c.rect(class, x, c.Top, max(c.X(min(to, c.X1))-x, 1.5), c.Height-c.Base-c.Top, title)
}

// Columns fills a column of each value that is known, from x on for width.
func (c *Chart) Columns(class string, xs, ys []float64, width float64) {
	var b strings.Builder
	for i, x := range xs {
		if !math.IsNaN(ys[i]) && c.Y(ys[i]) < c.Y(0) {
			fmt.Fprintf(&b, "M%.1f %.1fV%.1fH%.1fV%.1fZ", c.X(x), c.Y(0), c.Y(ys[i]), c.X(x+width), c.Y(0))
		}
	}
	c.path(class, b.String())
}

// Bar fills a column from the axis, or from low, to high.
func (c *Chart) Bar(class string, from, to, low, high float64, title string) {
	if math.IsNaN(low + high) {
		return
	}
	c.rect(class, c.X(from), c.Y(high), c.X(to)-c.X(from), max(c.Y(low)-c.Y(high), 0), title)
}

func (c *Chart) rect(class string, x, y, width, height float64, title string) {
	fmt.Fprintf(&c.b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f">`, class, x, y, width, height)
	if title != "" {
		c.b.WriteString("<title>" + html.EscapeString(title) + "</title>")
	}
	c.b.WriteString("</rect>")
}

// Dot marks a value.
func (c *Chart) Dot(class string, x, y float64, title string) {
	if !math.IsNaN(x + y) {
		fmt.Fprintf(&c.b, `<circle class="%s" cx="%.1f" cy="%.1f" r="3"><title>%s</title></circle>`, class, c.X(x), c.Y(y), html.EscapeString(title))
	}
}

func (c *Chart) path(class, d string) {
	if d != "" {
		fmt.Fprintf(&c.b, `<path class="%s" d="%s"/>`, class, d)
	}
}

// String ends the chart.
func (c *Chart) String() string { return c.b.String() + "</svg>" }

// Path builds the data of a path, in user units.
type Path struct {
	b    strings.Builder
	down bool
}

// To draws a line to a point, or begins there; it lifts the pen where y is not known.
func (p *Path) To(x, y float64) {
	switch {
	case math.IsNaN(y):
		p.Lift()
		return
	case p.down:
		p.b.WriteByte('L')
	default:
		p.b.WriteByte('M')
		p.down = true
	}
	p.b.WriteString(strconv.FormatFloat(x, 'f', 1, 64) + " " + strconv.FormatFloat(y, 'f', 1, 64))
}

// Lift has the next point begin a line.
func (p *Path) Lift() { p.down = false }

// Close joins the last point with the first, and lifts the pen.
func (p *Path) Close() {
	p.b.WriteByte('Z')
	p.Lift()
}

// String is what was drawn.
func (p *Path) String() string { return p.b.String() }

// Ticks are up to most and at least two round numbers within [low, high]: multiples of 1, 2 or 5 times a power of ten.
func Ticks(low, high float64, most int) (at []float64) {
	if !(high > low) || math.IsInf(high-low, 0) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(most))))
	for _, f := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*f) <= float64(most) {
			step *= f
			break
		}
	}
	for i := math.Ceil(low/step - 1e-9); i*step <= high+1e-9*step; i++ {
		at = append(at, i*step+0)
	}
	return at
}
