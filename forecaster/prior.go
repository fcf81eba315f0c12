package forecaster

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
)

// What a series is taken to be like before it has shown it. Its errors in its first hours say too little of those to
// come: half an hour ahead, the outcomes of a morning are a handful of independent ones. So a new series is given what its
// siblings learned, the other classes of its pool in the same dimension, and its quantiles are shrunk towards those that
// errors have in general.
const (
	// priorOutcomes is how many outcomes of its own weigh as much as what is known in general.
	priorOutcomes = 120
	// lentOutcomes is how many weigh as much as the quantiles that siblings lend; ownOutcomes as much as those it would
	// otherwise start with.
	lentOutcomes = 30
	ownOutcomes  = 10
	// lenderOutcomes is how many a sibling must have learned from to lend.
	lenderOutcomes = 360
	// lentRegret is the part of the siblings' regrets that is lent: enough to start with their weights, and little enough
	// to be overtaken within hours.
	lentRegret = 0.25
	// lentSilence is how many silent origins weigh what siblings showed of how silences end.
	lentSilence = 60
	// idlePrior is how many busy minutes a series is taken to have had before its first.
	idlePrior = 5
)

// priorMinute and priorWindow are where outcomes usually lie around the mean of the last quarter of an hour, in units of
// the spread on the square-root scale: of the minute a quarter of an hour ahead, and of the window maximum. Medians over
// the first two thirds of the series of seven public traces.
var (
	priorMinute = Quantiles{-2.2, -1.7, -.85, 0, .6, .85, 1.5, 2.15, 3.4}
	priorWindow = Quantiles{-.7, -.1, .45, 1.15, 2.1, 2.4, 3.0, 3.7, 4.8}
)

// temper shrinks a distribution for target k towards the prior while few outcomes stand behind it, until a day of them
// does. Of silence the general knows nothing; and an expert that has its own stake in young series knows better.
func (s *series) temper(k int, p *points, q *Quantiles) {
	m, x := &s.mix[k], targets[k]
	if m.Outcomes >= 1440 || p.staked() || p.spread.Quiet > 0 {
		return
	}
	mean := s.history.Mean(s.history.Newest-14, s.history.Newest)
	if math.IsNaN(mean) {
		return
	}
	const least = priorOutcomes / (priorOutcomes + 1440.0)
	w := (priorOutcomes/(priorOutcomes+float64(m.Outcomes)) - least) / (1 - least)
	shape, width := &priorMinute, p.spread.mixed()*(.8+.2*math.Sqrt(float64(x.to)/15))
	if x.from < x.to {
		shape, width = &priorWindow, p.spread.mixed()
	}
	for i := range q {
		q[i] = unroot((1-w)*math.Sqrt(q[i]) + w*(math.Sqrt(mean)+width*shape[i]))
	}
	q.Sort()
}

// idle sets the quantiles of a single minute to zero that lie below the share of minutes in which nothing came, while few
// outcomes stand behind the forecast: experts learn only from those that a series is intermittent.
func (s *series) idle(k int, p *points, q *Quantiles) {
	if x := targets[k]; s.mix[k].Outcomes >= 1440 || p.spread.Quiet > 0 || x.from < x.to {
		return
	}
	share := (s.spread.Awake - s.spread.Active) / (s.spread.Awake + idlePrior)
	for i, tau := range Levels {
		if tau <= share {
			q[i] = 0
		}
	}
}

// begin keeps the median of a series in its pool's first hour from falling below its newest minutes. Requests that run for long
// make demand rise for as long after a start, and models that know nothing else take the rise for a burst. It is let go of in
// the second hour.
func (s *series) begin(q *Quantiles) {
	if s.history.Known >= 2*coldMinutes || s.spread.Spells.Witnessed {
		return
	}
	last, span := s.history.Newest, int64(max(3, s.history.Known/4))
	level := s.history.Mean(last-span+1, last)
	if both := math.Min(s.history.At(last), s.history.At(last-1)); both > level { // it rises
		level = both
	}
	share := math.Min(1, float64(2*coldMinutes-s.history.Known)/coldMinutes)
	rise := share * (math.Sqrt(level) - math.Sqrt(q[L50]))
	if !(rise > 0) {
		return
	}
	for i, tau := range Levels { // the tails stay, so that it may fall or rise all the same
		q[i] = unroot(math.Sqrt(q[i]) + rise*2*math.Min(tau, 1-tau))
	}
	q.Sort()
}

// staked says whether an expert with a stake is awake.
func (p *points) staked() bool {
	for e := range catalog {
		if catalog[e].stake > 0 && !isNaN(p.z[e]) {
			return true
		}
	}
	return false
}

// lend gives a new series of dimension d what the pool's classes have learned there: their error quantiles, offsets
// and weights (frugal transfer: de Vilmarest and Goude 2023, arXiv:2302.08192). O(classes).
func (p *pool) lend(s *series, d int) {
	var lenders []*series
	for _, c := range p.classes {
		if c.series == nil {
			continue // a light one
		}
		if x := c.series[d]; x != nil && x != s && c.key.Class != features.OverflowClass && x.mix[windowMax].Outcomes >= lenderOutcomes {
			lenders = append(lenders, x)
		}
	}
	if len(lenders) == 0 {
		return
	}
	for k := range s.mix {
		s.mix[k].borrow(lenders, k)
	}
}

// borrow takes the mean of what lenders learned of target k; of error quantiles the median, for siblings may be of
// quite another kind.
func (m *mixture) borrow(lenders []*series, k int) {
	share := 1 / float32(len(lenders))
	m.Worth = lentOutcomes
	for e := range catalog {
		for i := range Levels {
			var regret, variance float32
			var residuals []float32
			for _, x := range lenders {
				l := &x.mix[k]
				regret += share * l.Regret[e][i]
				variance += share * l.Variance[e][i]
				if l.Seen[e] >= lenderOutcomes {
					residuals = append(residuals, l.Residual[e][i])
				}
			}
			if len(residuals) > 0 {
				m.Residual[e][i] = median(residuals)
			}
			m.Regret[e][i], m.Variance[e][i] = lentRegret*regret, lentRegret*variance
		}
	}
	for i := range m.Silence {
		h := &m.Silence[i]
		for _, x := range lenders {
			l := &x.mix[k].Silence[i]
			h.Silent, h.Woke, h.Above = h.Silent+l.Silent, h.Woke+l.Woke, h.Above+float64(share)*l.Above
		}
		if fade := lentSilence / h.Silent; fade < 1 {
			h.Silent, h.Woke = fade*h.Silent, fade*h.Woke
		}
	}
	for i := range Levels {
		m.Shift[i] = 0
		for _, x := range lenders {
			m.Shift[i] += float64(share) * x.mix[k].Shift[i]
		}
	}
}

func median(x []float32) float32 {
	slices.Sort(x)
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}
