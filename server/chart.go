package server

import (
	"fmt"
	"math"
	"time"

	"github.com/forewarm/forewarm/forecaster"
)

// The drawing, in SVG user units, and the minutes it spans around the forecast's origin.
const (
	chartWidth, chartHeight = 760.0, 240.0
	plotLeft, plotRight     = 52.0, chartWidth - 24
	plotTop, plotBottom     = 12.0, chartHeight - 24

	pastMinutes, futureMinutes float64 = HistoryMinutes, forecaster.Horizon
)

// highestLimit is how far above demand, as a factor, a capacity line is still drawn; it would flatten the demand.
const highestLimit = 3

// frame is the drawing as the template needs it.
type frame struct {
	Width, Height, Left, Right, Top, Bottom float64
}

// chart is one picture of a dimension: what was, what may come, and what there is room for. The strings are SVG paths.
type chart struct {
	frame
	Title, Description                  string
	Actual, Median, Inner, Outer, Limit string
	LimitNote                           string
	Now                                 float64
	XTicks, YTicks                      []tick
}

// tick is one label of an axis; minor ones go where there is little room.
type tick struct {
	At    float64
	Label string
	Minor bool
}

// newChart draws the forecast f of a pool's total over the actual points.
func newChart(p *PoolView, f *forecaster.Forecast) *chart {
	c := &chart{
		frame: frame{chartWidth, chartHeight, plotLeft, plotRight, plotTop, plotBottom},
		Title: f.Dimension + ", " + unit(f.Dimension), Now: xAt(0),
	}
	points, limits := p.actual(f.Dimension), capacityAhead(p, f)
	top := 0.0
	for _, pt := range points {
		if pt.Start.Before(f.Origin.Add(-HistoryMinutes * time.Minute)) {
			continue
		}
		top = math.Max(top, zeroNaN(pt.Value))
	}
	for h := range f.Minute {
		top = math.Max(top, f.Minute[h][forecaster.L95])
	}
	highest := 0.0
	for _, l := range limits {
		highest = math.Max(highest, l)
	}
	switch {
	case highest > top*highestLimit && top > 0:
		c.LimitNote, limits = "capacity "+si(limits[0])+", above the picture", nil
	default:
		top = math.Max(top, highest)
	}
	top = niceCeil(top)
	y := func(v float64) float64 { return plotBottom - (plotBottom-plotTop)*v/top }

	c.Actual = actualPath(points, f.Origin, y)
	c.Median = quantilePath(f, forecaster.L50, y)
	c.Inner = band(f, forecaster.L50, forecaster.L90, y)
	c.Outer = band(f, forecaster.L90, forecaster.L95, y)
	c.Limit = limitPath(limits, y)
	for _, m := range []float64{-180, -120, -60, 0, 30, 60} {
		c.XTicks = append(c.XTicks, tick{xAt(m), minuteLabel(f.Origin, m), m == -120 || m == 30})
	}
	for i := range 5 {
		v := top * float64(i) / 4
		c.YTicks = append(c.YTicks, tick{y(v), si(v), i%2 == 1})
	}
	c.Description = fmt.Sprintf("%s of pool %s: last %s, median in 30 minutes %s, 95th percentile %s",
		f.Dimension, p.Pool, si(f.Last), si(f.Minute[29][forecaster.L50]), si(f.Minute[29][forecaster.L95]))
	return c
}

// capacityAhead is what the pool can serve in each minute ahead: what is ready, and pending replicas once they had their
// lead time, but for those that are kept for failures. It is nil when the dimension has no known capacity.
func capacityAhead(p *PoolView, f *forecaster.Forecast) []float64 {
	r, of := p.resource(f.Dimension)
	if r == nil || !(r.PerReplica > 0) {
		return nil
	}
	out := make([]float64, forecaster.Horizon)
	for h := range out {
		n := of.Supply.Ready - of.Reserve
		for _, asked := range of.Supply.Pending {
			if !asked.Add(of.Lead).After(f.Origin.Add(time.Duration(h) * time.Minute)) {
				n++
			}
		}
		out[h] = float64(max(n, 0)) * r.PerReplica
	}
	return out
}

// xAt places a time in minutes from the origin.
func xAt(minutes float64) float64 {
	return plotLeft + (plotRight-plotLeft)*(minutes+pastMinutes)/(pastMinutes+futureMinutes)
}

func minuteLabel(origin time.Time, m float64) string {
	at := origin.Add(time.Duration(m) * time.Minute).UTC().Format("15:04")
	if m == 0 {
		return at + " now"
	}
	return at
}
