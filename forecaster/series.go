package forecaster

import (
	"math"
	"sort"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
)

// series is one dimension of one class, or of a pool's total: its history, its experts, and what was learned of their
// errors. Fixed size, O(experts × targets × levels) per minute.
type series struct {
	observed
	experts [numModels]model.Expert
	mix     [numTargets]mixture
	pending pending
	ranks   ranks
	covered [2]Covered
	shift   levelShift

	// said is what the newest step forecast, so that it need not be worked out a second time when it is asked for. It
	// follows from the rest, and is no part of the state.
	said answer
}

// answer is what a series forecasts from its newest minute.
type answer struct {
	at       [numTargets]Quantiles
	mid      points // at midLead
	spells   spells // with minutes that are not learned yet
	revision uint64 // of the history
	stands   bool
}

// observed is what is known of a series' past, and how well.
type observed struct {
	settle  int   // minutes until an outcome can no longer be amended
	learned int64 // the newest minute that was learned from
	history *model.History
	spread  spread
	anchor  anchor
	amended bool // an earlier minute, since the newest one came
}

func newSeries(key features.Key, settle int) *series {
	s := &series{observed: observed{settle: settle, history: model.NewHistory()}, pending: newPending(settle)}
	s.ranks.Slot = priorRanks(key)
	for e, x := range models {
		s.experts[e] = x.make()
		if l, ok := s.experts[e].(model.Learner); ok {
			l.Keep(Horizon + settle + 1)
		}
	}
	for k := range s.mix {
		s.mix[k] = newMixture()
	}
	return s
}

func (s *observed) past() *model.History { return s.history }

// begun says that the class began while the pool was watched.
func (s *observed) begun() bool { return s.spread.Spells.Witnessed }

// push takes minute m with what it will come to (mean NaN: not known): first the feedback for what was forecast of
// minutes that are now settled, then the new minute, then the experts' forecasts from it, kept for their own feedback.
func (s *series) push(m int64, now features.Estimate) {
	s.catchUp(m, s.step)
	s.step(m, now)
}

// catchUp steps through the minutes that were skipped before m.
func (s *observed) catchUp(m int64, step func(int64, features.Estimate)) {
	if s.history.Known == 0 {
		s.learned = max(s.learned, m-int64(s.settle)-1) // there is nothing before, and no need to look for it minute by minute
		return
	}
	// After a long gap nothing pending is left to learn from: the history alone takes note of it.
	first := max(s.history.Newest+1, m-Horizon-int64(s.settle)-1)
	if first > s.history.Newest+1 {
		s.learned = max(s.learned, first-int64(s.settle)-1) // or what is measured would be so minute by minute of the gap
	}
	for gap := first; gap < m; gap++ {
		step(gap, unknown)
	}
}

func (s *series) step(m int64, now features.Estimate) {
	s.history.Push(m, now.Mean)
	s.anchor.move(now, s.history.Level(model.Level10m), s.firm(&now, now.Mean))
	for _, x := range s.experts {
		x.Update(s.history)
	}
	if s.history.Known == 0 {
		return
	}
	s.learnUpTo(m, s.learn)
	s.amended = false
	s.answer(func(k int, p *points) { s.pending.put(k, m, p, &s.said.at[k]) })
	s.ranks.observe(s, m)
}

// answer works out what the series forecasts, and hands over what the experts say of each target.
func (s *series) answer(each func(k int, p *points)) {
	now := s.measured()
	width := s.spreadsOf(&now)
	s.said.spells = now.Spells
	for k := range targets {
		p := s.points(k, &width)
		s.said.at[k] = s.distribution(k, &p)
		if k == midLead {
			s.said.mid = p
		}
		each(k, &p)
	}
	s.said.revision, s.said.stands = s.history.Revision(), true
}

// learnUpTo has what settled by minute m, or is as good as settled, learned from, minute by minute.
func (s *observed) learnUpTo(m int64, learn func(t int64)) {
	s.learned = max(s.learned, m-int64(s.settle)-1)
	for t := s.learned + 1; t <= m && (m-t >= int64(s.settle) || s.anchor.firm(m-t)); t++ {
		s.history.Settle(t)
		s.spread.add(s.history.At(t))
		learn(t)
		s.learned = t
	}
}

// width is the spread of the series.
func (s *observed) width() float64 {
	now := s.measured()
	w := now.at(s.history.Level(model.Level1d))
	return w.mixed()
}

// spreads are those of the series, and how long it has been silent.
func (s *observed) spreads() spreads {
	now := s.measured()
	return s.spreadsOf(&now)
}

func (s *observed) spreadsOf(now *spread) spreads {
	x := now.at(s.history.Level(model.Level1d))
	x.Quiet = s.quiet()
	return x
}

// longestQuiet is the longest silence that is told from longer ones, in minutes.
const longestQuiet = 480

// quiet is how long the series has been silent, 0 when it is not.
func (s *observed) quiet() float32 {
	m := s.history.Newest
	if s.history.Known == 0 {
		return 0
	}
	n := int64(0)
	if s.silent(m) {
		n = silentMinutes
	}
	for n < longestQuiet && s.history.At(m-n) == 0 {
		n++
	}
	if n < int64(s.spread.silentAfter()) {
		return 0
	}
	return float32(n)
}

// measured takes minutes into account that are not learned yet.
func (s *observed) measured() spread {
	w := s.spread
	for m := s.learned + 1; m <= s.history.Newest; m++ {
		w.add(s.history.At(m))
	}
	return w
}

// firmShare is the part of the spread that a minute may still be off by for it to be learned from. It adds 3 % to the
// errors.
const firmShare = 0.25

// firm says whether what a minute will come to is known well enough to learn from it.
func (s *observed) firm(e *features.Estimate, mean float64) bool {
	return e.SD == 0 && !math.IsNaN(mean) || s.near(mean+e.SD, mean, firmShare)
}

// near says whether values differ by no more than a share of the spread.
func (s *observed) near(x, y, share float64) bool {
	return math.Abs(math.Sqrt(x)-math.Sqrt(y)) <= share*s.width()
}

// amend takes what an earlier minute will come to by now, and says whether that is something else than before.
func (s *observed) amend(m int64, now features.Estimate) (changed bool) { //nolint:unparam // used through follower
	was := s.history.At(m)
	if changed = !math.IsNaN(now.Mean) && float32(was) != float32(now.Mean); changed {
		s.history.Amend(m, now.Mean)
	}
	s.reckon(m, &now, was)
	return changed
}

// reckon takes how well an earlier minute is known by now. The history has what it will come to; before that it had was.
// A minute that was said to be firm and moved by three standard deviations makes such words doubtful.
func (s *observed) reckon(m int64, e *features.Estimate, was float64) {
	s.amended = true
	before, is := s.history.Newest-m, s.history.At(m)
	if s.anchor.Firm&(1<<before) != 0 && !s.near(is, was, 3*firmShare) {
		s.anchor.Broken += brokenGain
	}
	s.anchor.reckon(e, before, s.firm(e, is))
}

// learn gives every target whose last minute is t its outcome.
func (s *series) learn(t int64) {
	scale := math.Max(s.spread.Day, 1e-9)
	for _, x := range s.experts {
		if l, ok := x.(model.Learner); ok {
			l.Learn(s.history, t)
		}
	}
	for k, x := range targets {
		y := s.outcome(x, t)
		if math.IsNaN(y) {
			continue
		}
		p, q, ok := s.pending.get(k, t-int64(x.to))
		if !ok {
			continue
		}
		s.mix[k].learn(&p, y, scale)
		if p.spread.Quiet == 0 {
			steady := s.spread.steady()
			s.mix[k].cover(y, &q, steady)
			if k == midLead {
				s.shift.watch(t, y, &q, steady)
			}
			s.shift.cover(k, t-int64(x.to), t, y, &q)
		}
		s.coverage(k, y, &q)
		if quiet := p.spread.Quiet; quiet > 0 {
			silence := &s.mix[k].Silence
			silence.cover(y, &q, quiet, x.to)
			silence.of(quiet).learn(s.came(t-int64(x.to-x.from), t), 1)
		}
	}
}

// silent says whether nothing came in the quarter of an hour that ended with minute m.
func (s *observed) silent(m int64) bool {
	return !s.came(m-silentMinutes+1, m)
}

// came says whether anything came from one minute to another; what is not known may have, and what a nowcast expects
// has not.
func (s *observed) came(from, to int64) bool {
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
func (s *observed) outcome(x target, t int64) float64 {
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

// points asks every expert for target k from the newest minute.
func (s *series) points(k int, width *spreads) points {
	x := targets[k]
	p := points{spread: *width}
	var at [numModels]float32
	for e, expert := range s.experts {
		if a := models[e].axis; a > 0 {
			at[e] = p.draw(a-1, expert.(model.Distributor), s.history, x)
			continue
		}
		at[e] = float32(math.Sqrt(expert.Forecast(s.history, (x.from+x.to)/2)))
	}
	p.spell(&at)
	return p
}

// draw fills an axis, and returns its median.
func (p *points) draw(a int, d model.Distributor, h *model.History, x target) float32 {
	var q [NumLevels]float64
	if !d.Distribution(h, x.from, x.to, &q) {
		return nan32
	}
	for i, y := range q {
		p.axis[a][i] = float32(math.Sqrt(y))
	}
	return p.axis[a][L50]
}

// distribution is the published forecast of target k; p keeps what it was before it leant.
func (s *series) distribution(k int, p *points) Quantiles {
	m := &s.mix[k]
	q, mixed := s.mixed(m, p)
	p.mixed[0] = nan32
	if p.spread.Quiet > 0 {
		s.anchor.widen(&q)
		m.Silence.clear(&q, p.spread.Quiet, targets[k].to)
		if mixed {
			m.leanFrom(p, &q)
			m.Silence.empty(&q, p.spread.Quiet, targets[k].to)
		}
		return q
	}
	if mixed {
		m.leanFrom(p, &q)
	}
	s.temper(k, p, &q)
	s.begin(&q)
	s.idle(k, p, &q)
	s.said.spells.end(&q, targets[k].from)
	s.shift.scale(k, &q)
	s.anchor.widen(&q)
	return q
}

// mixed is the combination, calibrated; ok is false where there is none, or no need of one.
func (s *series) mixed(m *mixture, p *points) (q Quantiles, ok bool) {
	if p.spread.flat() && !isNaN(p.z[firstExpert]) {
		return m.expert(firstExpert, p), false // the last value: what others are off by is how finely the past is kept
	}
	all := m.experts(p)
	if q, ok = m.combine(p, &all); ok {
		q = m.calibrate(q, p.spread.mixed())
	}
	return q, ok
}

// minKnown is the number of known minutes before a series answers at all.
const minKnown = 3

// forecast fills f from the newest minute; false when there is too little history.
func (s *series) forecast(f *Forecast) bool {
	if s.history.Known < minKnown {
		return false
	}
	if !s.said.stands || s.amended || s.said.revision != s.history.Revision() {
		s.answer(func(int, *points) {})
	}
	f.Fallback = s.mix[midLead].Lean.of(s.said.mid.spread.Quiet).most()
	f.Weights = s.weights(&s.said.mid)
	f.Basis = s.basis(&s.said.mid, &s.said.at[midLead])
	s.describe(f, &s.said.at)
	return true
}

// describe fills in the quantiles of a forecast, and what it starts from.
func (s *observed) describe(f *Forecast, at *[numTargets]Quantiles) {
	interpolate(at, &f.Minute)
	f.WindowMax = at[windowMax]
	f.Last = s.history.Last(5)
	f.Now = features.Estimate{Mean: f.Last, Low: f.Last, High: f.Last, Share: 1}
	next := at[0][L50]
	switch now := s.anchor.Newest; {
	case now.SD > 0:
		f.Now = now
	case s.settle > 0 && !s.anchor.firm(0) && (next > f.Last || math.IsNaN(now.Mean) && next < f.Last):
		// The newest minute is not known, or counts have grown that were said to be all there is: the next minute's median
		// stands in, above what was counted.
		f.Now.Mean, f.Now.Low, f.Now.High = next, math.Min(f.Last, next), math.Max(f.Last, next)
	}
	f.Known = s.history.Known
	f.Confidence = confidence(s.history.Known)
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

// weights lists the experts' shares in the median 15 minutes ahead, descending.
func (s *series) weights(p *points) []Weight {
	var ws []Weight
	m := &s.mix[midLead]
	by := float64(m.Lean.of(p.spread.Quiet).By[L50])
	if isNaN(p.z[lastExpert]) {
		by = 0
	}
	for e, w := range m.weights(p, L50) {
		w *= 1 - by
		if e == lastExpert {
			w += by
		}
		if w > 0 {
			ws = append(ws, Weight{catalog[e].name, w})
		}
	}
	sort.SliceStable(ws, func(i, j int) bool { return ws[i].Share > ws[j].Share })
	return ws
}

var nan32 = float32(math.NaN())
