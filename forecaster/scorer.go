package forecaster

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// Scorer scores the forecasts of one series, and those of baselines, against outcomes, for backtests and reports.
// Outcomes come in order of time by Observe, forecasts by Issue. Baselines use only outcomes before the origin. Memory:
// nine days of minutes, and the forecasts of the last hour; O(horizons × baselines) per minute.
type Scorer struct {
	// Minutes are the scored minutes ahead; nil means all with quantiles. The window maximum is always scored.
	Minutes []int
	// From is the first minute (since 1970) whose outcome counts; for a window, its last minute.
	From int64

	track   track
	targets []*scored
	pending []issued // by origin
}

// scored is a target: a minute ahead, or the window maximum.
type scored struct {
	target
	residuals [NumBaselines]residuals
	Accumulator
}

// issued has the forecasts of one origin, by target, until the last outcome is known.
type issued struct {
	origin int64
	of     []issue
}

type issue struct {
	target    *scored
	own       Quantiles
	last      float64
	baselines [NumBaselines]Quantiles
}

// maxPending bounds the origins without all outcomes: a day of them, more than any settling time.
const maxPending = minutesPerDay

// Observe takes the outcome of a minute since 1970, NaN if unknown. Skipped minutes are unknown; a minute that is not
// newer than the newest is ignored.
func (s *Scorer) Observe(minute int64, y float64) {
	if math.IsInf(y, 0) {
		y = math.NaN()
	}
	if s.track.known {
		for gap := max(s.track.newest+1, minute-trackMinutes); gap < minute; gap++ {
			s.step(gap, math.NaN())
		}
		if minute <= s.track.newest {
			return
		}
	}
	s.step(minute, y)
}

func (s *Scorer) step(minute int64, y float64) {
	s.track.push(minute, y)
	for _, t := range s.targets {
		origin := minute - int64(t.to) + 1
		outcome := s.track.outcome(t.target, origin)
		s.settle(t, origin, outcome)
		t.learn(&s.track, origin, outcome)
	}
	for i := range s.pending {
		if p := &s.pending[i]; p.origin == minute+1 {
			s.setBaselines(p)
		}
	}
	done := 0
	for done < len(s.pending) && s.pending[done].origin+Horizon <= minute+1 {
		done++
	}
	s.pending = slices.Delete(s.pending, 0, done)
}

// learn adds the errors of the baselines.
func (t *scored) learn(past *track, origin int64, outcome float64) {
	for b := range NumBaselines {
		t.residuals[b].add(outcome - past.point(b, t.target, origin))
	}
}

// settle scores the forecast of one target from an origin.
func (s *Scorer) settle(t *scored, origin int64, outcome float64) {
	i, ok := slices.BinarySearchFunc(s.pending, origin, func(p issued, o int64) int { return cmp.Compare(p.origin, o) })
	if !ok || origin+int64(t.to)-1 < s.From {
		return
	}
	for j := range s.pending[i].of {
		x := &s.pending[i].of[j]
		if x.target != t {
			continue
		}
		if math.IsNaN(outcome) {
			t.Missing++
			return
		}
		t.add(origin, outcome, &x.own, x.last, &x.baselines)
	}
}

// setBaselines computes the baselines' forecasts at an origin, the minute after the newest.
func (s *Scorer) setBaselines(p *issued) {
	for i := range p.of {
		x := &p.of[i]
		for b := range NumBaselines {
			x.baselines[b] = x.target.residuals[b].distribution(s.track.point(b, x.target.target, p.origin))
		}
		// The last value of a maximum is the largest of as many minutes before the origin.
		x.last = s.track.largest(p.origin-1-int64(x.target.to-x.target.from), p.origin-1)
	}
}

// Issue records a forecast. It is ignored if it is not newer than the last one, or its first minute has been observed.
func (s *Scorer) Issue(f *Forecast) {
	p := issued{origin: f.Origin.Unix() / 60}
	if n := len(s.pending); n > 0 && s.pending[n-1].origin >= p.origin || s.track.known && p.origin <= s.track.newest {
		return
	}
	add := func(x target, q *Quantiles) {
		if !slices.ContainsFunc(q[:], math.IsNaN) {
			p.of = append(p.of, issue{target: s.target(x), own: *q, last: math.NaN()})
		}
	}
	if s.Minutes == nil {
		for h := 1; h <= Horizon; h++ {
			add(target{h, h}, &f.Minute[h-1])
		}
	}
	for _, h := range s.Minutes {
		add(target{h, h}, &f.Minute[h-1])
	}
	add(target{WindowFrom, WindowTo}, &f.WindowMax)
	s.setBaselines(&p) // from known minutes; newer ones may come before the origin
	if len(s.pending) == maxPending {
		s.pending = slices.Delete(s.pending, 0, 1)
	}
	s.pending = append(s.pending, p)
}

// target finds or adds a target: minutes ascending, the window maximum last. Baselines of a new target learn from the
// last two days.
func (s *Scorer) target(x target) *scored {
	i, ok := slices.BinarySearchFunc(s.targets, x, func(t *scored, x target) int {
		return cmp.Or(cmp.Compare(t.to-t.from, x.to-x.from), cmp.Compare(t.to, x.to))
	})
	if ok {
		return s.targets[i]
	}
	t := &scored{target: x}
	t.Horizon, t.serials.lag = strconv.Itoa(x.to), int64(x.to)
	if x.from < x.to {
		t.Horizon = HorizonWindowMax
	}
	if s.track.known {
		for m := s.track.newest - residualSpan; m <= s.track.newest; m++ {
			origin := m - int64(x.to) + 1
			t.learn(&s.track, origin, s.track.outcome(x, origin))
		}
	}
	s.targets = slices.Insert(s.targets, i, t)
	return t
}

// Scores of the issued horizons: minutes ascending, the window maximum last.
func (s *Scorer) Scores() []*Accumulator {
	out := make([]*Accumulator, len(s.targets))
	for i, t := range s.targets {
		out[i] = &t.Accumulator
	}
	return out
}
