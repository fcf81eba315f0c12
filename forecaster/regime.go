package forecaster

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/forecaster/model"
)

// A level is taken to have changed for good when it went further at once than it did within the days that are kept, or to
// where it never was, and has stayed there for an hour. Before that, it may as well go back, and what experts make of it is
// as good. Picked on planted changes, and so that the first two thirds of ten public traces have some 30 of them in 640 days
// of series.
const (
	regimeEvery  = 5       // minutes between looks
	regimeStays  = 60      // minutes that a new level must have lasted
	regimeNewest = 20      // minutes of it that must be at it still
	regimeLook   = 30      // minutes after which it is not looked for any more
	regimeBefore = 90      // minutes before the change that it is compared with
	regimeKnown  = 23 * 60 // minutes that must be known before: a morning is no change
	regimeLeast  = .25     // of the logarithm of the ratio of levels
	regimeMost   = 2       // of it: what goes further begins or ends, and may end or begin again
	regimeStep   = 1.5     // times the largest step of the days before
	regimeNew    = 0.5     // times it, for a level that is new
	regimeBeyond = 0.5     // of the way from the mean to the end of where levels were, by which a new one is beyond

	regimeStepBins  = regimeStays / 10 // bins of ten minutes on either side of a step
	regimeLevelBins = 3                // bins in a level that was
)

// roots are the mean of the roots of minutes, and the typical distance of neighbours: the square of its mean root, which a
// lone far minute hardly moves. NaN where nothing is known.
type roots struct{ mean, step float64 }

func rootsOf(h *model.History, from, to int64) (r roots) {
	n, steps, was := 0.0, 0.0, math.NaN()
	for m := from; m <= to; m++ {
		z := math.Sqrt(h.At(m))
		if math.IsNaN(z) {
			continue
		}
		r.mean += z
		n++
		if d := math.Sqrt(math.Abs(z - was)); !math.IsNaN(d) {
			r.step += d
			steps++
		}
		was = z
	}
	r.mean /= n
	r.step = (r.step / steps) * (r.step / steps)
	return r
}

// changed is a change of level for good, as far as settled minutes show one. O(1), O(bins kept) when there may be one.
func (o *observed) changed() (c model.Change, ok bool) {
	t, h := o.learned, o.history
	if h.Known < regimeKnown || t%regimeEvery != 0 || h.Newest-t > regimeStays {
		return c, false
	}
	s, ok := splitOf(h.At, t-regimeStays-regimeLook-regimeBefore+1, t, regimeStays/2, false)
	if n := t - s.at + 1; !ok || s.gain <= s.line || n < regimeStays || n > regimeStays+regimeLook {
		return c, false
	}
	before, after := rootsOf(h, s.at-regimeBefore, s.at-1), rootsOf(h, s.at, t)
	c = model.Change{Minute: s.at, Ratio: after.mean * after.mean / (before.mean * before.mean)}
	size := math.Abs(math.Log(c.Ratio))
	if !(size >= regimeLeast && size <= regimeMost) {
		return c, false
	}
	// Noise is of a size of its own, or grows with the level, or is in between.
	c.Noise = math.Sqrt(c.Ratio)
	if x := after.step / before.step; x > 0 {
		c.Noise = max(min(x, max(1, c.Noise)), min(1, c.Noise))
	}
	by := math.Abs(after.mean - before.mean)
	if !(math.Abs(rootsOf(h, t-regimeNewest+1, t).mean-after.mean) <= by/2) {
		return c, false
	}
	step, logs := o.largestSteps(c.Minute)
	return c, by > regimeStep*step || size > regimeStep*logs || by > regimeNew*step && o.beyond(after.mean, c.Minute)
}

const (
	regimeShare = .8 // of a total, of the classes that must have changed like it
	regimeNear  = 30 // minutes that their changes may lie apart
	regimeLike  = .5 // of the logarithm of its ratio, by which theirs may differ
)

// allChanged says whether nearly all of a total's classes changed as it did. Where one of several has, the day of the others is
// what it was, and a total whose whole past is read at the new level expects their busy hours at that, too.
func (p *pool) allChanged(total *series, c model.Change) bool {
	d := slices.Index(p.total, total)
	if d < 0 {
		return false
	}
	all, changed := 0.0, 0.0
	for _, k := range p.classes {
		x := k.follower(d)
		if x == nil {
			continue
		}
		level := x.past().MeanCame(c.Minute-regimeBefore, c.Minute-1)
		if math.IsNaN(level) {
			continue
		}
		all += level
		for _, own := range x.past().Changes() {
			if max(own.Minute-c.Minute, c.Minute-own.Minute) <= regimeNear && math.Abs(math.Log(own.Ratio/c.Ratio)) <= regimeLike*math.Abs(math.Log(c.Ratio)) {
				changed += level
				break
			}
		}
	}
	return changed >= regimeShare*all // also where nothing is known of classes
}

// largestSteps are the most that the level of an hour differed from that of the hour before, before a minute: of mean roots,
// and of logarithms. Infinite when too little is known.
func (o *observed) largestSteps(before int64) (step, logs float64) {
	var z [2 * regimeStepBins]float64 // roots of bins, the newest first
	known := 0
	for m := before - 10; m > before-8*1440; m -= 10 {
		copy(z[:], z[1:])
		z[len(z)-1] = math.Sqrt(o.history.Bin(m))
		later, sooner := 0.0, 0.0
		for i := range regimeStepBins {
			later, sooner = later+z[i], sooner+z[regimeStepBins+i]
		}
		if d := math.Abs(later-sooner) / regimeStepBins; !math.IsNaN(d) {
			if known++; known >= len(z) {
				step, logs = max(step, d), max(logs, 2*math.Abs(math.Log(later/sooner)))
			}
		}
	}
	if known < (regimeKnown-regimeStays)/10 {
		return math.Inf(1), math.Inf(1)
	}
	return step, logs
}

// beyond says whether a level's root z is clear of where the levels of half an hour were before a minute.
func (o *observed) beyond(z float64, before int64) bool {
	var last [regimeLevelBins]float64
	known, n, sum, lo, hi := 0, 0.0, 0.0, math.Inf(1), 0.0
	for m := before - 10; m > before-8*1440; m -= 10 {
		copy(last[1:], last[:])
		last[0] = o.history.Bin(m)
		mean := 0.0
		for _, y := range last {
			mean += y / regimeLevelBins
		}
		if known++; known < len(last) || math.IsNaN(mean) {
			continue
		}
		x := math.Sqrt(mean)
		lo, hi, sum, n = min(lo, x), max(hi, x), sum+x, n+1
	}
	middle := sum / n
	return z < lo-regimeBeyond*(middle-lo) || z > hi+regimeBeyond*(hi-middle)
}

// rebase has the past read at the level of the present; false when it cannot be.
func (o *observed) rebase(c model.Change) bool {
	if !o.history.Rebase(c) {
		return false
	}
	o.anchor.Usual *= c.Ratio
	o.spread.again(o.history, o.learned)
	return true
}

// againMinutes is how many minutes the spread is measured over again: a day's, and as many as the shorter deviations need.
const againMinutes = 1500

// again measures the scale over the minutes that are kept, up to one. When something came, and when nothing did, stays.
func (s *spread) again(h *model.History, to int64) {
	var now spread
	for m := to - againMinutes; m <= to; m++ {
		now.add(h.At(m))
	}
	s.Deviation, s.Steady, s.Near, s.Day = now.Deviation, now.Steady, now.Near, now.Day
}

// rebase takes a series to the level of the present: what experts keep, and what was learned from forecasts that did not know
// of the change. Forecasts whose outcomes are still to come teach nothing, for they did not know either.
func (s *series) rebase(c model.Change) {
	width := s.spreads()
	if !s.observed.rebase(c) {
		return
	}
	for _, x := range s.experts {
		if r, ok := x.(model.Rebaser); ok {
			r.Rebase(s.history, c)
		}
	}
	now := math.Sqrt(s.history.Mean(c.Minute, s.learned))
	step := (now - now/math.Sqrt(c.Ratio)) / float64(width.Of[spreadDay])
	for k, x := range targets {
		late := x.to
		if step < 0 {
			late = x.from // the largest of a window falls when all of it has
		}
		s.mix[k].unlearn(step, float64(min(late+regimeLate, regimeStays)))
		s.mix[k].Since = 1
	}
	for i := range s.pending.rows {
		s.pending.rows[i].Minute = -1
	}
	s.ranks.Open = nil
}

func (l *light) rebase(c model.Change) {
	if !l.observed.rebase(c) {
		return
	}
	for i := range l.rows {
		l.rows[i].Minute = -1
	}
}

const (
	// regimeLate is how many minutes after a change forecasts begin to know of it.
	regimeLate = 25
	// regimeFresh is how many outcomes those before a change are worth after it.
	regimeFresh = 200
	// meanAbsolute deviations are a standard one of a normal distribution.
	meanAbsolute = 1.2533
)

// unlearn takes back what the quantiles of errors, and the calibration, moved by when so many outcomes lay so many spreads
// above where they would have without a change: on average, and as if what they moved from was right.
func (m *mixture) unlearn(step, outcomes float64) {
	for e := range catalog {
		if catalog[e].fixed || m.Seen[e] == 0 {
			continue
		}
		by := step
		if models[catalog[e].model].axis > 0 {
			by /= meanAbsolute // scores are of standard deviations
		}
		q := m.Residual[e].wide()
		was, moved := q, steps(&q, m.gain(e), residualSparsity)
		for i, tau := range Levels {
			q[i] -= outcomes * moved[i] * (tau - levelOf(&was, was[i]-by))
		}
		ascend(&q)
		m.Residual[e] = narrow(&q)
	}
	all := 0.0
	for i, tau := range Levels {
		all += placeStep / NumLevels * (tau - phi(gaussian[i]-step/meanAbsolute))
	}
	for i, tau := range Levels {
		m.Shift[i] -= outcomes * (all + calibrationStep*(tau-phi(gaussian[i]-step/meanAbsolute)))
	}
}

// levelOf is the level of x among quantiles that may be negative: linear between them; none and all beyond.
func levelOf(q *Quantiles, x float64) float64 {
	if x <= q[0] {
		return 0
	}
	for i := 1; i < NumLevels; i++ {
		if x <= q[i] {
			return Levels[i-1] + (Levels[i]-Levels[i-1])*(x-q[i-1])/(q[i]-q[i-1])
		}
	}
	return 1
}
