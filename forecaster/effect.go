package forecaster

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

// Scheduled events multiply demand. The series of a pool hold demand without them: observed demand is divided by the
// factor of its events. So neither levels nor seasons learn a launch as if it came every day. Forecasts are multiplied
// again, and widened by the uncertainty of the change from now. An event multiplies all classes of a pool alike. Where
// the factor is wrong, or the event does not come, levels follow what comes within minutes, as after any other shift.

// effectBack is the number of minutes before the origin whose strength the models have seen.
const effectBack = 10

// strengthIn is the strength of the event in the middle of a minute.
func (e *Event) strengthIn(minute int64) float64 { return e.strength(time.Unix(60*minute+30, 0).UTC()) }

// multiplier is the factor of the events on demand in a minute.
func (p *pool) multiplier(minute int64) float64 {
	sum := 0.0
	for _, e := range p.events {
		sum += math.Log(e.Factor) * e.strengthIn(minute)
	}
	return math.Exp(sum)
}

func scale(e *features.Estimate, by float64) {
	e.Mean, e.Counted = e.Mean*by, e.Counted*by
}

// impact is what the events of a pool do to its forecasts of one origin: mean and variance, by minute, of the logarithm
// of their factor, and the mean in the newest minute.
type impact struct {
	now            float64
	mean, variance [Horizon]float64
	events         []EventEffect
}

func (p *pool) impact() (c impact) {
	for _, e := range p.events {
		var strength [effectBack + Horizon]float64 // of the minutes around the newest
		recent := 0.0
		for i := range strength {
			strength[i] = e.strengthIn(p.newest() + int64(i-effectBack+1))
			if i < effectBack {
				recent += strength[i] / effectBack
			}
		}
		if slices.Max(strength[:]) == 0 {
			continue
		}
		now, ahead := strength[effectBack-1], strength[effectBack:]
		c.events = append(c.events, EventEffect{
			Name: e.Name, Factor: e.Factor, Low: e.Factor / e.Uncertainty, High: e.Factor * e.Uncertainty,
			Now: now, Ahead: ahead[targets[midLead].To-1],
		})
		mean, sd := math.Log(e.Factor), math.Log(e.Uncertainty)/z90
		c.now += mean * now
		for h, s := range ahead {
			c.mean[h] += mean * s
			c.variance[h] += sd * sd * (s - recent) * (s - recent)
		}
	}
	return c
}

// apply multiplies a forecast, and widens it by the uncertainty of the change from now.
func (c *impact) apply(f *Forecast) {
	if c.events == nil {
		return
	}
	f.Basis.Events = slices.Clone(c.events)
	f.Last *= math.Exp(c.now)
	scale(&f.Now, math.Exp(c.now))
	was := windowMedian(f)
	widest := 0.0
	for h := range f.Minute {
		multiply(&f.Minute[h], c.mean[h], c.variance[h])
		if h+1 >= WindowFrom && h+1 <= WindowTo {
			widest = math.Max(widest, c.variance[h])
		}
	}
	mean := 0.0
	if was > 0 {
		mean = math.Log(windowMedian(f) / was)
	}
	multiply(&f.WindowMax, mean, widest)
}

// windowMedian is the largest median of a minute in the window.
func windowMedian(f *Forecast) (m float64) {
	for h := WindowFrom; h <= WindowTo; h++ {
		m = math.Max(m, f.Minute[h-1][L50])
	}
	return m
}

// multiply multiplies a distribution by an independent log-normal factor; mean and variance are of its logarithm.
// Distances from the median, as logarithms, add up like standard deviations.
func multiply(q *Quantiles, mean, variance float64) {
	if mean == 0 && variance == 0 {
		return
	}
	median := q[L50]
	for i := range q {
		z := gaussian[i]
		switch {
		case q[i] == 0:
		case median > 0:
			d := math.Log(q[i] / median)
			q[i] = median * math.Exp(mean+math.Copysign(math.Sqrt(d*d+z*z*variance), z))
		default:
			q[i] *= math.Exp(mean + z*math.Sqrt(variance))
		}
	}
	q.Sort()
}
