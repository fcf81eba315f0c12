package forecaster

import "math"

// Learning constants, picked on made series whose level changes (TestPlantedTable) and on origins in the second third of eight
// public traces. There they cost 0.2 % of the loss of minutes and 0.4 % of that of window maxima; limits of three in place of three
// and a half, or steps twice as long after rises, cost two and three times as much.
const (
	shiftMemory   = 20.0 / originEvery   // origins that the control chart averages
	shiftUsual    = 2880 / originEvery   // origins over which it is learned how far that average usually strays
	shiftPast     = 4320.0 / originEvery // origins in which the memory of earlier excursions fades by e
	shiftYoung    = 240 / originEvery    // origins before which no shift is seen
	shiftAgain    = 60                   // minutes after a shift before which no other is seen
	shiftLasts    = 1440                 // minutes for which widths of their own are kept
	shiftFades    = 240                  // minutes in which their steps become e times shorter
	shiftForgets  = 720.0 / originEvery  // origins in which they go back by e
	shiftMost     = 1.2                  // how far they go, in logarithms
	shiftOutlier  = 5                    // the most that one outcome counts for, in distances from the median to an outer quantile
	shiftStrays   = 0.25                 // how far the average is taken to stray before that is known
	shiftBack     = 2                    // standard deviations that a return takes
	shiftBackFrom = 0.4                  // and how far it must be off
)

// shiftLimit is how far the average must be off for a shift down and one up, in standard deviations and in distances from the median
// to the outer quantile, and the step that widths are then learned by. Too wide after a fall costs replicas, and real levels that
// rose have often fallen within the hour: so falls are seen sooner and learned faster.
var shiftLimit = map[bool]struct{ sigmas, least, step float64 }{
	true:  {3.5, 0.4, 0.3},
	false: {5, 0.8, 0.15},
}

// levelShift widens or narrows the forecasts of a series for the day after its level has changed. Medians follow a level within the
// hour, but the network's spreads go on expecting what had been, so that after a fall quantiles would lie too high for hours. It sees a change by a control chart of late errors a quarter of an hour ahead
// (exponentially weighted moving average: Roberts 1959, doi:10.1080/00401706.1959.10489860) with limits by how far that average of
// this series usually strays and strayed in the last days, so that what a series does every day is none. From then on each half of a distribution is
// scaled about its median by what its coverage calls for, as conformal quantile tracking does, but with steps that are long for some
// hours (why steps must grow after a shift: Gibbs and Candès 2022, arXiv:2208.08401). When the level returns, widths are what they were:
// nothing that was learned before is lost. Fixed size, O(targets × levels) per outcome.
type levelShift struct {
	Mean   float32 // of late errors, in distances from the median to an outer quantile
	Square float32 // of that mean, as it usually is
	Seen   float32 // origins
	// Past are the largest means that there were downward and upward, fading; Now is that since the mean last changed its sign.
	Past  [2]float32
	Now   float32
	At    int64 // minute at which the change was seen
	Fell  bool
	On    bool
	Scale [numKnots]halves
}

// halves are the logarithms by which what lies below a median and what lies above it is wider.
type halves [2]float32

// offset is how far y lies from the median, in distances to the outer quantile on its side, on the square-root scale.
func offset(y float64, q *Quantiles) float64 {
	median := math.Sqrt(q[L50])
	e, width := math.Sqrt(y)-median, math.Sqrt(q[L95])-median
	if e < 0 {
		width = median - math.Sqrt(q[L05])
	}
	if width <= 0 {
		return 0
	}
	return max(-shiftOutlier, min(shiftOutlier, e/width))
}

// watch takes the outcome of minute t, of which q was forecast a quarter of an hour before. No shift is seen in a series that is not
// steady: how wide it is depends on how often nothing comes, which idle and hurdle learn.
func (s *levelShift) watch(t int64, y float64, q *Quantiles, steady bool) {
	s.Seen++
	was := s.Mean
	s.Mean += float32((offset(y, q) - float64(s.Mean)) / shiftMemory)
	usual := math.Sqrt(shiftStrays*shiftStrays*shiftYoung/(shiftYoung+float64(s.Seen)) + float64(s.Square))
	off := math.Abs(float64(s.Mean))
	fell := s.Mean < 0
	s.remember(was)
	limit := shiftLimit[fell]
	switch {
	case !s.On && steady && s.Seen > shiftYoung && off > limit.least && off > limit.sigmas*usual && off > s.past(fell):
		s.On, s.Fell, s.At = true, fell, t
	case s.On && (t-s.At > shiftLasts || fell != s.Fell && t-s.At > shiftAgain && off > shiftBackFrom && off > shiftBack*usual):
		s.On, s.Scale = false, [numKnots]halves{}
	}
	if !s.On {
		s.Square += float32((off*off - float64(s.Square)) / min(shiftUsual, shiftYoung+float64(s.Seen)))
	}
}

// remember keeps how far the mean went, once it has changed its sign.
func (s *levelShift) remember(was float32) {
	for i := range s.Past {
		s.Past[i] -= s.Past[i] / shiftPast
	}
	if was*s.Mean < 0 {
		i := int(count(was > 0))
		s.Past[i], s.Now = max(s.Past[i], s.Now), 0
	}
	s.Now = max(s.Now, float32(math.Abs(float64(s.Mean))))
}

// past is how far the mean went before, on days like this one.
func (s *levelShift) past(fell bool) float64 { return float64(s.Past[int(count(!fell))]) }

// cover takes outcome y, at minute t, of what was forecast at knot k from an origin after the change: a half that covers more
// than it says becomes narrower.
func (s *levelShift) cover(k int, origin, t int64, y float64, q *Quantiles) {
	if !s.On || origin < s.At {
		return
	}
	step := shiftLimit[s.Fell].step * math.Exp(-float64(t-s.At)/shiftFades)
	s.Scale[k][0] = widened(s.Scale[k][0], step, y, q, 0, L50)
	s.Scale[k][1] = widened(s.Scale[k][1], step, y, q, L50+1, NumLevels)
}

// widened is the scale of the levels from one to another after outcome y. A quantile of zero says nothing of widths.
func widened(scale float32, step, y float64, q *Quantiles, from, to int) float32 {
	missed, n := 0.0, 0.0
	for i := from; i < to; i++ {
		if q[i] == 0 {
			continue
		}
		miss := Levels[i] - count(y <= q[i])
		if i < L50 {
			miss = -miss
		}
		missed += miss
		n++
	}
	if n == 0 {
		return scale
	}
	x := float64(scale)*(1-1.0/shiftForgets) + step*missed/n
	return float32(max(-shiftMost, min(shiftMost, x)))
}

// scale gives what is forecast the width that it has since the level changed.
func (s *levelShift) scale(w *knotWeight, q *Quantiles) {
	if !s.On {
		return
	}
	var by halves
	for i := range by {
		by[i] = float32(w.a)*s.Scale[w.j][i] + float32(w.b)*s.Scale[w.j+1][i]
	}
	median := math.Sqrt(q[L50])
	below, above := math.Exp(float64(by[0])), math.Exp(float64(by[1]))
	for i, x := range q {
		switch {
		case x == 0 || i == L50:
		case i < L50:
			q[i] = unroot(median + below*(math.Sqrt(x)-median))
		default:
			q[i] = unroot(median + above*(math.Sqrt(x)-median))
		}
	}
}
