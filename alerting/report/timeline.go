package report

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

// Timeline is a pool over the period, in bins for charts. Lists have a value a bin, null if unknown; forecasts and load
// are means over the minutes of the bin in which both are known.
type Timeline struct {
	From    time.Time `json:"from"`
	Minutes int       `json:"minutes"` // width of a bin

	// Resources: the tightest first, or the first with a forecast if no capacity is known.
	Resources []ResourceTimeline `json:"resources"`

	Ready   []Number `json:"ready"`   // replicas, minimum
	Desired []Number `json:"desired"` // maximum
	Needed  []Number `json:"needed"`  // by the load of a minute, of any resource, maximum
	Warned  []bool   `json:"warned"`  // a decision warned of saturation
}

// ResourceTimeline is one resource over the bins.
type ResourceTimeline struct {
	Resource string   `json:"resource"`
	Unit     string   `json:"unit"`
	Ahead    int      `json:"ahead"` // horizon of the forecasts in minutes
	Actual   []Number `json:"actual"`
	Peak     []Number `json:"peak"`     // the largest minute of load
	Capacity []Number `json:"capacity"` // of the ready replicas, minimum
	P10      []Number `json:"p10"`
	P50      []Number `json:"p50"`
	P90      []Number `json:"p90"`
}

// maxBins of a Timeline.
const maxBins = 360

// bins are the bins of the period: the narrowest for at most maxBins.
func (s *span) bins() (width, n int) {
	for _, width = range []int{1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 480} {
		if n = (s.end - s.first + width - 1) / width; n <= maxBins {
			break
		}
	}
	return width, n
}

// forecastSums sums up the forecasts of one series, and their outcomes.
type forecastSums struct {
	ahead   int // minutes
	bins    []forecastBin
	medians []float64 // of load, by minute; NaN without a forecast
}

// median of a minute; NaN if unknown.
func (f *forecastSums) median(minute int) float64 {
	if f == nil {
		return math.NaN()
	}
	return demandAt(f.medians, minute)
}

type forecastBin struct {
	quantiles [forecaster.NumLevels]float64
	actual    float64
	n         int
}

// addForecast adds a forecast of a pool's total at the headline horizon, or the nearest stored one.
func (b *builder) addForecast(f *forecaster.Forecast) {
	if f.Class != features.TotalClass {
		return
	}
	key := seriesKey{f.Key, f.Dimension}
	x := b.forecasts[key]
	if x == nil {
		x = &forecastSums{}
		for h := range f.Minute {
			if !math.IsNaN(f.Minute[h][forecaster.L50]) && (x.ahead == 0 || headlineDistance(h+1) < headlineDistance(x.ahead)) {
				x.ahead = h + 1
			}
		}
		if x.ahead == 0 {
			return
		}
		_, n := b.bins()
		x.bins = make([]forecastBin, n)
		x.medians = slices.Repeat([]float64{math.NaN()}, b.end)
		b.forecasts[key] = x
	}
	minute := b.index(f.Origin) + x.ahead - 1
	if minute < b.first || minute >= b.end {
		return
	}
	q, y, factor := &f.Minute[x.ahead-1], demandAt(b.observed[key], minute), b.loadFactor(key, b.index(f.Origin)-1)
	x.medians[minute] = q[forecaster.L50] * factor
	if math.IsNaN(y) || slices.ContainsFunc(q[:], math.IsNaN) {
		return
	}
	width, _ := b.bins()
	bin := &x.bins[(minute-b.first)/width]
	for l, v := range q {
		bin.quantiles[l] += v * factor
	}
	bin.actual, bin.n = bin.actual+y*b.loadFactor(key, minute), bin.n+1
}

// headlineDistance is the distance in minutes from the headline horizon.
func headlineDistance(ahead int) int { return max(ahead-headlineMinutes, headlineMinutes-ahead) }

// timeline of a pool's period; nil if nothing is known.
func (b *builder) timeline(pool string) *Timeline {
	width, n := b.bins()
	t := &Timeline{From: b.from, Minutes: width}
	binding := b.binding(pool)
	if binding == "" {
		return nil
	}
	t.Resources = append(t.Resources, b.resourceTimeline(pool, binding))
	for _, d := range features.Dimensions {
		if d.Forecast && d.Name != binding {
			if r := b.resourceTimeline(pool, d.Name); top(r.Peak, r.P50) > 0 {
				t.Resources = append(t.Resources, r)
			}
		}
	}
	for _, list := range []*[]Number{&t.Ready, &t.Desired, &t.Needed} {
		*list = unknowns(n)
	}
	t.Warned = make([]bool, n)
	b.eachMinute(pool, b.first, func(x *tick, minute int) {
		i := (minute - b.first) / width
		if need := b.load(pool, x, minute).needed(); need != unknownNeed {
			most(&t.Needed[i], float64(need))
		}
		least(&t.Ready[i], float64(x.ready))
		most(&t.Desired[i], float64(x.desired))
		t.Warned[i] = t.Warned[i] || x.warns()
		for _, c := range x.capacities {
			for j := range t.Resources {
				if r := &t.Resources[j]; r.Resource == c.dimension {
					least(&r.Capacity[i], float64(x.ready)*c.perReplica)
				}
			}
		}
	})
	return t
}

// unknowns are n unknown values.
func unknowns(n int) []Number { return slices.Repeat([]Number{value.Unknown}, n) }

// resourceTimeline has the demand of one resource, and its forecasts.
func (b *builder) resourceTimeline(pool, dimension string) ResourceTimeline {
	width, n := b.bins()
	t := ResourceTimeline{Resource: dimension}
	if d, ok := features.DimensionByName(dimension); ok {
		t.Unit = d.Unit
	}
	for _, list := range []*[]Number{&t.Actual, &t.Peak, &t.Capacity, &t.P10, &t.P50, &t.P90} {
		*list = unknowns(n)
	}
	if f := b.forecasts[totalOf(pool, dimension)]; f != nil {
		t.Ahead = f.ahead
		for i, bin := range f.bins {
			if bin.n == 0 {
				continue
			}
			mean := func(level int) Number { return Number(bin.quantiles[level] / float64(bin.n)) }
			t.Actual[i] = Number(bin.actual / float64(bin.n))
			t.P10[i], t.P50[i], t.P90[i] = mean(forecaster.L10), mean(forecaster.L50), mean(forecaster.L90)
		}
	}
	for m := b.first; m < b.end; m++ {
		most(&t.Peak[(m-b.first)/width], b.loadOf(pool, dimension, m))
	}
	return t
}

// binding is the tightest resource of a pool in the period; without any capacity the first dimension with a forecast,
// "" if there is none.
func (b *builder) binding(pool string) (resource string) {
	highest := 0.0
	b.eachMinute(pool, b.first, func(t *tick, minute int) {
		if l := b.load(pool, t, minute); l.utilisation > highest {
			highest, resource = l.utilisation, l.resource
		}
	})
	if resource != "" {
		return resource
	}
	for _, d := range features.Dimensions {
		if b.forecasts[totalOf(pool, d.Name)] != nil {
			return d.Name
		}
	}
	return ""
}

// most keeps the larger known value.
func most(n *Number, v float64) {
	if !(v <= float64(*n)) && !math.IsNaN(v) {
		*n = Number(v)
	}
}

// least keeps the smaller known value.
func least(n *Number, v float64) {
	if !(v >= float64(*n)) && !math.IsNaN(v) {
		*n = Number(v)
	}
}
