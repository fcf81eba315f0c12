package report

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

const (
	// errorsExplained bounds the errors of a report that are explained, in equal shares for its pools, but leastExplained
	// of each; the others are counted.
	errorsExplained, leastExplained = 500, 20
	// minutesAttributed bounds the forecasts of one that are looked at; of a longer one they are spread evenly.
	minutesAttributed = 240
	// leastError is the utilisation by which a large error is off at least.
	leastError = 0.1
	// leastSize is the sum of errors, over the minutes that the forecasts of an episode stand for, from which it is more than
	// a restless minute.
	leastSize = 0.5
	// farOff is by how many standard deviations of the usual error it is off.
	farOff = 2
	// perMAD are the standard deviations of a normal distribution in its median absolute deviation.
	perMAD = 1.4826
	// recentMinutes before an origin are what is known of the present there.
	recentMinutes = 15
)

// windowMax stands for the window maximum where other horizons are minutes ahead.
const windowMax = 0

// horizonName is a horizon as reports have it.
func horizonName(ahead int) string {
	if ahead == windowMax {
		return forecaster.HorizonWindowMax
	}
	return strconv.Itoa(ahead)
}

// medians are those of a pool's total in one dimension, by horizon, then origin from the first that is read.
type medians map[int][]float32

// origins is the index of the first origin that is read, and how many there may be.
func (b *builder) origins() (first, n int) {
	first, end := b.bounds()
	first -= int(lookback / features.Minute)
	return first, end - first
}

// note keeps what the errors of a pool are found from: the medians of its total at every horizon that is stored, and then
// those of its classes where errors are explained.
func (b *builder) note(f *forecaster.Forecast) {
	first, n := b.origins()
	origin := b.index(f.Origin) - first
	if origin < 0 || origin >= n {
		return
	}
	if f.Class != features.TotalClass {
		b.wrong(f.Pool).note(f, origin)
		return
	}
	key := seriesKey{f.Key, f.Dimension}
	if b.medians[key] == nil {
		b.medians[key] = medians{}
	}
	keep := func(ahead int, median float64) {
		if math.IsNaN(median) {
			return
		}
		if b.medians[key][ahead] == nil {
			b.medians[key][ahead] = slices.Repeat([]float32{float32(math.NaN())}, n)
		}
		b.medians[key][ahead][origin] = float32(median)
	}
	keep(windowMax, f.WindowMax[forecaster.L50])
	for h := range f.Minute {
		keep(h+1, f.Minute[h][forecaster.L50])
	}
}

// point is one forecast of a resource, and what came.
type point struct {
	minute  int // that it is held against: of a window the one with the largest demand
	origin  int
	settled int     // the minute that it belongs to: of a window the last
	of      [2]side // forecast, actual
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

// stretch is an error in the making: a run of forecasts of one resource at one horizon.
type stretch struct {
	resource string
	ahead    int
	step     int // minutes that each forecast stands for
	story    int
	points   []point
	size     float64 // Σ|error| · step
	high     bool    // more came than was forecast
}

// The minutes that a stretch stands for are [from, to).
func (s *stretch) from() int { return s.points[0].minute }
func (s *stretch) to() int   { return s.points[len(s.points)-1].minute + s.step }

// near says whether two stretches overlap, or are no further than so many minutes apart.
func (s *stretch) near(o *stretch, apart int) bool {
	return s.from()-o.to() <= apart && o.from()-s.to() <= apart
}

// wrong is what of a pool was forecast wrongly: the errors that are explained, and what classes were forecast to ask for
// then.
type wrong struct {
	stretches []*stretch // by story, the one that is told first
	counts    []LargeErrors
	slots     map[int][]int32 // by horizon and origin: where medians of classes are kept, 0 where none are
	kept      int32           // slots
	classes   map[seriesKey][]float32
}

// wrong finds the large errors of a pool, when its totals have been read.
func (b *builder) wrong(pool string) *wrong {
	if w := b.wrongs[pool]; w != nil {
		return w
	}
	w := &wrong{counts: []LargeErrors{}, slots: map[int][]int32{}, classes: map[seriesKey][]float32{}}
	b.wrongs[pool] = w
	var all []*stretch
	for _, d := range features.Dimensions {
		found := b.medians[b.totalOf(pool, d.Name)]
		for _, ahead := range slices.SortedFunc(maps.Keys(found), horizonOrder) {
			count, list := b.stretches(pool, d.Name, ahead)
			if all = append(all, list...); count.Forecasts > 0 {
				w.counts = append(w.counts, count)
			}
		}
	}
	w.choose(all, int(b.options.Merge/features.Minute), max(leastExplained, errorsExplained/max(len(b.ticks), 1)))
	first, n := b.origins()
	for _, s := range w.stretches {
		for i := range w.counts {
			if c := &w.counts[i]; c.Resource == s.resource && c.Horizon == horizonName(s.ahead) {
				c.Explained++
				c.ExplainedSize += Number(s.size)
			}
		}
		s.points = thin(s.points, minutesAttributed)
		if w.slots[s.ahead] == nil {
			w.slots[s.ahead] = make([]int32, n)
		}
		for _, p := range s.points {
			if slot := &w.slots[s.ahead][p.origin-first]; *slot == 0 {
				w.kept++
				*slot = w.kept
			}
		}
	}
	return w
}

// horizonOrder has minutes ascending, the window maximum last.
func horizonOrder(x, y int) int {
	return cmp.Or(boolFirst(y == windowMax, x == windowMax), cmp.Compare(x, y))
}

// choose makes stories of stretches, of which most are explained: those that err the same way at the same time as the
// largest, or no further than so many minutes apart from it, are one. Stories are numbered and ordered by time, and told by their largest stretch at the headline's horizon.
func (w *wrong) choose(all []*stretch, apart, most int) {
	slices.SortStableFunc(all, func(x, y *stretch) int { return cmp.Compare(y.size, x.size) })
	var stories [][]*stretch
	for n := 0; len(all) > 0 && n < most; {
		lead := all[0]
		same := func(s *stretch) bool { return s.high == lead.high && s.near(lead, apart) }
		var story []*stretch
		for _, s := range all {
			if same(s) && n < most {
				story = append(story, s)
				n++
			}
		}
		all = slices.DeleteFunc(all, same)
		slices.SortStableFunc(story, func(x, y *stretch) int {
			return cmp.Or(cmp.Compare(far(horizonName(x.ahead)), far(horizonName(y.ahead))), cmp.Compare(y.size, x.size))
		})
		stories = append(stories, story)
	}
	slices.SortStableFunc(stories, func(x, y []*stretch) int { return cmp.Compare(x[0].from(), y[0].from()) })
	for i, story := range stories {
		for _, s := range story {
			s.story = i + 1
			w.stretches = append(w.stretches, s)
		}
	}
}

// note keeps the medians of a class for the errors that are explained.
func (w *wrong) note(f *forecaster.Forecast, origin int) {
	for ahead, slots := range w.slots {
		slot := slots[origin]
		if slot == 0 {
			continue
		}
		key := seriesKey{f.Key, f.Dimension}
		if w.classes[key] == nil {
			w.classes[key] = slices.Repeat([]float32{float32(math.NaN())}, int(w.kept))
		}
		q := &f.WindowMax
		if ahead != windowMax {
			q = &f.Minute[ahead-1]
		}
		w.classes[key][slot-1] = float32(q[forecaster.L50])
	}
}

// foreseen is the median of a class or of a pool's total, issued at an origin for a horizon; NaN where none is kept.
func (b *builder) foreseen(key seriesKey, ahead, origin int) float64 {
	first, _ := b.origins()
	if key.Class == features.TotalClass {
		return median(b.medians[key][ahead], origin-first)
	}
	w := b.wrong(key.Pool)
	return median(w.classes[key], int(w.slots[ahead][origin-first])-1)
}

func median(kept []float32, i int) float64 {
	if i < 0 || i >= len(kept) {
		return math.NaN()
	}
	return float64(kept[i])
}

// errors explains the large errors of a pool's forecasts in utilisation.
func (b *builder) errors(ctx context.Context, h History, pool string) ([]ErrorEpisode, error) {
	out := []ErrorEpisode{}
	for _, s := range b.wrong(pool).stretches {
		e, err := b.explain(ctx, h, pool, s)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// stretches are the runs of large errors of one resource at one horizon: of one sign, the minutes that they stand for no
// further apart than Options.Merge.
func (b *builder) stretches(pool, resource string, ahead int) (count LargeErrors, out []*stretch) {
	all := b.pointsOf(pool, resource, ahead)
	offs := make([]float64, len(all))
	for i := range all {
		offs[i] = all[i].error()
	}
	large, step := max(leastError, farOff*perMAD*deviation(offs)), spacing(all)
	for i := range all {
		p := all[i]
		if math.Abs(offs[i]) < large {
			continue
		}
		n := len(out) - 1
		if n < 0 || time.Duration(p.settled-out[n].points[len(out[n].points)-1].settled-step)*features.Minute > b.options.Merge || out[n].high != (offs[i] > 0) {
			out = append(out, &stretch{resource: resource, ahead: ahead, step: step, high: offs[i] > 0})
			n++
		}
		out[n].points = append(out[n].points, p)
		out[n].size += math.Abs(offs[i]) * float64(step)
	}
	out = slices.DeleteFunc(out, func(s *stretch) bool { return s.size < leastSize })
	count = LargeErrors{Resource: resource, Horizon: horizonName(ahead), Forecasts: len(all), Large: Number(large), Episodes: len(out)}
	for _, s := range out {
		count.Minutes += len(s.points) * step
		count.Size += Number(s.size)
	}
	return count, out
}

// spacing is how many minutes a forecast stands for: those from one to the next, the median of them where some are missing
// (the upper one of two).
func spacing(all []point) int {
	if len(all) < 2 {
		return 1
	}
	apart := make([]int, len(all)-1)
	for i := range apart {
		apart[i] = all[i+1].settled - all[i].settled
	}
	slices.Sort(apart)
	return apart[len(apart)/2]
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

// pointsOf are the forecasts about the period of which all is known that utilisation takes.
func (b *builder) pointsOf(pool, resource string, ahead int) (out []point) {
	key := b.totalOf(pool, resource)
	demand, supply := b.observed[key], b.supplied(pool, resource)
	first, end := b.bounds()
	for m := first; m < end; m++ {
		p := point{minute: m, origin: m - ahead + 1, settled: m}
		if ahead == windowMax {
			p.origin = m - forecaster.WindowTo + 1
			p.minute = largest(demand, p.origin+forecaster.WindowFrom-1, m+1)
		}
		foreseen := b.foreseen(key, ahead, p.origin)
		if math.IsNaN(foreseen) || p.minute < 0 {
			continue
		}
		issued, now := &supply.minutes[max(p.origin, 0)], &supply.minutes[p.minute]
		p.of = [2]side{
			{demand: foreseen, retries: supply.retriesBefore[p.origin], capacity: issued.capacity, ready: b.due(supply.minutes, p.minute, issued.lag), seen: 1},
			{demand: at(demand, p.minute), retries: supply.retries[p.minute], capacity: now.learned, ready: now.ready, seen: 1},
		}
		if now.assumed {
			p.of[forecasted].ready = now.ready
		}
		if e := p.error(); !math.IsNaN(e) && !math.IsInf(e, 0) && p.of[forecasted].capacity > 0 && p.of[actual].capacity > 0 {
			out = append(out, p)
		}
	}
	return out
}

// largest is the first minute of [from, to) with the largest demand, -1 where one is not known.
func largest(demand []float64, from, to int) int {
	most := from
	for m := from; m < to; m++ {
		switch y := at(demand, m); {
		case math.IsNaN(y):
			return -1
		case y > at(demand, most):
			most = m
		}
	}
	return most
}

// supplyMinute is what there was of a pool in one minute; NaN is unknown.
type supplyMinute struct {
	ready, asked float64 // replicas; asked are those ready, on the way, or, where someone obeys, wanted
	capacity     float64 // of one, as the standing decision had it
	learned      float64 // of one, as decisions of the day from this hour on had it
	lag          float64 // minutes
	assumed      bool    // nothing tells when replicas came
	unreported   bool    // replicas are those last asked for, of a role that does not report
	believed     float64 // demand of the minute before, as the decision of this one had it; NaN on stale ones
	stale        bool
	silent       bool // a producer was
	faulty       bool // a producer's clock or telemetry
}

// supply is what there was of a pool in one resource, by minute.
type supply struct {
	minutes                []supplyMinute
	retries, retriesBefore []float64 // the load of all attempts over that of calls: in the minute, and in recentMinutes before it
	usual                  float64   // from which logarithm of nowcast on records came later than they usually do
}

// supplied gives every minute's supply of a resource. That of one pool is remembered.
func (b *builder) supplied(pool, resource string) *supply {
	if b.supplyOf != pool || b.supplies == nil {
		b.supplyOf, b.supplies = pool, map[string]*supply{}
	}
	s := b.supplies[resource]
	if s == nil {
		s = &supply{minutes: b.supplyMinutes(pool, resource)}
		s.retries, s.retriesBefore = b.retries(pool, resource)
		s.usual = b.usualNowcast(s.minutes, b.observed[b.totalOf(pool, resource)])
		b.supplies[resource] = s
	}
	return s
}

func (b *builder) supplyMinutes(pool, resource string) []supplyMinute {
	_, end := b.bounds()
	nan := math.NaN()
	out := slices.Repeat([]supplyMinute{{ready: nan, asked: nan, capacity: nan, learned: nan, lag: nan, believed: nan}}, end)
	var newest *tick
	b.standing(pool, func(t *tick, minute int) {
		x := &out[minute]
		x.ready, x.asked, x.lag, x.assumed = float64(t.ready), float64(t.asked()), t.lag.Minutes(), t.assumed
		x.stale, x.silent, x.faulty = t.stale, t.silent, t.faulty
		capacities := t.capacities
		if x.unreported = t.roles && resource == features.DimPrefill; x.unreported {
			x.ready, x.asked, x.assumed, capacities = float64(t.prompters), float64(t.prompters), true, t.prompts
		}
		for _, c := range capacities {
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

// retries is, by minute, the load of all attempts over that of calls, in the minute and in the minutes before it: of
// requests by their number, of other resources by tokens. 1 where attempts are not reported.
func (b *builder) retries(pool, resource string) (in, before []float64) {
	again, calls := features.DimRetryTokens, []string{features.DimPrefill, features.DimDecode}
	if resource == features.DimRequests {
		again, calls = features.DimRetry, []string{features.DimRequests}
	}
	_, end := b.bounds()
	more, whole := make([]float64, end), make([]float64, end)
	add := func(to []float64, dimension string) {
		demand := b.observed[b.totalOf(pool, dimension)]
		for m := range to {
			to[m] += zeroIfUnknown(at(demand, m))
		}
	}
	add(more, again)
	for _, d := range calls {
		add(whole, d)
	}
	ratio := func(from, to int) float64 {
		x, y := sum(more[max(from, 0):to]), sum(whole[max(from, 0):to])
		if !(y > 0) {
			return 1
		}
		return 1 + x/y
	}
	in, before = make([]float64, end), make([]float64, end)
	for m := range end {
		in[m], before[m] = ratio(m, m+1), ratio(m-recentMinutes, m)
	}
	return in, before
}

func sum(v []float64) (total float64) {
	for _, x := range v {
		total += x
	}
	return total
}
