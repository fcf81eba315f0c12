package report

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// Timeline is a pool over the period, in bins for drawing. Lists have a value a bin, null where nothing is known; of
// forecasts and demand it is the mean over the minutes of the bin in which both are known.
type Timeline struct {
	From    time.Time `json:"from"`
	Minutes int       `json:"minutes"` // of a bin

	// Resource is the one that came nearest to its capacity, or was there to be forecast where no capacity is known.
	Resource string   `json:"resource"`
	Unit     string   `json:"unit"`
	Ahead    int      `json:"ahead"` // minutes ahead of the forecasts
	Actual   []Number `json:"actual"`
	Peak     []Number `json:"peak"`     // the largest minute of demand
	Capacity []Number `json:"capacity"` // of the ready replicas, the least
	P10      []Number `json:"p10"`
	P50      []Number `json:"p50"`
	P90      []Number `json:"p90"`
	P99      []Number `json:"p99"`

	Ready       []Number `json:"ready"`       // replicas, the fewest
	Desired     []Number `json:"desired"`     // the most that were asked for
	Needed      []Number `json:"needed"`      // in hindsight: the most that the demand of a minute took of any resource
	Probability []Number `json:"probability"` // of saturation, the largest
	Announced   []bool   `json:"announced"`   // whether a decision announced one
}

// mostBins bounds a Timeline.
const mostBins = 360

// binMinutes are the widths of bins to choose from.
var binMinutes = []int{1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 480, 720}

// binWidth is the least that makes at most mostBins.
func binWidth(minutes int) int {
	for _, w := range binMinutes {
		if (minutes+w-1)/w <= mostBins {
			return w
		}
	}
	return (minutes + mostBins - 1) / mostBins
}

// fan adds up what was forecast of one series, and what came of it.
type fan struct {
	ahead int // minutes
	bins  []fanBin
}

type fanBin struct {
	quantiles [forecaster.NumLevels]float64
	actual    float64
	n         int
}

// widen notes a forecast of a pool's total at the headline horizon, or the kept one nearest to it.
func (b *builder) widen(f *forecaster.Forecast) {
	if f.Class != features.TotalClass {
		return
	}
	key := seriesKey{f.Key, f.Dimension}
	first, end := b.bounds()
	x := b.fans[key]
	if x == nil {
		x = &fan{}
		for h := range f.Minute {
			if !math.IsNaN(f.Minute[h][forecaster.L50]) && (x.ahead == 0 || apart(h+1) < apart(x.ahead)) {
				x.ahead = h + 1
			}
		}
		if x.ahead == 0 {
			return
		}
		x.bins = make([]fanBin, (end-first+binWidth(end-first)-1)/binWidth(end-first))
		b.fans[key] = x
	}
	minute := b.index(f.Origin) + x.ahead - 1
	q, y := &f.Minute[x.ahead-1], at(b.observed[key], minute)
	if minute < first || minute >= end || math.IsNaN(y) || slices.ContainsFunc(q[:], math.IsNaN) {
		return
	}
	bin := &x.bins[(minute-first)/binWidth(end-first)]
	for l, v := range q {
		bin.quantiles[l] += v
	}
	bin.actual, bin.n = bin.actual+y, bin.n+1
}

// apart is how far minutes ahead are from the headline's.
func apart(ahead int) int { return max(ahead-headlineMinutes, headlineMinutes-ahead) }

// timeline bins a pool's period; nil when nothing is known of it.
func (b *builder) timeline(pool string) *Timeline {
	first, end := b.bounds()
	width := binWidth(end - first)
	n := (end - first + width - 1) / width
	t := &Timeline{From: b.from, Minutes: width, Resource: b.binding(pool)}
	if t.Resource == "" {
		return nil
	}
	if d, ok := features.DimensionByName(t.Resource); ok {
		t.Unit = d.Unit
	}
	for _, list := range []*[]Number{&t.Actual, &t.Peak, &t.Capacity, &t.P10, &t.P50, &t.P90, &t.P99, &t.Ready, &t.Desired, &t.Needed, &t.Probability} {
		*list = slices.Repeat([]Number{Number(math.NaN())}, n)
	}
	t.Announced = make([]bool, n)
	key := seriesKey{features.Key{Pool: pool, Class: features.TotalClass}, t.Resource}
	if f := b.fans[key]; f != nil {
		t.Ahead = f.ahead
		for i, bin := range f.bins {
			if bin.n == 0 {
				continue
			}
			mean := func(level int) Number { return Number(bin.quantiles[level] / float64(bin.n)) }
			t.Actual[i] = Number(bin.actual / float64(bin.n))
			t.P10[i], t.P50[i], t.P90[i], t.P99[i] = mean(forecaster.L10), mean(forecaster.L50), mean(forecaster.L90), mean(forecaster.L99)
		}
	}
	for m := first; m < end; m++ {
		t.Peak[(m-first)/width].most(at(b.observed[key], m))
	}
	b.standing(pool, func(x *tick, minute int) {
		if minute < first {
			return
		}
		i := (minute - first) / width
		t.Ready[i].least(float64(x.ready))
		t.Desired[i].most(float64(x.desired))
		t.Probability[i].most(x.probability)
		t.Announced[i] = t.Announced[i] || b.announced(x)
		for _, c := range x.capacities {
			if c.dimension == t.Resource {
				t.Capacity[i].least(float64(x.ready) * c.perReplica)
			}
			if c.perReplica > 0 {
				demand := at(b.observed[seriesKey{key.Key, c.dimension}], minute)
				t.Needed[i].most(math.Ceil(demand/c.perReplica - 1e-9))
			}
		}
	})
	return t
}

// binding is the resource of a pool that came nearest to its capacity in the period; without any capacity, the first
// dimension that was forecast, and "" when none was.
func (b *builder) binding(pool string) (resource string) {
	first, end := b.bounds()
	highest := 0.0
	b.standing(pool, func(t *tick, minute int) {
		if minute < first || minute >= end {
			return
		}
		if l := b.load(pool, t, minute); l.utilisation > highest {
			highest, resource = l.utilisation, l.resource
		}
	})
	if resource != "" {
		return resource
	}
	for _, d := range features.Dimensions {
		if b.fans[seriesKey{features.Key{Pool: pool, Class: features.TotalClass}, d.Name}] != nil {
			return d.Name
		}
	}
	return ""
}

// most keeps the larger of what is known.
func (n *Number) most(v float64) {
	if !(v <= float64(*n)) && !math.IsNaN(v) {
		*n = Number(v)
	}
}

// least keeps the smaller of what is known.
func (n *Number) least(v float64) {
	if !(v >= float64(*n)) && !math.IsNaN(v) {
		*n = Number(v)
	}
}
