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

// origins is the index of the first origin that is read, and how many there may be.
func (b *builder) origins() (first, n int) {
	first, end := b.bounds()
	first -= int(lookback / features.Minute)
	return first, end - first
}

// errorsAhead is how many minutes ahead the forecasts of a pool are whose errors are explained: those that decisions need, of
// the horizons in f the first that is not shorter than the lead of the newest decision; the longest where all are shorter. 0
// without decisions.
func (b *builder) errorsAhead(f *forecaster.Forecast) (ahead int) {
	ticks := b.ticks[f.Pool]
	if len(ticks) == 0 {
		return 0
	}
	lead := ticks[len(ticks)-1].lead
	for h := range f.Minute {
		if !math.IsNaN(f.Minute[h][forecaster.L50]) {
			if ahead = h + 1; time.Duration(ahead)*features.Minute >= lead {
				break
			}
		}
	}
	return ahead
}

// note keeps what the errors of a pool are found from: the medians of its total, and then those of its classes where errors
// are explained.
func (b *builder) note(f *forecaster.Forecast) {
	first, n := b.origins()
	origin := b.index(f.Origin) - first
	if origin < 0 || origin >= n {
		return
	}
	if b.ahead[f.Pool] == 0 {
		b.ahead[f.Pool] = b.errorsAhead(f)
	}
	ahead, key := b.ahead[f.Pool], seriesKey{f.Key, f.Dimension}
	switch {
	case ahead == 0:
	case f.Class != features.TotalClass:
		b.wrong(f.Pool).note(key, f, ahead, origin)
	default:
		if b.medians[key] == nil {
			b.medians[key] = slices.Repeat([]float32{float32(math.NaN())}, n)
		}
		b.medians[key][origin] = float32(f.Minute[ahead-1][forecaster.L50])
	}
}

// point is one forecast of a resource, and what came.
type point struct {
	minute int // that it is held against
	origin int
	of     [2]side // forecast, actual
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

// errorRun is a run of forecasts of one resource that were far off in one direction.
type errorRun struct {
	resource string
	step     int // minutes that each forecast stands for
	incident int
	points   []point
	size     float64 // Σ|error| · step
	high     bool    // more came than was forecast
}

// An errorRun covers the minutes [from, to).
func (s *errorRun) from() int { return s.points[0].minute }
func (s *errorRun) to() int   { return s.points[len(s.points)-1].minute + s.step }

// near says whether two runs overlap, or are at most so many minutes apart.
func (s *errorRun) near(o *errorRun, apart int) bool {
	return s.from()-o.to() <= apart && o.from()-s.to() <= apart
}

// wrong is what of a pool was forecast wrongly: the errors that are explained, and what classes were forecast to ask for
// then.
type wrong struct {
	errorRuns []*errorRun // by incident, the one that is shown first
	counts    []LargeErrors
	slots     []int32 // by origin: where medians of classes are kept, 0 where none are
	kept      int32   // slots
	classes   map[seriesKey][]float32
}

// wrong finds the large errors of a pool, when its totals have been read.
func (b *builder) wrong(pool string) *wrong {
	if w := b.wrongs[pool]; w != nil {
		return w
	}
	first, n := b.origins()
	w := &wrong{counts: []LargeErrors{}, slots: make([]int32, n), classes: map[seriesKey][]float32{}}
	b.wrongs[pool] = w
	var all []*errorRun
	for _, d := range features.Dimensions {
		count, list := b.errorRuns(pool, d.Name)
		if all = append(all, list...); count.Forecasts > 0 {
			w.counts = append(w.counts, count)
		}
	}
	w.choose(all, int(b.options.Merge/features.Minute), max(leastExplained, errorsExplained/max(len(b.ticks), 1)))
	for _, s := range w.errorRuns {
		for i := range w.counts {
			if c := &w.counts[i]; c.Resource == s.resource {
				c.Explained++
				c.ExplainedSize += Number(s.size)
			}
		}
		s.points = thin(s.points, minutesAttributed)
		for _, p := range s.points {
			if slot := &w.slots[p.origin-first]; *slot == 0 {
				w.kept++
				*slot = w.kept
			}
		}
	}
	return w
}

// choose groups runs into incidents until so many runs are chosen. The largest run that is left begins an incident. Runs of the
// same sign belong to it that overlap it or are at most so many minutes apart from it. Incidents are numbered by time. The
// largest run of each comes first.
func (w *wrong) choose(all []*errorRun, apart, most int) {
	slices.SortStableFunc(all, func(x, y *errorRun) int { return cmp.Compare(y.size, x.size) })
	var incidents [][]*errorRun
	for n := 0; len(all) > 0 && n < most; {
		lead := all[0]
		same := func(s *errorRun) bool { return s.high == lead.high && s.near(lead, apart) }
		var incident []*errorRun
		for _, s := range all {
			if same(s) && n < most {
				incident = append(incident, s)
				n++
			}
		}
		all = slices.DeleteFunc(all, same)
		incidents = append(incidents, incident)
	}
	slices.SortStableFunc(incidents, func(x, y []*errorRun) int { return cmp.Compare(x[0].from(), y[0].from()) })
	for i, incident := range incidents {
		for _, s := range incident {
			s.incident = i + 1
			w.errorRuns = append(w.errorRuns, s)
		}
	}
}

// note keeps the medians of a class for the errors that are explained.
func (w *wrong) note(key seriesKey, f *forecaster.Forecast, ahead, origin int) {
	slot := w.slots[origin]
	if slot == 0 {
		return
	}
	if w.classes[key] == nil {
		w.classes[key] = slices.Repeat([]float32{float32(math.NaN())}, int(w.kept))
	}
	w.classes[key][slot-1] = float32(f.Minute[ahead-1][forecaster.L50])
}

// foreseen is the median of a class or of a pool's total, issued at an origin; NaN where none is kept.
func (b *builder) foreseen(key seriesKey, origin int) float64 {
	first, _ := b.origins()
	if key.Class == features.TotalClass {
		return median(b.medians[key], origin-first)
	}
	w := b.wrong(key.Pool)
	return median(w.classes[key], int(w.slots[origin-first])-1)
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
	for _, s := range b.wrong(pool).errorRuns {
		e, err := b.explain(ctx, h, pool, s)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// errorRuns are the runs of large errors of one resource. A run has one sign, and no gap longer than Options.Merge.
func (b *builder) errorRuns(pool, resource string) (count LargeErrors, out []*errorRun) {
	all := b.pointsOf(pool, resource)
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
		if n < 0 || time.Duration(p.minute-out[n].points[len(out[n].points)-1].minute-step)*features.Minute > b.options.Merge || out[n].high != (offs[i] > 0) {
			out = append(out, &errorRun{resource: resource, step: step, high: offs[i] > 0})
			n++
		}
		out[n].points = append(out[n].points, p)
		out[n].size += math.Abs(offs[i]) * float64(step)
	}
	out = slices.DeleteFunc(out, func(s *errorRun) bool { return s.size < leastSize })
	count = LargeErrors{Resource: resource, Horizon: strconv.Itoa(b.ahead[pool]), Forecasts: len(all), Large: Number(large), Episodes: len(out)}
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
		apart[i] = all[i+1].minute - all[i].minute
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
func (b *builder) pointsOf(pool, resource string) (out []point) {
	key := b.totalOf(pool, resource)
	demand, supply := b.observed[key], b.supplied(pool, resource)
	first, end := b.bounds()
	for m := first; m < end; m++ {
		p := point{minute: m, origin: m - b.ahead[pool] + 1}
		foreseen := b.foreseen(key, p.origin)
		if math.IsNaN(foreseen) {
			continue
		}
		issued, now := &supply.minutes[max(p.origin, 0)], &supply.minutes[p.minute]
		p.of = [2]side{
			{demand: foreseen, retries: b.loadFactor(key, p.origin-1), capacity: issued.capacity, ready: b.due(supply.minutes, p.minute, issued.lag), seen: 1},
			{demand: at(demand, p.minute), retries: b.loadFactor(key, p.minute), capacity: now.learned, ready: now.ready, seen: 1},
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

// supplyMinute is what there was of a pool in one minute; NaN is unknown.
type supplyMinute struct {
	ready, asked float64 // replicas; asked are those ready, on the way, or, where someone obeys, wanted
	capacity     float64 // of one, as the decision in force had it
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
	minutes []supplyMinute
	usual   float64 // from which logarithm of nowcast on records came later than they usually do
}

// supplied gives every minute's supply of a resource. That of one pool is remembered.
func (b *builder) supplied(pool, resource string) *supply {
	if b.supplyOf != pool || b.supplies == nil {
		b.supplyOf, b.supplies = pool, map[string]*supply{}
	}
	s := b.supplies[resource]
	if s == nil {
		s = &supply{minutes: b.supplyMinutes(pool, resource)}
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
	b.eachMinute(pool, func(t *tick, minute int) {
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

// noteLoadFactors notes what each decision had for the load of all attempts over that of calls, for the minutes since the one before; what
// follows on the last one is as it has it. Longer silences than holdMost are gaps.
func (b *builder) noteLoadFactors(pool string) {
	_, end := b.bounds()
	ticks, most := b.ticks[pool], int(holdMost/features.Minute)
	from := 0
	for i := range ticks {
		at := b.index(ticks[i].at)
		to := at
		if i == len(ticks)-1 {
			to += most
		}
		for _, c := range slices.Concat(ticks[i].capacities, ticks[i].prompts) {
			key := b.totalOf(pool, c.dimension)
			for m := max(from, at-most, 0); m < min(to, end) && c.retries > 1; m++ {
				if b.retries[key] == nil {
					b.retries[key] = slices.Repeat([]float64{1}, end)
				}
				b.retries[key][m] = c.retries
			}
		}
		from = at
	}
}

// loadFactor is the load of all attempts over that of calls, of a pool in a minute.
func (b *builder) loadFactor(key seriesKey, minute int) float64 {
	if all := b.retries[key]; minute >= 0 && minute < len(all) {
		return all[minute]
	}
	return 1
}

// loadOf is what a pool's replicas had to do in a minute: all attempts, where demand counts each call once.
func (b *builder) loadOf(pool, resource string, minute int) float64 {
	key := b.totalOf(pool, resource)
	return at(b.observed[key], minute) * b.loadFactor(key, minute)
}
