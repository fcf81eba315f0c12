package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/markdown"
)

// traffic describes the demand of a pool in the dimensions that are forecast, the pool first, then classes by name.
func (b *builder) traffic(pool string) []features.Traffic {
	first, end := b.bounds()
	out := []features.Traffic{}
	for k, values := range b.observed {
		d, _ := features.DimensionByName(k.dimension)
		if k.Pool != pool || !d.Forecast {
			continue
		}
		t := features.TrafficOf(k.Key, k.dimension, values[min(first, len(values)):min(end, len(values))])
		if t.Minutes > 0 {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(x, y features.Traffic) int {
		return cmp.Or(boolFirst(x.Class == features.TotalClass, y.Class == features.TotalClass), strings.Compare(x.Class, y.Class),
			cmp.Compare(rank(x.Dimension), rank(y.Dimension)))
	})
	return out
}

// trafficNote says how to read the table of traffic.
const trafficNote = "Peaks are over the mean: of one minute, and of fifteen in a row. A burst is a run of minutes above twice the mean."

// shape is the table of the pool's traffic and that of its classes, as many rows as fit.
func (p *Pool) shape() markdown.Table {
	g := markdown.Table{Title: "Traffic", Note: trafficNote, Head: []string{"class", "demand", ">mean", ">half of the minutes below", ">90 %", ">99 %",
		">peak/mean 1 min", ">15 min", ">bursts", ">median length", ">longest"}}
	for i := range p.Traffic {
		t := &p.Traffic[i]
		if t.Class != features.TotalClass && (t.Dimension == features.DimKV || len(g.Rows) >= 3*classesShown) {
			continue
		}
		d, _ := features.DimensionByName(t.Dimension)
		class := t.Class
		if class == features.TotalClass {
			class = "all"
		}
		factor := func(v float64) string { return quantity(Number(v), "") }
		g.Rows = append(g.Rows, []string{class, resource(t.Dimension), quantity(Number(t.Mean), d.Unit), quantity(Number(t.Quantiles[0]), d.Unit),
			quantity(Number(t.Quantiles[1]), d.Unit), quantity(Number(t.Quantiles[3]), d.Unit), factor(t.Peak1), factor(t.Peak15),
			fmt.Sprint(t.Bursts), lead(Number(t.BurstP50)), lead(Number(t.BurstMax))})
	}
	return g
}
