package backtest

import (
	"errors"
	"fmt"
	"os"
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

// plotStyle is the style of a stand-alone plot.
const plotStyle = `text{font:12px sans-serif;fill:#57606a}.end{text-anchor:end}.grid{stroke:#d0d7de;fill:none}.inner{fill:#9ec5fe;fill-opacity:.55}` +
	`.actual{fill:none;stroke:#57606a;stroke-width:.8}.median{fill:none;stroke:#0b5ed7;stroke-width:1.6}.name{font-size:14px;fill:#1b1f24}`

// write draws the plot as a self-contained SVG.
func (p *plot) write(path string, demand *Demand) error {
	if len(p.fan) == 0 {
		return fmt.Errorf("nothing to plot: no forecast of %s was made in the scored part of the trace", p.dimension)
	}
	return os.WriteFile(path, []byte(p.draw(demand).Standalone(plotStyle)), 0o644)
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
