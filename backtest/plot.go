package backtest

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/draw"
)

// plot draws the pool's demand for one dimension against what was forecast of it, each minute by the newest forecast
// made at least plotLead minutes before it: what was known when there was still time to warm up a replica.
type plot struct {
	dimension string
	from      time.Time
	fan       []fanPoint // ascending
}

type fanPoint struct {
	at            time.Time
	q50, q80, q95 float64
}

// plotLead is how far ahead the plotted forecasts are at the least.
const plotLead = 15

// newPlot chooses the dimension that the trace reports, when none is named.
func newPlot(dimension string, demand *Demand, from time.Time) (*plot, error) {
	peak := demand.Peak()
	if dimension == "" {
		for _, d := range []string{features.DimPrefill, features.DimDecode, features.DimRequests} {
			if peak.Of(d) > 0 {
				dimension = d
				break
			}
		}
	}
	if !(peak.Of(dimension) > 0) {
		return nil, fmt.Errorf("plot-dimension %q: the trace does not report it; use one of %s", dimension, strings.Join(loadDimensions[:], ", "))
	}
	return &plot{dimension: dimension, from: from}, nil
}

// add takes the forecasts of one origin. Later origins overwrite the minutes that they are near enough to.
func (p *plot) add(totals []forecaster.Forecast) {
	for i := range totals {
		f := &totals[i]
		if f.Dimension != p.dimension || f.Origin.Before(p.from) {
			continue
		}
		first := f.Origin.Add(plotLead * features.Minute)
		for len(p.fan) > 0 && !p.fan[len(p.fan)-1].at.Before(first) {
			p.fan = p.fan[:len(p.fan)-1]
		}
		for h := plotLead; h < forecaster.Horizon; h++ {
			q := &f.Minute[h]
			p.fan = append(p.fan, fanPoint{f.Origin.Add(time.Duration(h) * features.Minute), q[forecaster.L50], q[forecaster.L80], q[forecaster.L95]})
		}
	}
}

const (
	plotWidth, plotHeight = 1000.0, 320.0
	marginLeft, marginTop = 64.0, 34.0
	marginBottom          = 28.0
)

// canvas maps time and values to the drawing.
type canvas struct {
	from, to time.Time
	top      float64
}

func (c canvas) x(t time.Time) float64 {
	return marginLeft + (plotWidth-marginLeft-10)*float64(t.Sub(c.from))/float64(c.to.Sub(c.from))
}

func (c canvas) y(v float64) float64 {
	return plotHeight - marginBottom - (plotHeight-marginTop-marginBottom)*v/c.top
}

// write draws the plot as a self-contained SVG.
func (p *plot) write(path string, demand *Demand) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := p.draw(f, demand); err != nil {
		_ = f.Close() // the first error tells more
		return err
	}
	return f.Close()
}

func (p *plot) draw(w io.Writer, demand *Demand) error {
	if len(p.fan) == 0 {
		return fmt.Errorf("nothing to plot: no forecast of %s was made in the scored part of the trace", p.dimension)
	}
	c := canvas{from: p.fan[0].at, to: demand.End()}
	for len(p.fan) > 0 && !p.fan[len(p.fan)-1].at.Before(c.to) {
		p.fan = p.fan[:len(p.fan)-1]
	}
	dim, _ := features.DimensionByName(p.dimension)
	var actual strings.Builder
	pen := "M"
	for t := c.from; t.Before(c.to); t = t.Add(features.Minute) {
		c.top = math.Max(c.top, demand.At(t).Of(p.dimension))
	}
	for _, x := range p.fan {
		c.top = math.Max(c.top, x.q95)
	}
	c.top *= 1.04
	for t := c.from; t.Before(c.to); t = t.Add(features.Minute) {
		v := demand.At(t).Of(p.dimension)
		if math.IsNaN(v) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&actual, "%s%.1f %.1f", pen, c.x(t), c.y(v))
		pen = "L"
	}
	median := p.line(c, func(x *fanPoint) float64 { return x.q50 })
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	b.WriteString(`<rect width="100%" height="100%" fill="#ffffff"/>` + "\n")
	fmt.Fprintf(&b, `<text x="%g" y="18" fill="#1b1f24" font-size="14">%s of the pool, %s: what came, and what was forecast 15 to 30 minutes before</text>`+"\n", marginLeft, p.dimension, dim.Unit)
	c.axes(&b)
	fmt.Fprintf(&b, `<path d="%s" fill="#9ec5fe" fill-opacity="0.55"/>`+"\n", p.band(c))
	fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="#57606a" stroke-width="0.8"/>`+"\n", actual.String())
	fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="#0b5ed7" stroke-width="1.6"/>`+"\n", median)
	for i, l := range []struct{ colour, text string }{{"#57606a", "what came"}, {"#0b5ed7", "median forecast"}, {"#9ec5fe", "up to the 95 % quantile"}} {
		x := marginLeft + 12 + 150*float64(i)
		fmt.Fprintf(&b, `<rect x="%g" y="%g" width="18" height="4" fill="%s"/><text x="%g" y="%g" fill="#1b1f24">%s</text>`+"\n", x, marginTop+4, l.colour, x+24, marginTop+10, l.text)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *plot) line(c canvas, value func(*fanPoint) float64) string {
	var b strings.Builder
	pen := "M"
	for i := range p.fan {
		fmt.Fprintf(&b, "%s%.1f %.1f", pen, c.x(p.fan[i].at), c.y(value(&p.fan[i])))
		pen = "L"
	}
	return b.String()
}

// band is the area between the median and the 95 % quantile.
func (p *plot) band(c canvas) string {
	var b strings.Builder
	b.WriteString(p.line(c, func(x *fanPoint) float64 { return x.q95 }))
	for i := len(p.fan) - 1; i >= 0; i-- {
		fmt.Fprintf(&b, "L%.1f %.1f", c.x(p.fan[i].at), c.y(p.fan[i].q50))
	}
	return b.String() + "Z"
}

// axes draws a line for each of four values and a mark at each of some eight round times.
func (c canvas) axes(b *strings.Builder) {
	for i := range 5 {
		v := c.top / 1.04 * float64(i) / 4
		fmt.Fprintf(b, `<path d="M%g %.1fH%g" stroke="#d0d7de"/><text x="%g" y="%.1f" text-anchor="end" fill="#57606a">%s</text>`+"\n",
			marginLeft, c.y(v), plotWidth-10, marginLeft-6, c.y(v)+4, draw.Short(v))
	}
	step := 5 * time.Minute
	for _, s := range []time.Duration{15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour} {
		if c.to.Sub(c.from)/step > 9 {
			step = s
		}
	}
	layout := "15:04"
	if step >= 12*time.Hour {
		layout = "Mon 2 Jan"
	} else if c.to.Sub(c.from) > 24*time.Hour {
		layout = "Mon 15:04"
	}
	for t := c.from.Truncate(step).Add(step); t.Before(c.to); t = t.Add(step) {
		fmt.Fprintf(b, `<path d="M%.1f %gv4" stroke="#57606a"/><text x="%.1f" y="%g" text-anchor="middle" fill="#57606a">%s</text>`+"\n",
			c.x(t), plotHeight-marginBottom, c.x(t), plotHeight-8, t.Format(layout))
	}
}
