package report

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// causes in the order in which they are reported.
var causes = []Cause{CauseDemand, CauseMix, CausePrompt, CauseOutput, CauseCache, CauseHeld, CauseRetries, CauseCapacity, CauseWarmup, CauseTelemetry}

// driversShown bounds the parts by class and cause that are named; smaller ones than smallDriver of an error are not.
const (
	driversShown = 5
	smallDriver  = 0.05
)

// mostlyLost is the share of demand that telemetry had below which a forecast of nothing is due to it.
const mostlyLost = 0.5

// explain splits the error of an episode.
func (b *builder) explain(ctx context.Context, h History, pool string, s *errorRun) (ErrorEpisode, error) {
	e := ErrorEpisode{
		Incident: s.incident, Start: b.time(s.from()), Minutes: s.to() - s.from(), Attributed: len(s.points), Resource: s.resource, Horizon: strconv.Itoa(b.ahead[pool]),
		Parts: []ErrorPart{}, Drivers: []ErrorDriver{},
	}
	lossy, note, err := b.perceive(ctx, h, pool, s)
	if err != nil {
		return e, err
	}
	x := newSplit(b, pool, s)
	x.lossy = lossy
	e.Forecast, e.Actual = Number(x.pool[forecasted].utilisation()), Number(x.pool[actual].utilisation())
	e.Error = e.Actual - e.Forecast
	parts, drivers := x.parts()
	for _, c := range causes {
		e.Parts = append(e.Parts, ErrorPart{c, Number(parts[c])})
	}
	for _, d := range drivers {
		if len(e.Drivers) < driversShown && math.Abs(float64(d.Amount)) >= smallDriver*math.Abs(float64(e.Error)) {
			e.Drivers = append(e.Drivers, d)
		}
	}
	e.Note = note
	return e, nil
}

// thin takes at most n of the points, spread evenly, the first and the last among them.
func thin(all []point, n int) []point {
	if len(all) <= n {
		return slices.Clone(all)
	}
	out := make([]point, n)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(n-1)]
	}
	return out
}

// split is the error of an episode before it is taken apart: sums over its minutes.
type split struct {
	resource string
	pool     [2]side
	classes  []classSides
	lossy    bool // requests are missing that never came
}

// classSides are a class's part of the load, forecast and actual, sums over minutes. NaN is unknown.
type classSides struct {
	class string
	of    [2]shape
}

// shape is what the load of a class is the product of.
type shape struct {
	requests, prefill, decode, demand float64 // demand is of the resource
	missed                            float64 // share of prompt tokens that the cache does not have
}

// newSplit sums up the minutes: of the pool, and of each class, scaled so that classes add up to the pool.
func newSplit(b *builder, pool string, s *errorRun) *split {
	x := &split{resource: s.resource}
	for which := range x.pool {
		var sum side
		loads, carried, seen := 0.0, 0.0, 0.0
		for i := range s.points {
			p := &s.points[i].of[which]
			sum.demand += p.demand
			sum.ready += p.ready
			loads += p.load()
			carried += p.ready * p.capacity
			seen += p.demand / p.seen
		}
		sum.retries, sum.capacity, sum.seen = loads/sum.demand, carried/sum.ready, sum.demand/seen
		if sum.demand == 0 {
			sum.retries, sum.seen = 1, 1
		}
		x.pool[which] = sum
	}
	for _, class := range b.classes(pool) {
		x.classes = append(x.classes, b.shapes(features.Key{Pool: pool, Class: class}, s))
	}
	whole := b.shapes(features.Key{Pool: pool, Class: features.TotalClass}, s)
	for which := range x.pool {
		whole.of[which].demand = x.pool[which].demand
		x.scale(which, &whole.of[which])
	}
	for which := range x.pool {
		if !x.covers(which) {
			x.classes = []classSides{whole} // where classes say nothing the pool is one
		}
	}
	return x
}

// classes names those of a pool with demand or forecasts, in order.
func (b *builder) classes(pool string) (names []string) {
	for k := range b.observed {
		if k.Pool == pool && k.Class != features.TotalClass && k.dimension == features.DimRequests {
			names = append(names, k.Class)
		}
	}
	slices.Sort(names)
	return names
}

// shapes sums up a class over minutes. What has no forecast is expected to be as it was before the origin.
func (b *builder) shapes(key features.Key, s *errorRun) classSides {
	out := classSides{class: key.Class}
	// first and before are what was known of the present at the first origin, and, summed up, at all.
	sums := func(dimension string) (forecast, came, first, before float64) {
		of := seriesKey{key, dimension}
		demand := b.observed[of]
		for i := range s.points {
			p := &s.points[i]
			recent := zeroIfUnknown(mean(demand, p.origin-recentMinutes, p.origin))
			if i == 0 {
				first = recent
			}
			before += recent
			came += zeroIfUnknown(at(demand, p.minute))
			foreseen := b.foreseen(of, p.origin)
			if math.IsNaN(foreseen) {
				foreseen = recent
			}
			forecast += foreseen
		}
		return forecast, came, first, before
	}
	f, a := &out.of[forecasted], &out.of[actual]
	var first, before shape
	f.requests, a.requests, first.requests, before.requests = sums(features.DimRequests)
	f.prefill, a.prefill, first.prefill, before.prefill = sums(features.DimPrefill)
	f.decode, a.decode, _, _ = sums(features.DimDecode)
	f.demand, a.demand, _, _ = sums(s.resource)
	_, cached, firstCached, cachedBefore := sums(features.DimCached)
	first.missed, before.missed = share(first.prefill, first.prefill+firstCached), share(before.prefill, before.prefill+cachedBefore)
	f.missed, a.missed = f.expectedMiss(&first, &before), share(a.prefill, a.prefill+cached)
	return out
}

// expectedMiss is the share of prompts that a forecast took not to be cached, which is never forecast by itself: where
// between what it was at first and what it was before each origin the forecast load of a request lies, on a logarithmic
// scale. A forecast that does not follow a cache that collapsed still counts on it.
func (f *shape) expectedMiss(first, before *shape) float64 {
	load := func(s *shape) float64 { return math.Log(s.prefill / s.requests) }
	followed := min(max(finiteOr((load(f)-load(first))/(load(before)-load(first)), 1), 0), 1)
	return finiteOr(math.Exp(followed*math.Log(before.missed)+(1-followed)*math.Log(first.missed)), before.missed)
}

func zeroIfUnknown(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// mean of the known minutes in [from, to); NaN without any.
func mean(demand []float64, from, to int) float64 {
	sum, n := 0.0, 0
	for m := from; m < to; m++ {
		if y := at(demand, m); !math.IsNaN(y) {
			sum, n = sum+y, n+1
		}
	}
	return sum / float64(n)
}

// covers says whether classes add up to the pool's demand.
func (x *split) covers(which int) bool {
	sum, whole := 0.0, x.pool[which].demand
	for i := range x.classes {
		sum += x.classes[i].of[which].demand
	}
	return math.Abs(sum-whole) <= 1e-6*whole
}

// scale makes classes add up to their pool, in each of the dimensions.
func (x *split) scale(which int, whole *shape) {
	scale := func(whole float64, of func(s *shape) *float64) {
		sum := 0.0
		for i := range x.classes {
			sum += *of(&x.classes[i].of[which])
		}
		if sum > 0 && whole > 0 {
			for i := range x.classes {
				*of(&x.classes[i].of[which]) *= whole / sum
			}
		}
	}
	scale(whole.requests, func(s *shape) *float64 { return &s.requests })
	scale(whole.prefill, func(s *shape) *float64 { return &s.prefill })
	scale(whole.decode, func(s *shape) *float64 { return &s.decode })
	scale(whole.demand, func(s *shape) *float64 { return &s.demand })
}

// part is one factor's share of the logarithm of actual over forecast.
type part struct {
	cause Cause
	log   float64
}

// parts splits actual − forecast by the additive logarithmic mean Divisia index: utilisation is a sum over classes of
// products, u = requests · share of class · load of a request · retries / (seen · replicas · capacity), and each factor x
// takes Σ L(u, u')·ln(x/x') of the difference, L being the logarithmic mean. The parts add up without a remainder, and no
// factor comes before another (Ang 2005, doi:10.1016/j.enpol.2003.10.010, §3). Where a class has no load on one side, all
// of it is due to the factor that is zero there, the limit of the index (Ang, Zhang and Choi 1998,
// doi:10.1016/S0360-5442(98)00016-4). drivers are the same by class, largest first.
func (x *split) parts() (parts map[Cause]float64, drivers []ErrorDriver) {
	parts = map[Cause]float64{}
	shared := map[Cause]float64{} // of all classes together
	f, a := &x.pool[forecasted], &x.pool[actual]
	for i := range x.classes {
		x.classes[i].complete()
	}
	var requests [2]float64
	for i := range x.classes {
		for which := range requests {
			requests[which] += x.classes[i].of[which].requests
		}
	}
	level := math.Log(requests[actual] / a.seen / (requests[forecasted] / f.seen))
	common := []part{
		{CauseRetries, math.Log(a.retries / f.retries)},
		{CauseCapacity, -math.Log(a.capacity / f.capacity)},
		{CauseWarmup, -math.Log(a.ready / f.ready)},
		{CauseTelemetry, math.Log(a.seen / f.seen)},
	}
	for i := range x.classes {
		c := &x.classes[i]
		uf := c.of[forecasted].demand * f.retries / (f.ready * f.capacity)
		ua := c.of[actual].demand * a.retries / (a.ready * a.capacity)
		own := map[Cause]float64{}
		switch {
		case uf == 0 && ua == 0:
			continue
		case uf == 0 || ua == 0:
			cause := c.vanished(x.resource)
			switch {
			case cause != CauseMix:
			case x.lossy && ua < uf, f.seen < mostlyLost && uf == 0:
				cause = CauseTelemetry
			case requests[forecasted] == 0 || requests[actual] == 0:
				cause = CauseDemand
			}
			parts[cause] += ua - uf
			own[cause] += ua - uf
		default:
			weight := forecaster.LogMean(ua, uf)
			arrivals := math.Log(c.of[actual].requests / a.seen / (c.of[forecasted].requests / f.seen))
			switch {
			case x.lossy && arrivals < 0:
				parts[CauseTelemetry] += weight * arrivals
				own[CauseTelemetry] += weight * arrivals
			case x.lossy: // the level of what is left is not that of all
				parts[CauseDemand] += weight * arrivals
				own[CauseDemand] += weight * arrivals
			default:
				parts[CauseDemand] += weight * level
				parts[CauseMix] += weight * (arrivals - level)
				own[CauseDemand] += weight * arrivals
			}
			for _, p := range c.load(x.resource) {
				parts[p.cause] += weight * p.log
				own[p.cause] += weight * p.log
			}
			for _, p := range common {
				parts[p.cause] += weight * p.log
				shared[p.cause] += weight * p.log
			}
		}
		for _, cause := range causes {
			if own[cause] != 0 {
				drivers = append(drivers, ErrorDriver{c.class, cause, Number(own[cause])})
			}
		}
	}
	for _, cause := range causes {
		if shared[cause] != 0 {
			drivers = append(drivers, ErrorDriver{features.TotalClass, cause, Number(shared[cause])})
		}
	}
	slices.SortStableFunc(drivers, func(x, y ErrorDriver) int {
		return cmp.Compare(math.Abs(float64(y.Amount)), math.Abs(float64(x.Amount)))
	})
	return parts, drivers
}

// complete takes a class whose requests are not known on a side to have as much load a request as on the other.
func (c *classSides) complete() {
	for which := range c.of {
		s, o := &c.of[which], &c.of[1-which]
		switch {
		case s.requests > 0 || s.demand == 0:
		case o.requests > 0 && o.demand > 0:
			s.requests = s.demand * o.requests / o.demand
		default:
			s.requests = s.demand
			if o.demand > 0 {
				o.requests = o.demand
			}
		}
	}
}

// vanished is the factor that is zero on one side.
func (c *classSides) vanished(resource string) Cause {
	s := &c.of[forecasted]
	if s.demand > 0 {
		s = &c.of[actual]
	}
	switch {
	case s.requests == 0:
		return CauseMix
	case resource == features.DimPrefill:
		return CauseCache
	case resource == features.DimDecode:
		return CauseOutput
	}
	return CauseHeld
}

// load is why the load of a request differs.
func (c *classSides) load(resource string) []part {
	f, a := &c.of[forecasted], &c.of[actual]
	whole := math.Log(a.demand / a.requests / (f.demand / f.requests))
	switch resource {
	case features.DimRequests:
		return nil
	case features.DimPrefill:
		cache := finiteOr0(math.Log(a.missed / f.missed))
		return []part{{CauseCache, cache}, {CausePrompt, whole - cache}}
	case features.DimDecode:
		return []part{{CauseOutput, whole}}
	}
	// By Little's law a request holds its prompt and on average half of its output, for as long as it takes to generate the
	// output: (prompt + output/2) · output · seconds a token. The logarithm of the sum splits as the sum does.
	prompt, output := func(s *shape) float64 { return s.prefill / s.requests / s.missed }, func(s *shape) float64 { return s.decode / s.requests }
	weight := forecaster.LogMean(prompt(a)+output(a)/2, prompt(f)+output(f)/2)
	byPrompt := finiteOr0((prompt(a) - prompt(f)) / weight)
	byOutput := finiteOr0((output(a)-output(f))/2/weight) + finiteOr0(math.Log(output(a)/output(f)))
	return []part{{CausePrompt, byPrompt}, {CauseOutput, byOutput}, {CauseHeld, whole - byPrompt - byOutput}}
}

func finiteOr0(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
