package report

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

// Timeline is a pool over the period, in bins for charts. Lists have a value a bin, null if unknown.
type Timeline struct {
	From    time.Time `json:"from"`
	Minutes int       `json:"minutes"` // width of a bin

	// Resources: the tightest first, if a capacity is known.
	Resources []ResourceTimeline `json:"resources"`
}

// ResourceTimeline is one resource over the bins.
type ResourceTimeline struct {
	Resource string   `json:"resource"`
	Unit     string   `json:"unit"`
	Actual   []Number `json:"actual"`   // mean load
	Peak     []Number `json:"peak"`     // the largest minute of load
	Capacity []Number `json:"capacity"` // of the ready replicas, minimum
	Asked    []Number `json:"asked"`    // capacity of the replicas asked for, maximum
	P10      []Number `json:"p10"`      // means of forecasts 15 minutes before
	P50      []Number `json:"p50"`
	P90      []Number `json:"p90"`
}

const maxBins = 360

// binMinutes is the least width of a bin for at most maxBins.
func (g *grid) binMinutes() int { return (g.end - g.first + maxBins - 1) / maxBins }

// bins reduces the known values of minutes to one of each bin.
func (g *grid) bins(reduce func([]float64) float64, of func(minute int) float64) (out []Number) {
	width := g.binMinutes()
	for from := g.first; from < g.end; from += width {
		known := make([]float64, 0, width)
		for m := from; m < min(from+width, g.end); m++ {
			if v := of(m); !math.IsNaN(v) {
				known = append(known, v)
			}
		}
		out = append(out, value.Unknown)
		if len(known) > 0 {
			out[len(out)-1] = Number(reduce(known))
		}
	}
	return out
}

func mean(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}

// timeline of a pool's period; nil if no load or forecast is above 0.
func (p *pool) timeline() *Timeline {
	t := &Timeline{From: p.from, Minutes: p.binMinutes()}
	tightest := p.tightest()
	for _, d := range features.Forecast {
		r := p.resourceTimeline(d)
		switch {
		case value.Highest(r.Peak, r.P50) == 0:
		case d.Name == tightest:
			t.Resources = slices.Insert(t.Resources, 0, r)
		default:
			t.Resources = append(t.Resources, r)
		}
	}
	if t.Resources == nil {
		return nil
	}
	return t
}

func (p *pool) resourceTimeline(d features.Dimension) ResourceTimeline {
	load := func(m int) float64 { return p.loadOf(d.Name, m) }
	each := func(m int) float64 { return p.minutes[m].tick.of(d.Name).perReplica }
	ready := func(m int) float64 { return each(m) * float64(p.minutes[m].tick.ready) }
	asked := func(m int) float64 { return each(m) * float64(p.minutes[m].tick.desired) }
	forecast := func(level int) []Number {
		return p.bins(mean, func(m int) float64 { return p.forecastLoad(d.Name, level, m) })
	}
	return ResourceTimeline{
		Resource: d.Name, Unit: d.Unit,
		Actual:   p.bins(mean, load),
		Peak:     p.bins(slices.Max, load),
		Capacity: p.bins(slices.Min, ready),
		Asked:    p.bins(slices.Max, asked),
		P10:      forecast(forecaster.L10), P50: forecast(forecaster.L50), P90: forecast(forecaster.L90),
	}
}

// tightest is the resource that came nearest to its capacity in the period; "" if none is known.
func (p *pool) tightest() (resource string) {
	highest := 0.
	for _, x := range p.minutes[p.first:] {
		if x.utilisation > highest {
			highest, resource = x.utilisation, x.resource
		}
	}
	return resource
}
