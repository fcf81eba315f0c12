package report

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// Timeline is a pool over the period, in bins for drawing. Lists have a value a bin, null where nothing is known; of
// forecasts and demand it is the mean over the minutes of the bin in which both are known.
type Timeline struct {
	From    time.Time `json:"from"`
	Minutes int       `json:"minutes"` // of a bin

	// The resource that came nearest to its capacity, or was there to be forecast where no capacity is known; then all others.
	ResourceTimeline
	Others []ResourceTimeline `json:"other_resources"`

	// Mix is tokens/s by class: the heaviest, then all others as features.OverflowClass. Cached is the share of prompt tokens
	// that came from cache, Retried the share of attempts that were retries.
	Mix     []Line   `json:"mix"`
	Cached  []Number `json:"cached_share"`
	Retried []Number `json:"retried_share"`

	Ready       []Number `json:"ready"`       // replicas, the fewest
	Desired     []Number `json:"desired"`     // the most that were asked for
	Needed      []Number `json:"needed"`      // in hindsight: the most that the demand of a minute took of any resource
	Probability []Number `json:"probability"` // of saturation, the largest
	Announced   []bool   `json:"announced"`   // whether a decision announced one
}

// ResourceTimeline is one resource over the bins.
type ResourceTimeline struct {
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
}

// Line is a value a bin.
type Line struct {
	Class  string   `json:"class"`
	Values []Number `json:"values"`
}

const mixShown = 5 // classes that the mix tells apart

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
		bin.quantiles[l] += v * b.loadFactor(key, b.index(f.Origin)-1)
	}
	bin.actual, bin.n = bin.actual+y*b.loadFactor(key, minute), bin.n+1
}

// apart is how far minutes ahead are from the headline's.
func apart(ahead int) int { return max(ahead-headlineMinutes, headlineMinutes-ahead) }

// timeline bins a pool's period; nil when nothing is known of it.
func (b *builder) timeline(pool string) *Timeline {
	first, end := b.bounds()
	width := binWidth(end - first)
	n := (end - first + width - 1) / width
	t := &Timeline{From: b.from, Minutes: width}
	binding := b.binding(pool)
	if binding == "" {
		return nil
	}
	t.ResourceTimeline = b.resourceTimeline(pool, binding, n)
	for _, d := range features.Dimensions {
		if d.Forecast && d.Name != binding {
			if r := b.resourceTimeline(pool, d.Name, n); top(r.Peak, r.P50) > 0 {
				t.Others = append(t.Others, r)
			}
		}
	}
	for _, list := range []*[]Number{&t.Ready, &t.Desired, &t.Needed, &t.Probability} {
		*list = unknowns(n)
	}
	t.Announced = make([]bool, n)
	b.mix(t, pool, n)
	b.eachMinute(pool, func(x *tick, minute int) {
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
			for j := range t.Others {
				if r := &t.Others[j]; r.Resource == c.dimension {
					r.Capacity[i].least(float64(x.ready) * c.perReplica)
				}
			}
			if c.perReplica > 0 {
				t.Needed[i].most(math.Ceil(b.loadOf(pool, c.dimension, minute)/c.perReplica - 1e-9))
			}
		}
	})
	return t
}

// unknowns are n values of which none is known.
func unknowns(n int) []Number { return slices.Repeat([]Number{Number(math.NaN())}, n) }

// resourceTimeline bins the demand of one resource, and its forecasts.
func (b *builder) resourceTimeline(pool, dimension string, n int) ResourceTimeline {
	first, end := b.bounds()
	t := ResourceTimeline{Resource: dimension}
	if d, ok := features.DimensionByName(dimension); ok {
		t.Unit = d.Unit
	}
	for _, list := range []*[]Number{&t.Actual, &t.Peak, &t.Capacity, &t.P10, &t.P50, &t.P90, &t.P99} {
		*list = unknowns(n)
	}
	key := seriesKey{features.Key{Pool: pool, Class: features.TotalClass}, dimension}
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
		t.Peak[(m-first)/binWidth(end-first)].most(b.loadOf(pool, dimension, m))
	}
	return t
}

// binned are the means over bins of what is known in the period, by the minute.
func (b *builder) binned(value func(minute int) float64, n int) []Number {
	first, end := b.bounds()
	sums, counts := make([]float64, n), make([]float64, n)
	for m := first; m < end; m++ {
		if v := value(m); !math.IsNaN(v) {
			i := (m - first) / binWidth(end-first)
			sums[i], counts[i] = sums[i]+v, counts[i]+1
		}
	}
	out := unknowns(n)
	for i := range out {
		if counts[i] > 0 {
			out[i] = Number(sums[i] / counts[i])
		}
	}
	return out
}

// mix fills in what the demand consists of.
func (b *builder) mix(t *Timeline, pool string, n int) {
	of := func(class, dimension string) []float64 {
		return b.observed[seriesKey{features.Key{Pool: pool, Class: class}, dimension}]
	}
	tokens := func(class string) []Number {
		prefill, cached, decode := of(class, features.DimPrefill), of(class, features.DimCached), of(class, features.DimDecode)
		return b.binned(func(m int) float64 {
			sum := Number(math.NaN())
			sum.add(at(prefill, m))
			sum.add(at(cached, m))
			sum.add(at(decode, m))
			return float64(sum)
		}, n)
	}
	var lines []Line
	weights := map[string]float64{}
	for key := range b.observed {
		if key.Pool == pool && key.dimension == features.DimPrefill && key.Class != features.TotalClass && key.Class != features.OverflowClass {
			l := Line{key.Class, tokens(key.Class)}
			for _, v := range l.Values {
				weights[l.Class] += zeroIfUnknown(float64(v))
			}
			lines = append(lines, l)
		}
	}
	slices.SortFunc(lines, func(x, y Line) int {
		return cmp.Or(cmp.Compare(weights[y.Class], weights[x.Class]), strings.Compare(x.Class, y.Class))
	})
	t.Mix = lines[:min(len(lines), mixShown)]
	rest := Line{features.OverflowClass, tokens(features.TotalClass)}
	for i := range rest.Values {
		for _, l := range t.Mix {
			rest.Values[i] -= Number(zeroIfUnknown(float64(l.Values[i])))
		}
		rest.Values[i] = max(rest.Values[i], 0) // NaN stays
	}
	if len(lines) > mixShown || top(rest.Values) > 0.01*top(tokens(features.TotalClass)) {
		t.Mix = append(t.Mix, rest)
	}
	part := func(of, more []float64) []Number {
		return b.binned(func(m int) float64 { return share(at(of, m), at(of, m)+at(more, m)) }, n)
	}
	t.Cached = part(of(features.TotalClass, features.DimCached), of(features.TotalClass, features.DimPrefill))
	t.Retried = part(of(features.TotalClass, features.DimRetry), of(features.TotalClass, features.DimRequests))
}

// binding is the resource of a pool that came nearest to its capacity in the period; without any capacity, the first
// dimension that was forecast, and "" when none was.
func (b *builder) binding(pool string) (resource string) {
	first, end := b.bounds()
	highest := 0.0
	b.eachMinute(pool, func(t *tick, minute int) {
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
