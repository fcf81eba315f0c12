package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
	"github.com/forewarm/forewarm/forecaster/network"
)

// series is one dimension of one class, or of a pool's total. Its forecast has four parts. The network reads the history and
// gives quantiles. Yesterday and the last value each shift them, as far as they were right before. The calibration corrects
// their coverage. A series learns from one origin in originEvery minutes: errors of consecutive minutes are much alike.
//
// A series takes 6 KiB on its first day and 8 KiB after a week. A minute costs O(1), an origin one pass of the network.
type series struct {
	settle  int   // minutes until an outcome can no longer be amended
	turn    int64 // origins are learned from at minutes that are this modulo originEvery
	learned int64 // the newest minute that was learned from
	history *model.History
	anchor  anchor
	unit    float64 // the network's unit of the series at the newest origin, on the square-root scale
	origins []origin
	began   bool // while the pool was watched

	learnt
}

// learnt is what a series has learned of its own errors.
type learnt struct {
	Last     [numKnots]slope
	Day      [numKnots]slope
	Model    [numKnots]calibration
	Coverage [2]Covered // of what was published, 15 minutes ahead and of the window's maximum
}

// originEvery is the spacing of the origins that a series learns from, in minutes.
const originEvery = 5

// OriginsPerDay is how many origins of a day a series learns from.
const OriginsPerDay = 1440 / originEvery

// origin is a forecast whose outcomes are still to come. Quantiles are on the square-root scale: distances from Level in
// steps of originStep units.
type origin struct {
	Minute            int64 // the newest minute when the forecast was made; -1: none
	Level, Unit, Last float32
	Stage             int8
	Yesterday         [numKnots]float32
	Quantile          [numKnots][NumLevels]int16
}

const originStep = 1.0 / 256

// knots are the targets, as indices, at which a series learns. Between them, what was learned is linear in the
// root of the lead.
var knots = [...]int{3, 6, 10, windowMax}

const (
	numKnots = len(knots)
	midKnot  = 1 // 15 minutes ahead
	peakKnot = numKnots - 1
)

// lastKnot is how many minutes after an origin its last outcome comes.
const lastKnot = WindowTo

// newSeries returns an empty series.
func newSeries(key features.Key, settle int) *series {
	s := &series{settle: settle, turn: int64(seed(key.String()) % originEvery), history: model.NewHistory()}
	s.origins = make([]origin, (lastKnot+settle)/originEvery+2)
	for i := range s.origins {
		s.origins[i].Minute = -1
	}
	s.learnt = newLearnt()
	if key.Class == features.TotalClass {
		s.turn = 0
	}
	return s
}

func newLearnt() (l learnt) {
	for k := range l.Model {
		l.Model[k] = newCalibration()
	}
	return l
}

// push takes minute m with what it will come to (mean NaN: not known). Minutes that were skipped are not known.
func (s *series) push(m int64, now features.Estimate) {
	if s.history.Known == 0 {
		s.learned = max(s.learned, m-int64(s.settle)-1) // there is nothing before
	} else {
		// After a long gap no outcome is waited for: the history alone takes note of it.
		first := max(s.history.Newest+1, m-lastKnot-int64(s.settle)-1)
		if first > s.history.Newest+1 {
			s.learned = max(s.learned, first-int64(s.settle)-1)
		}
		for gap := first; gap < m; gap++ {
			s.step(gap, unknown)
		}
	}
	s.step(m, now)
}

func (s *series) step(m int64, now features.Estimate) {
	s.history.Push(m, now.Mean)
	s.anchor.move(now, s.history.Level(model.Level10m))
	if s.history.Known == 0 {
		return
	}
	s.learned = max(s.learned, m-int64(s.settle)-1)
	for t := s.learned + 1; t <= m-int64(s.settle); t++ {
		s.history.Settle(t)
		s.learn(t)
		s.learned = t
	}
	if m%originEvery == s.turn && s.history.Known >= minKnown {
		var v view
		s.look(&v)
		s.unit = v.unit
		s.keep(&v)
	}
}

// amend takes what an earlier minute will come to by now, and says whether that is something else than before.
func (s *series) amend(m int64, now features.Estimate) (changed bool) {
	was := s.history.At(m)
	if changed = !math.IsNaN(now.Mean) && float32(was) != float32(now.Mean); changed {
		s.history.Amend(m, now.Mean)
	}
	s.learnReporting(m, &now, was)
	return changed
}

// learnReporting takes how well an earlier minute is known by now. The history has what it will come to; before that it had was.
func (s *series) learnReporting(m int64, e *features.Estimate, was float64) {
	unit := s.unit
	if unit == 0 {
		unit = youngUnit * math.Sqrt(s.history.Level(model.Level1d))
	}
	if math.Abs(math.Sqrt(s.history.At(m))-math.Sqrt(was)) > grownShare*unit {
		s.anchor.Grown += grownGain
	}
	s.anchor.learnReporting(e, s.history.Newest-m)
}

// youngUnit is the unit of a series relative to the root of its mean, before the network knows it.
const youngUnit = 0.3

// origin is the one of a minute, nil when it was not kept.
func (s *series) origin(minute int64) *origin {
	if minute < 0 || minute%originEvery != s.turn {
		return nil
	}
	if o := &s.origins[minute/originEvery%int64(len(s.origins))]; o.Minute == minute {
		return o
	}
	return nil
}

// view is what a series looks like at one origin: the quantiles of the network, on the square-root scale, and what last
// value and calibration go by.
type view struct {
	level, unit float64
	last        float64 // root of the last value
	stage       stage
	axis        [numTargets]axis
	yesterday   [numTargets]float64 // how far the network's median lies below what yesterday says; NaN when not known
	input       *network.Input      // nil where the network has nothing to go by
}

// look reads the history.
func (s *series) look(v *view) {
	h := s.history
	v.last = math.Sqrt(h.Last(5))
	if math.IsNaN(v.last) {
		v.last = math.Sqrt(h.Level(model.Level10m))
	}
	v.stage = stageOf(s.quiet())
	in, ok := network.NewInput(h)
	if !ok || s.flat() {
		// Flat or silent for a day: the last value. Unknown for two hours: the level, as wide as the series was before.
		v.level, v.unit = v.last, 0
		if math.IsNaN(h.Mean(h.Newest-119, h.Newest)) {
			v.level = math.Sqrt(h.Level(model.Level10m))
			v.unit = max(s.unit, youngUnit*v.level)
		}
		for k := range v.axis {
			v.yesterday[k] = math.NaN()
			for i, x := range gaussian {
				v.axis[k][i] = float32(max(0, v.level+v.unit*x))
			}
		}
		return
	}
	v.input, v.level, v.unit = &in, in.Level, in.Spread
	var q network.Quantiles
	network.Fitted().Forecast(&in, &q)
	for k := range v.axis {
		for i, z := range q[k] {
			v.axis[k][i] = max(0, z)
		}
		v.yesterday[k] = v.level + yesterdays(h, targets[k]) - float64(v.axis[k][L50])
	}
}

// flat says that no known minute of the last hour differed from the others, and that something came.
func (s *series) flat() bool {
	h := s.history
	last := h.Last(5)
	return h.Known >= coldMinutes && last > 0 && last == h.Max(h.Newest-59, h.Newest) && math.Abs(h.Mean(h.Newest-59, h.Newest)-last) <= 1e-6*last
}

// least is the least width between quantiles that coincide.
func (v *view) least() float64 { return leastWidth * v.unit }

const leastWidth = 0.01

// keep notes an origin, to learn from it when its outcomes are known.
func (s *series) keep(v *view) {
	o := &s.origins[s.history.Newest/originEvery%int64(len(s.origins))]
	if v.unit == 0 {
		o.Minute = -1 // nothing to learn from
		return
	}
	*o = origin{Minute: s.history.Newest, Level: float32(v.level), Unit: float32(v.unit), Last: float32(v.last), Stage: int8(v.stage)}
	for j, k := range knots {
		o.Yesterday[j] = float32(v.yesterday[k])
		for i, z := range v.axis[k] {
			o.Quantile[j][i] = int16(max(-32767, min(32767, (float64(z)-v.level)/(originStep*v.unit))))
		}
	}
}

// axis is what the network gave at knot j.
func (o *origin) axis(j int) (a axis) {
	for i, n := range o.Quantile[j] {
		a[i] = max(0, o.Level+originStep*o.Unit*float32(n))
	}
	return a
}

// learn takes the outcomes that are known with minute t.
func (s *series) learn(t int64) {
	for j, k := range knots {
		if o := s.origin(t - int64(targets[k].to)); o != nil {
			s.learnKnot(j, o, t)
		}
	}
}

// learnKnot takes the outcome of an origin at knot j, whose last minute is t.
func (s *series) learnKnot(j int, o *origin, t int64) {
	y := s.outcome(targets[knots[j]], t)
	if math.IsNaN(y) {
		return
	}
	least := leastWidth * float64(o.Unit)
	a, own, last, day := o.axis(j), &s.Model[j][o.Stage], &s.Last[j], &s.Day[j]
	ahead, off := float64(o.Yesterday[j]), math.Sqrt(y)-float64(a[L50])
	a.move(day.proven() * ahead)
	if usual := s.history.Move(usualMove).Size; usual > 0 && !math.IsNaN(ahead) {
		day.learn(ahead/usual, off/usual)
	}
	x := scoreOfLast(float64(o.Last), &a, least)
	shift := 0.0
	if o.Stage == 0 {
		shift = last.weight() * x
	}
	said := warp(&a, &own.Score, shift, least)
	switch j {
	case midKnot:
		s.Coverage[0].add(y, &said)
	case peakKnot:
		s.Coverage[1].add(y, &said)
	}
	from, to := a.span(math.Sqrt(y), least)
	own.follow(from-shift, to-shift)
	if o.Stage == 0 {
		last.learn(x, a.score(math.Sqrt(y), least))
	}
}

// distributions are the forecasts of all targets from what a series looks like.
func (s *series) distributions(v *view, at *[numTargets]Quantiles) {
	floor, share := s.floor()
	for k := range targets {
		w := &knotWeights[k]
		scores := w.between(&s.Model[w.j][v.stage].Score, &s.Model[w.j+1][v.stage].Score)
		a, shift := v.axis[k], 0.0
		a.move((w.a*s.Day[w.j].proven() + w.b*s.Day[w.j+1].proven()) * v.yesterday[k])
		if v.stage == 0 {
			shift = (w.a*s.Last[w.j].weight() + w.b*s.Last[w.j+1].weight()) * scoreOfLast(v.last, &a, v.least())
		}
		q := warp(&a, &scores, shift, v.least())
		lift(&q, floor, share)
		s.anchor.widen(&q)
		at[k] = q
	}
}

// knotWeight is the two knots that surround a target, j and j+1, and their parts in what holds for it.
type knotWeight struct {
	j    int
	a, b float64
}

// knotWeights are linear in the root of the lead. Before the first knot and beyond the last lead, the nearest one counts.
var knotWeights = func() (w [numTargets]knotWeight) {
	root := func(k int) float64 { return math.Sqrt(float64(targets[k].to)) }
	for k := range targets[:numLeads] {
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

// minKnown is the number of known minutes before a series answers at all.
const minKnown = 3

// forecast fills f from the newest minute; false when there is too little history.
func (s *series) forecast(f *Forecast) bool {
	if s.history.Known < minKnown {
		return false
	}
	var v view
	var at [numTargets]Quantiles
	s.look(&v)
	s.distributions(&v, &at)
	interpolate(&at, &f.Minute)
	f.WindowMax = at[windowMax]
	f.Last = s.history.Last(5)
	f.Now = features.Estimate{Mean: f.Last, Low: f.Last, High: f.Last, Share: 1}
	next := at[0][L50]
	switch now := s.anchor.Newest; {
	case now.SD > 0:
		f.Now = now
	case s.settle > 0 && (math.IsNaN(now.Mean) || s.anchor.Grown >= mostGrown && next > f.Last):
		// The newest minute is not known, or counts have grown that were said to be all there is: the next minute's median
		// stands in, above what was counted.
		f.Now.Mean, f.Now.Low, f.Now.High = next, math.Min(f.Last, next), math.Max(f.Last, next)
	}
	f.Known = s.history.Known
	f.Confidence = confidence(s.history.Known)
	f.Fallback = s.Last[midKnot].weight() > .5
	f.Basis = s.basis(&v)
	return true
}

// coldMinutes is how much must be known for a forecast to be decided by.
const coldMinutes = 60

func confidence(known int) Confidence {
	switch {
	case known < coldMinutes:
		return Cold
	case known < 2*1440:
		return Warm
	}
	return Seasonal
}

// quiet is for how many minutes nothing came, at most longestQuiet.
func (s *series) quiet() int {
	n := 0
	for n < longestQuiet && !s.came(s.history.Newest-int64(n), s.history.Newest-int64(n)) {
		n++
	}
	return n
}

// came says whether anything came from one minute to another. Something may have come in a minute that is not known; what
// a nowcast expects has not come.
func (s *series) came(from, to int64) bool {
	for m := to; m >= from; m-- {
		y := s.history.At(m)
		if before := s.history.Newest - m; before < heardMinutes && !math.IsNaN(y) {
			if s.anchor.heard(before) {
				return true
			}
		} else if y != 0 {
			return true
		}
	}
	return false
}

// outcome is what became of a target whose last minute is t; NaN when a minute of it is not known.
func (s *series) outcome(x target, t int64) float64 {
	best := math.Inf(-1)
	for m := t - int64(x.to-x.from); m <= t; m++ {
		y := s.history.At(m)
		if math.IsNaN(y) {
			return y
		}
		best = math.Max(best, y)
	}
	return best
}

// unroot inverts the square root on which errors are measured; what is below zero is zero.
func unroot(z float64) float64 {
	if z <= 0 {
		return 0
	}
	return z * z
}
