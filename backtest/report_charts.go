package backtest

import (
	"errors"
	"fmt"
	"html/template"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/draw"
)

// plot draws the pool's demand and forecasts in one dimension. Each minute shows the newest forecast made at least
// plotLead minutes before, when a replica could still warm up.
type plot struct {
	dimension string
	from      time.Time
	fan       []fanPoint // ascending
}

type fanPoint struct {
	at       time.Time
	q50, q95 float64
}

// plotLead is the shortest lead of a plotted forecast.
const plotLead = 15

// newPlot selects the first dimension of the trace.
func newPlot(demand *Demand, from time.Time) (*plot, error) {
	peak := demand.Peak()
	for _, d := range []string{features.DimPrefill, features.DimDecode, features.DimRequests, features.DimKV} {
		if peak.Of(d) > 0 {
			return &plot{dimension: d, from: from}, nil
		}
	}
	return nil, errors.New("there is nothing to plot: the trace reports no demand")
}

// add adds the forecasts of one origin. They replace earlier forecasts of the same minutes.
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
			p.fan = append(p.fan, fanPoint{f.Origin.Add(time.Duration(h) * features.Minute), q[forecaster.L50], q[forecaster.L95]})
		}
	}
}

// draw needs at least one forecast.
func (p *plot) draw(demand *Demand) *draw.Chart {
	from, to := p.fan[0].at, demand.End()
	var xs, q50, q95, minutes, outcomes []float64
	top := 0.0
	for i := range p.fan {
		if x := &p.fan[i]; x.at.Before(to) {
			xs, q50, q95, top = append(xs, x.at.Sub(from).Minutes()), append(q50, x.q50), append(q95, x.q95), max(top, x.q95)
		}
	}
	for t := from; t.Before(to); t = t.Add(features.Minute) {
		v := demand.At(t).Of(p.dimension)
		minutes, outcomes = append(minutes, t.Sub(from).Minutes()), append(outcomes, v)
		if v > top {
			top = v
		}
	}
	dim, _ := features.DimensionByName(p.dimension)
	const text = "grey: what came; blue: the median forecast 15 to 30 minutes before; band: up to its 95 % quantile"
	c := draw.New(1000, 320, p.dimension+" of the pool", text, 0, to.Sub(from).Minutes(), 0, 1.04*top)
	c.Top, c.Left = 34, 64
	c.Text(c.Left, 26, "name", p.dimension+" of the pool; "+text)
	c.YAxis(dim.Unit, draw.Short)
	c.Days(from)
	c.Band("inner", xs, q50, q95)
	c.Line("actual", minutes, outcomes)
	c.Line("median", xs, q50)
	return c
}

// track is a pool's history in the scored part, in bins of whole minutes, for drawing.
type track struct {
	from  time.Time
	width time.Duration
	bins  []trackBin
}

type trackBin struct {
	need         float64 // largest
	ready, asked float64 // mean replicas; asked includes those that warm up
	minutes      float64
}

// trackBins bounds the bins of a track.
const trackBins = 600

func newTrack(from, to time.Time) *track {
	minutes := int(to.Sub(from) / time.Minute)
	return &track{from: from, width: time.Duration(max(1, (minutes+trackBins-1)/trackBins)) * time.Minute}
}

func (t *track) minute(o Observation) {
	if t == nil || !o.At.After(t.from) {
		return
	}
	i := int(o.At.Add(-time.Minute).Sub(t.from) / t.width)
	for len(t.bins) <= i {
		t.bins = append(t.bins, trackBin{})
	}
	b := &t.bins[i]
	b.need = max(b.need, o.Need)
	b.minutes++
	b.ready += (float64(o.Ready) - b.ready) / b.minutes
	b.asked += (float64(o.Ready+o.Pending) - b.asked) / b.minutes
}

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
