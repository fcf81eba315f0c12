package report

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

const (
	// episodesAttributed bounds the errors of a pool that are explained.
	episodesAttributed = 10
	// minutesAttributed bounds the minutes of one that are looked at; of a longer one they are spread evenly.
	minutesAttributed = 240
	// leastError is the utilisation by which a large error is off at least.
	leastError = 0.1
	// leastSize is the sum of errors, over the minutes of an episode, from which it is more than a restless minute.
	leastSize = 0.5
	// farOff is by how many standard deviations of the usual error it is off.
	farOff = 2
	// perMAD are the standard deviations of a normal distribution in its median absolute deviation.
	perMAD = 1.4826
	// recentMinutes before an origin are what is known of the present there.
	recentMinutes = 15
)

// points are the medians of one series at the horizon nearest to the headline's, by the minute of their target.
type points struct {
	ahead int // minutes
	at    []float32
}

// note keeps the median of a forecast.
func (b *builder) note(f *forecaster.Forecast) {
	key := seriesKey{f.Key, f.Dimension}
	p := b.points[key]
	if p == nil {
		p = &points{}
		for h := range f.Minute {
			if better := far(strconv.Itoa(h+1)) < far(strconv.Itoa(p.ahead)) || p.ahead == 0; better && !math.IsNaN(f.Minute[h][forecaster.L50]) {
				p.ahead = h + 1
			}
		}
		if p.ahead == 0 {
			return
		}
		first, end := b.bounds()
		p.at = slices.Repeat([]float32{float32(math.NaN())}, end-first)
		b.points[key] = p
	}
	first, _ := b.bounds()
	if i := b.index(f.Origin) + p.ahead - 1 - first; i >= 0 && i < len(p.at) {
		p.at[i] = float32(f.Minute[p.ahead-1][forecaster.L50])
	}
}

// point is one minute of a resource: what was forecast of it, and what came.
type point struct {
	minute, origin int
	of             [2]side // forecast, actual
}

// side is a utilisation by its parts.
type side struct {
	demand   float64
	retries  float64 // load of all attempts over that of calls
	capacity float64 // of a replica
	ready    float64 // replicas
	seen     float64 // share of demand that telemetry had
}

const (
	forecasted = iota
	actual
)

func (s *side) load() float64 { return s.demand * s.retries }

func (s *side) utilisation() float64 { return s.load() / (s.ready * s.capacity) }

func (p *point) error() float64 { return p.of[actual].utilisation() - p.of[forecasted].utilisation() }

// stretch is an episode in the making.
type stretch struct {
	resource string
	ahead    int
	points   []point
	size     float64 // Σ|error|
	also     []string
}

func (s *stretch) from() int { return s.points[0].minute }
func (s *stretch) to() int   { return s.points[len(s.points)-1].minute }

// errors finds the largest errors of a pool's forecasts in utilisation, and explains them.
func (b *builder) errors(ctx context.Context, h History, pool string) ([]ErrorEpisode, error) {
	var all []stretch
	for _, d := range features.Dimensions {
		all = append(all, b.stretches(pool, d.Name)...)
	}
	slices.SortStableFunc(all, func(x, y stretch) int { return cmp.Compare(y.size, x.size) })
	var chosen []*stretch
	for i := range all {
		s := &all[i]
		apart := true
		for _, c := range chosen {
			if s.from() <= c.to() && c.from() <= s.to() {
				apart = false
				if !slices.Contains(c.also, s.resource) && s.resource != c.resource {
					c.also = append(c.also, s.resource)
				}
				break
			}
		}
		if apart && len(chosen) < episodesAttributed {
			chosen = append(chosen, s)
		}
	}
	slices.SortFunc(chosen, func(x, y *stretch) int { return cmp.Compare(x.from(), y.from()) })
	out := []ErrorEpisode{}
	for _, s := range chosen {
		e, err := b.explain(ctx, h, pool, s)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// stretches are the runs of large errors of one resource: of one sign, no further apart than Options.Merge.
func (b *builder) stretches(pool, resource string) (out []stretch) {
	all := b.pointsOf(pool, resource)
	if len(all) == 0 {
		return nil
	}
	ahead := b.points[b.totalOf(pool, resource)].ahead
	offs := make([]float64, len(all))
	for i := range all {
		offs[i] = all[i].error()
	}
	large := max(leastError, farOff*perMAD*deviation(offs))
	for i := range all {
		p := all[i]
		if math.Abs(offs[i]) < large {
			continue
		}
		n := len(out) - 1
		if n < 0 || time.Duration(p.minute-out[n].to()-1)*features.Minute > b.options.Merge || math.Signbit(out[n].points[0].error()) != math.Signbit(offs[i]) {
			out = append(out, stretch{resource: resource, ahead: ahead})
			n++
		}
		out[n].points = append(out[n].points, p)
		out[n].size += math.Abs(offs[i])
	}
	return slices.DeleteFunc(out, func(s stretch) bool { return s.size < leastSize })
}

// deviation is the median absolute deviation from the median.
func deviation(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	middle := float64(between(v, .5))
	for i := range v {
		v[i] = math.Abs(v[i] - middle)
	}
	slices.Sort(v)
	return float64(between(v, .5))
}

func (b *builder) totalOf(pool, dimension string) seriesKey {
	return seriesKey{features.Key{Pool: pool, Class: features.TotalClass}, dimension}
}

// pointsOf are the minutes of the period of which all is known that utilisation takes.
func (b *builder) pointsOf(pool, resource string) (out []point) {
	key := b.totalOf(pool, resource)
	forecasts := b.points[key]
	if forecasts == nil {
		return nil
	}
	demand := b.observed[key]
	supply := b.supplied(pool, resource)
	first, end := b.bounds()
	for m := first; m < end; m++ {
		p := point{minute: m, origin: m - forecasts.ahead + 1}
		issued, now := &supply[max(p.origin, 0)], &supply[m]
		p.of = [2]side{
			{demand: float64(forecasts.at[m-first]), retries: b.retries(pool, resource, p.origin-recentMinutes, p.origin), capacity: issued.capacity, ready: b.due(supply, m, issued.lag), seen: 1},
			{demand: at(demand, m), retries: b.retries(pool, resource, m, m+1), capacity: now.learned, ready: now.ready, seen: 1},
		}
		if now.assumed {
			p.of[forecasted].ready = now.ready // nothing tells when replicas came
		}
		if e := p.error(); !math.IsNaN(e) && !math.IsInf(e, 0) && p.of[forecasted].capacity > 0 && p.of[actual].capacity > 0 {
			out = append(out, p)
		}
	}
	return out
}

// supplyMinute is what there was of a pool in one minute; NaN is unknown.
type supplyMinute struct {
	ready, asked float64 // replicas; asked are those ready, on the way, or, where someone obeys, wanted
	capacity     float64 // of one, as the standing decision had it
	learned      float64 // of one, as decisions of the day from this hour on had it
	lag          float64 // minutes
	assumed      bool
	believed     float64 // demand of the minute before, as the decision of this one had it; NaN on stale ones
	stale        bool
	silent       bool // a producer was
	faulty       bool // a producer's clock or telemetry
}

// supplied gives every minute's supply of a resource.
func (b *builder) supplied(pool, resource string) []supplyMinute {
	_, end := b.bounds()
	nan := math.NaN()
	out := slices.Repeat([]supplyMinute{{ready: nan, asked: nan, capacity: nan, learned: nan, lag: nan, believed: nan}}, end)
	var newest *tick
	b.standing(pool, func(t *tick, minute int) {
		x := &out[minute]
		x.ready, x.asked, x.lag, x.assumed = float64(t.ready), float64(t.asked()), t.lag.Minutes(), t.assumed
		x.stale, x.silent, x.faulty = t.stale, t.silent, t.faulty
		for _, c := range t.capacities {
			if c.dimension == resource {
				x.capacity = c.perReplica
				if t != newest {
					x.believed = c.believed
				}
			}
		}
		newest = t
	})
	const hour, day = 60, 1440
	var following []float64
	for from := 0; from < end; from += hour {
		following = following[:0]
		for m := from; m < min(from+day, end); m++ {
			if c := out[m].capacity; !math.IsNaN(c) {
				following = append(following, c)
			}
		}
		slices.Sort(following)
		for m := from; m < min(from+hour, end); m++ {
			out[m].learned = float64(between(following, .5))
		}
	}
	return out
}

// due is how many replicas would be ready in a minute had each taken the lag: the fewest that were asked for in the lag
// before.
func (b *builder) due(supply []supplyMinute, minute int, lag float64) float64 {
	if math.IsNaN(lag) {
		return math.NaN()
	}
	least := math.Inf(1)
	for m := max(0, minute-int(math.Round(lag))); m <= minute; m++ {
		if a := supply[m].asked; a < least {
			least = a
		}
	}
	if math.IsInf(least, 1) {
		return math.NaN()
	}
	return least
}

// retries is the load of all attempts over that of calls in [from, to): of requests by their number, of other resources by
// tokens. 1 where attempts are not reported.
func (b *builder) retries(pool, resource string, from, to int) float64 {
	again, calls := features.DimRetryTokens, []string{features.DimPrefill, features.DimCached, features.DimDecode}
	if resource == features.DimRequests {
		again, calls = features.DimRetry, []string{features.DimRequests}
	}
	sum := func(dimension string) (total float64) {
		demand := b.observed[b.totalOf(pool, dimension)]
		for m := from; m < to; m++ {
			if y := at(demand, m); !math.IsNaN(y) {
				total += y
			}
		}
		return total
	}
	whole := 0.0
	for _, d := range calls {
		whole += sum(d)
	}
	if !(whole > 0) {
		return 1
	}
	return 1 + sum(again)/whole
}
