package forecaster

import (
	"math"
	"slices"
)

// departure finds when a series left the level it had, by cumulative sums of how far its minutes lie from a slow mean, up
// and down (Page 1954, doi:10.1093/biomet/41.1-2.100), on the square-root scale. What was learned before such a change
// says little of what follows, and the outcomes that would say so come only after the lead.
type departure struct {
	Mean, Deviation float64 // of the roots since the last change, slow
	Seen            float64 // minutes since then
	Up, Down        float64 // sums of excesses, in deviations
	UpFrom          int64   // minute in which the sum left zero
	DownFrom        int64
	Since           int64 // minute of the last change; 0: none

	Before  float64    // mean of the roots that the last change left
	Upwards bool       // which way
	Open    bool       // whether it stays is not known yet
	Found   [2]float64 // changes down and up, and those of them that stayed; old ones fade
	Stayed  [2]float64
}

const (
	departureMemory = 180 // minutes over which the mean and the deviation are taken
	departureSlack  = 1   // deviations by which a minute may lie off without counting
	departureMost   = 4   // that count of a minute at most: it takes several
	departureLimit  = 12  // of the sum, from which on it is a change
	departureLeast  = 30  // minutes before anything is called a change
	departureStays  = 45  // minutes after which a change has stayed, or has not
	departurePrior  = 1.0 // changes' worth of belief that they stay
	departureFades  = 0.9 // memory, per change

	departureOutcomes = 15.0  // outcomes from after a change that weigh as much as the minutes since then alone
	departureFade     = 120.0 // outcomes from which on the change is forgotten
)

// add takes minute m, y as it settled.
func (c *departure) add(m int64, y float64) {
	if math.IsNaN(y) {
		return
	}
	z := math.Sqrt(y)
	if c.Seen >= departureLeast {
		unit := math.Max(1.25*c.Deviation, .02*c.Mean+1e-9)
		e := (z - c.Mean) / unit
		c.Up, c.UpFrom = excess(c.Up, e, c.UpFrom, m)
		c.Down, c.DownFrom = excess(c.Down, -e, c.DownFrom, m)
		if from := c.UpFrom; c.Up > departureLimit || c.Down > departureLimit {
			up := c.Up > c.Down
			if !up {
				from = c.DownFrom
			}
			if c.Open {
				c.judge(up == c.Upwards)
			}
			c.Before, c.Upwards, c.Open = c.Mean, up, true
			c.Mean, c.Seen, c.Up, c.Down, c.Since = z, 1, 0, 0, from
			return
		}
	}
	if c.Open && m >= c.Since+departureStays {
		c.judge((z > (c.Before+c.Mean)/2) == c.Upwards)
	}
	c.Seen++
	gain := math.Max(1.0/departureMemory, 1/c.Seen)
	if n := c.Seen - 1; n > 0 {
		if c.Since > 0 {
			n += departureLeast // what deviation there was before stands until as much again is known
		}
		c.Deviation += math.Max(1.0/departureMemory, 1/n) * (math.Abs(z-c.Mean) - c.Deviation)
	}
	c.Mean += gain * (z - c.Mean)
}

// judge notes whether the last change stayed.
func (c *departure) judge(stayed bool) {
	way := c.way()
	c.Found[way] = departureFades*c.Found[way] + 1
	c.Stayed[way] *= departureFades
	if stayed {
		c.Stayed[way]++
	}
	c.Open = false
}

func (c *departure) way() int {
	if c.Upwards {
		return 1
	}
	return 0
}

// trust is how far to take the last change for one that stays: wholly in a series that has known none, not at all where
// as many went as stayed.
func (c *departure) trust() float64 {
	way := c.way()
	return math.Max(0, 2*(c.Stayed[way]+departurePrior)/(c.Found[way]+departurePrior)-1)
}

// excess adds what e exceeds the slack by to a sum, which is never negative, and says since when it is not zero.
func excess(sum, e float64, from, m int64) (float64, int64) {
	if sum == 0 {
		from = m
	}
	return math.Max(0, sum+math.Min(e, departureMost)-departureSlack), from
}

// afresh shrinks a distribution for target k, after a change, towards what the minutes since then say alone, with the
// errors that a mean of recent minutes has had. It fades as outcomes come in that were forecast after the change.
func (s *series) afresh(k int, p *points, q *Quantiles) {
	x, m := targets[k], &s.mix[k]
	since := s.history.Newest - s.departure.Since
	n := float64(max(0, since-int64(x.to)))
	if s.departure.Since == 0 || n >= departureFade || m.Seen[recentExpert] < priorOutcomes {
		return
	}
	from := max(s.departure.Since, s.history.Newest-14)
	level := s.history.Mean(from, s.history.Newest)
	if x.from < x.to {
		level = s.history.Max(from, s.history.Newest)
	}
	if math.IsNaN(level) {
		return
	}
	const least = departureOutcomes / (departureOutcomes + departureFade)
	w := s.departure.trust() * (departureOutcomes/(departureOutcomes+n) - least) / (1 - least)
	spread := p.spread.of(catalog[recentExpert].unit, math.Sqrt(level))
	for i := range q {
		q[i] = unroot((1-w)*math.Sqrt(q[i]) + w*(math.Sqrt(level)+spread*float64(m.Residual[recentExpert][i])))
	}
	q.Sort()
}

// recentExpert is the expert that repeats the mean of a quarter of an hour.
var recentExpert = slices.IndexFunc(catalog[:], func(x expert) bool { return x.name == "recent_15m" })
