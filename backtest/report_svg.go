package backtest

import (
	"fmt"
	"html/template"

	"github.com/forewarm/forewarm/internal/draw"
)

// draw shows demand, ready replicas, and the sum of ready and warming replicas.
func (t *track) draw() template.HTML {
	if t == nil || len(t.bins) == 0 {
		return ""
	}
	var xs, zero, need, ready, asked []float64
	peak := 1.0
	for i, b := range t.bins {
		peak = max(peak, b.need, b.asked)
		xs, zero = append(xs, (float64(i)+.5)*t.width.Minutes()), append(zero, 0)
		need, ready, asked = append(need, b.need), append(ready, b.ready), append(asked, b.asked)
	}
	span := float64(len(t.bins)) * t.width.Minutes()
	c := draw.New(900, 160, "Replicas and demand", fmt.Sprintf("at most %.4g replicas", peak), 0, span, 0, peak*1.05)
	c.Right = 150
	c.YAxis("replicas", func(v float64) string { return fmt.Sprintf("%.4g", v) })
	c.Days(t.from.UTC())
	c.Band("need", xs, zero, need)
	c.Line("asked", xs, asked)
	c.Line("ready", xs, ready)
	for i, name := range []string{"demand", "ready", "with warming"} {
		c.Text(c.Width-c.Right+8, 30+16*float64(i), []string{"name demand", "name own", "name warming"}[i], name)
	}
	return template.HTML(c.String())
}
