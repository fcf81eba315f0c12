package forecaster

import (
	"hash/fnv"
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
	"github.com/forewarm/forewarm/forecaster/network"
)

// series is one dimension of one class, or of a pool's total. A forecast has four steps. The network computes quantiles
// from the history. Yesterday and the last value each shift them, as far as they were right before. The calibration
// corrects their coverage. A series learns from one origin in originEvery minutes, because errors of consecutive
// minutes are alike.
//
// A series takes 7 KiB. A minute costs O(1), an origin one pass of the network.
type series struct {
	settle  int   // minutes until an outcome is final
	phase   int64 // minute of origins, modulo originEvery
	history *model.History
	newest  features.Estimate // of the newest minute; Mean NaN if unknown
	counted uint32            // a bit for each of the newest 32 minutes, the newest lowest: 1 if something was counted
	unit    float64           // the network's unit at the newest origin, on the square-root scale
	origins []origin
	began   bool // while the pool was observed

	corrections
}

// corrections are learned from the series' own errors.
type corrections struct {
	Last     [numKnots]slope
	Day      [numKnots]slope
	Model    [numKnots][numStages]tracker
	Coverage Covered // of published quantiles of the window maximum
}

// originEvery is the interval of origins that a series learns from, in minutes.
const originEvery = 5

// OriginsPerDay is the number of origins of a day that a series learns from.
const OriginsPerDay = 1440 / originEvery

// origin is a forecast that waits for outcomes. Quantiles are square roots, as steps of originStep units from Level.
type origin struct {
	Minute            int64 // the newest minute at the forecast; -1: none
	Level, Unit, Last float32
	Stage             int8
	Yesterday         [numKnots]float32
	Quantile          [numKnots][NumLevels]int16
}

const originStep = 1.0 / 256

// knots are the targets, as indices, at which a series learns. In between, corrections are linear in the lead's root.
var knots = [...]int{3, 6, 10, windowMax}

const (
	numKnots = len(knots)
	midKnot  = 1 // 15 minutes ahead
	peakKnot = numKnots - 1
)

// lastKnot is the largest lead of a knot, in minutes.
const lastKnot = WindowTo

func newSeries(key features.Key, settle int) *series {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key.String())) // never fails
	s := &series{settle: settle, phase: int64(hash.Sum64() % originEvery), history: model.NewHistory()}
	s.origins = slices.Repeat([]origin{{Minute: -1}}, (lastKnot+settle)/originEvery+1)
	for j := range s.Model {
		for stage := range s.Model[j] {
			s.Model[j][stage] = newTracker(trackerPrior)
		}
	}
	if key.Class == features.TotalClass {
		s.phase = 0
	}
	return s
}

// push appends minute m with its nowcast (mean NaN: unknown). Skipped minutes are unknown.
func (s *series) push(m int64, now features.Estimate) {
	if s.history.Known > 0 {
		// Outcomes from before a long gap are skipped: only the history gets the gap.
		for gap := max(s.history.Newest+1, m-lastKnot-int64(s.settle)-1); gap < m; gap++ {
			s.step(gap, unknown)
		}
	}
	s.step(m, now)
}

func (s *series) step(m int64, now features.Estimate) {
	s.history.Push(m, now.Mean)
	s.newest = now
	s.counted <<= 1
	s.count(&now, 0)
	if s.history.Known == 0 {
		return
	}
	settled := m - int64(s.settle)
	s.history.Settle(settled)
	s.learn(settled)
	if m%originEvery == s.phase && s.history.Known >= minKnown {
		var v rawForecast
		s.rawForecast(&v)
		s.unit = v.unit
		s.recordOrigin(&v)
	}
}

// amend updates the nowcast of an earlier minute, and returns its change.
func (s *series) amend(m int64, now features.Estimate) (change float64) {
	was := s.history.At(m)
	if !math.IsNaN(now.Mean) && float32(was) != float32(now.Mean) {
		s.history.Amend(m, now.Mean)
		change = now.Mean - zeroIfNaN(was)
	}
	s.count(&now, s.history.Newest-m)
	return change
}

// count notes whether the minute, so many before the newest, has a count: a nowcast above zero does not end silence.
func (s *series) count(now *features.Estimate, before int64) {
	if now.Counted > 0 {
		s.counted |= 1 << before
	}
}

var unknown = features.Estimate{Mean: math.NaN()}

// youngUnit is the unit of a series relative to the root of its mean, before the network computes one.
const youngUnit = 0.3

// origin is the recorded origin of a minute; nil if there is none.
func (s *series) origin(minute int64) *origin {
	if minute < 0 || minute%originEvery != s.phase {
		return nil
	}
	if o := &s.origins[minute/originEvery%int64(len(s.origins))]; o.Minute == minute {
		return o
	}
	return nil
}

// rawForecast is the network's forecast at one origin, on the square-root scale, and the inputs of the corrections.
type rawForecast struct {
	level, unit float64
	last        float64 // root of the last value
	stage       int     // of silence, 0 in traffic: see stageMinutes
	quantiles   [numTargets]rootQuantiles
	yesterday   [numTargets]float64 // what yesterday says minus the network's median; NaN if unknown
	input       *network.Input      // nil without a forecast of the network
}

func (s *series) rawForecast(v *rawForecast) {
	h := s.history
	v.last = math.Sqrt(h.Last())
	if math.IsNaN(v.last) {
		v.last = math.Sqrt(h.Level(model.Level10m))
	}
	v.stage = s.stage()
	in, ok := network.NewInput(h)
	if !ok || s.flat() {
		// Flat or silent for a day: the last value. Unknown for two hours: the level, as wide as the series was before.
		v.level, v.unit = v.last, 0
		if math.IsNaN(h.Mean(h.Newest-119, h.Newest)) {
			v.level = math.Sqrt(h.Level(model.Level10m))
			v.unit = max(s.unit, youngUnit*v.level)
		}
		for k := range v.quantiles {
			v.yesterday[k] = math.NaN()
			for i, x := range gaussian {
				v.quantiles[k][i] = float32(max(0, v.level+v.unit*x))
			}
		}
		return
	}
	v.input, v.level, v.unit = &in, in.Level, in.Spread
	var q network.Quantiles
	network.Fitted().Forecast(&in, &q)
	for k := range v.quantiles {
		for i, z := range q[k] {
			v.quantiles[k][i] = max(0, z)
		}
		v.yesterday[k] = v.level + dayAgoMove(h, targets[k]) - float64(v.quantiles[k][L50])
	}
}

// flat reports whether all known minutes of the last hour are equal, and not zero.
func (s *series) flat() bool {
	h := s.history
	last := h.Last()
	mean, most := h.Mean(h.Newest-59, h.Newest), h.Max(h.Newest-59, h.Newest)
	return h.Known >= coldMinutes && last > 0 && last == most && math.Abs(mean-last) <= 1e-6*last
}

// minWidthShare of the unit is the width between quantiles that coincide.
const minWidthShare = 0.01

// recordOrigin keeps an origin until its outcomes are known.
func (s *series) recordOrigin(v *rawForecast) {
	o := &s.origins[s.history.Newest/originEvery%int64(len(s.origins))]
	if v.unit == 0 {
		o.Minute = -1 // nothing to learn from
		return
	}
	*o = origin{Minute: s.history.Newest, Level: float32(v.level), Unit: float32(v.unit), Last: float32(v.last), Stage: int8(v.stage)}
	for j, k := range knots {
		o.Yesterday[j] = float32(v.yesterday[k])
		for i, z := range v.quantiles[k] {
			o.Quantile[j][i] = int16(max(-32767, min(32767, (float64(z)-v.level)/(originStep*v.unit))))
		}
	}
}

// quantiles are those of the network at knot j.
func (o *origin) quantiles(j int) (a rootQuantiles) {
	for i, n := range o.Quantile[j] {
		a[i] = max(0, o.Level+originStep*o.Unit*float32(n))
	}
	return a
}

// learn learns from the outcomes whose last minute is t.
func (s *series) learn(t int64) {
	for j, k := range knots {
		if o := s.origin(t - int64(targets[k].To)); o != nil {
			s.learnKnot(j, o, t)
		}
	}
}

// learnKnot learns from the outcome of an origin at knot j, whose last minute is t.
func (s *series) learnKnot(j int, o *origin, t int64) {
	y := s.outcome(targets[knots[j]], t)
	if math.IsNaN(y) {
		return
	}
	minWidth := minWidthShare * float64(o.Unit)
	a, own, last, day := o.quantiles(j), &s.Model[j][o.Stage], &s.Last[j], &s.Day[j]
	ahead, off := float64(o.Yesterday[j]), math.Sqrt(y)-float64(a[L50])
	a.shift(day.provenWeight() * ahead)
	if usual := s.history.Move(usualMove).Size; usual > 0 && !math.IsNaN(ahead) {
		day.learn(ahead/usual, off/usual)
	}
	x := scoreOfLast(float64(o.Last), &a, minWidth)
	shift := 0.0
	if o.Stage == 0 {
		shift = last.weight() * x
	}
	published := quantilesAt(&a, &own.Score, shift, minWidth)
	if j == peakKnot {
		s.Coverage.add(y, &published)
	}
	from, to := a.scoreRange(math.Sqrt(y), minWidth)
	own.observe(from-shift, to-shift)
	if o.Stage == 0 {
		last.learn(x, a.score(math.Sqrt(y), minWidth))
	}
}

// knotWeight are the weights of knots j and j+1 for a target.
type knotWeight struct {
	j    int
	a, b float64
}

// knotWeights are linear in the root of the lead; outside the knots the nearest one counts.
var knotWeights = func() (w [numTargets]knotWeight) {
	root := func(k int) float64 { return math.Sqrt(float64(targets[k].To)) }
	for k := range targets[:windowMax] {
		j := 0
		for j < peakKnot-2 && k > knots[j+1] {
			j++
		}
		lo, hi := root(knots[j]), root(knots[j+1])
		w[k].j, w[k].b = j, min(max((root(k)-lo)/(hi-lo), 0), 1)
		w[k].a = 1 - w[k].b
	}
	w[windowMax].j, w[windowMax].b = peakKnot-1, 1
	return w
}()

// minKnown is the number of known minutes before a series has a forecast.
const minKnown = 3

// forecast fills f from the newest minute; false if there is too little history.
func (s *series) forecast(f *Forecast) bool {
	if s.history.Known < minKnown {
		return false
	}
	var v rawForecast
	var at [numTargets]Quantiles // corrected
	s.rawForecast(&v)
	floor, share := s.floor()
	minWidth := minWidthShare * v.unit
	for k := range targets {
		w := &knotWeights[k]
		scores := w.interpolate(&s.Model[w.j][v.stage].Score, &s.Model[w.j+1][v.stage].Score)
		a, shift := v.quantiles[k], 0.0
		a.shift((w.a*s.Day[w.j].provenWeight() + w.b*s.Day[w.j+1].provenWeight()) * v.yesterday[k])
		if v.stage == 0 {
			shift = (w.a*s.Last[w.j].weight() + w.b*s.Last[w.j+1].weight()) * scoreOfLast(v.last, &a, minWidth)
		}
		at[k] = quantilesAt(&a, &scores, shift, minWidth)
		raiseMedian(&at[k], floor, share)
	}
	interpolate(&at, &f.Minute)
	f.WindowMax = at[windowMax]
	f.Last = s.history.Last()
	f.Now = features.Estimate{Mean: f.Last}
	next := at[0][L50]
	switch now := s.newest; {
	case now.Incomplete():
		f.Now = now
	case s.settle > 0 && math.IsNaN(now.Mean):
		f.Now.Mean = next
	}
	f.Known = int(s.history.Known)
	f.Confidence = Seasonal
	if f.Known < coldMinutes {
		f.Confidence = Cold
	} else if f.Known < 2*1440 {
		f.Confidence = Warm
	}
	f.Fallback = s.Last[midKnot].weight() > .5
	f.Basis = Basis{Input: v.input, Covered: s.Coverage, Stage: v.stage}
	return true
}

// coldMinutes is the number of known minutes that a decision needs.
const coldMinutes = 60

// stage is that of the newest minute. An unknown minute counts as traffic, a nowcast without a count does not.
func (s *series) stage() (reached int) {
	for n := range int64(stageMinutes[numStages-2]) {
		y := s.history.At(s.history.Newest - n)
		traffic := y != 0
		if n < 32 && !math.IsNaN(y) {
			traffic = s.counted&(1<<n) != 0
		}
		if traffic {
			break
		}
		if n+1 == int64(stageMinutes[reached]) {
			reached++
		}
	}
	return reached
}

// outcome is that of a target whose last minute is t; NaN if one of its minutes is unknown.
func (s *series) outcome(x network.Span, t int64) float64 {
	best := math.Inf(-1)
	for m := t - int64(x.To-x.From); m <= t; m++ {
		y := s.history.At(m)
		if math.IsNaN(y) {
			return y
		}
		best = math.Max(best, y)
	}
	return best
}

// unroot inverts the square root; negative roots are zero.
func unroot(z float64) float64 {
	if z <= 0 {
		return 0
	}
	return z * z
}
