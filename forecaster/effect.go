package forecaster

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

// Scheduled events multiply demand. The series of a pool hold demand without them: observed demand is divided by the
// expected factor of its events. So neither levels nor seasons learn a launch as if it came every day. Forecasts are
// multiplied again, and widened by the uncertainty of the change from now. An event multiplies all classes of a pool
// alike.
//
// The factor is learned in the first hour of an event, against the forecast just before it began. The logarithm of the
// factor has a normal prior from the calendar, and each minute is a noisy observation of it (a scalar Kalman filter).
// So an event that does not come is corrected within minutes. A repeated event starts with the factor of the last time.
const (
	// effectMinutes is how long an event is learned from: the forecast before it ends there.
	effectMinutes = Horizon
	// effectTogether is how many minutes count as one, because their errors are far from independent.
	effectTogether = 10
	// minEffect is the least strength that is learned from; a weaker effect is lost in noise.
	minEffect = 0.25
	// minNoise is the least standard deviation of a minute's logarithm.
	minNoise = 0.05
	// effectDrift is the change of a factor between occurrences: a standard deviation of its logarithm.
	effectDrift = 0.1
	// effectBack is the number of minutes before the origin whose strength the models have seen.
	effectBack = 10
)

// effect is what is known about one event of the pool.
type effect struct {
	event *Event

	Name   string  `cbor:"1,keyasint"`
	Stated float64 `cbor:"2,keyasint"` // the factor of the calendar; when it changes, learning restarts
	Mean   float64 `cbor:"3,keyasint"` // of the logarithm of the factor
	Var    float64 `cbor:"4,keyasint"`
	// Begun is the minute of the last start, 0 if there was none. Expected is the forecast made then, of Dimension, and
	// Noise its standard deviation.
	Begun     int64     `cbor:"5,keyasint,omitempty"`
	Dimension int       `cbor:"6,keyasint,omitempty"`
	Expected  []float32 `cbor:"7,keyasint,omitempty"`
	Noise     []float32 `cbor:"8,keyasint,omitempty"`
	Newest    int64     `cbor:"9,keyasint,omitempty"` // the newest minute with an effect
}

// strength is that of the event in the middle of a minute.
func (x *effect) strength(minute int64) float64 {
	return x.event.strength(time.Unix(60*minute+30, 0).UTC())
}

// multiplier is the expected factor of the events on demand in a minute.
func (p *pool) multiplier(minute int64) float64 {
	sum := 0.0
	for _, x := range p.effects {
		sum += x.Mean * x.strength(minute)
	}
	return math.Exp(sum)
}

func scale(e *features.Estimate, by float64) {
	e.Mean, e.Counted = e.Mean*by, e.Counted*by
}

// expectEvents records the forecast before each event that begins in a minute.
func (p *pool) expectEvents(minute int64) {
	for _, x := range p.effects {
		if x.strength(minute) == 0 {
			continue
		}
		if x.Newest+1 < minute || x.Newest == 0 {
			x.begin(minute, p)
		}
		x.Newest = minute
	}
}

// begin records the forecast of the pool in its first dimension.
func (x *effect) begin(minute int64, p *pool) {
	if x.Begun != 0 {
		x.Var = math.Min(x.Var+effectDrift*effectDrift, x.event.logSD()*x.event.logSD())
	}
	x.Begun, x.Expected, x.Noise = minute, nil, nil
	for d, s := range p.total.series {
		var f Forecast
		if s == nil || !s.forecast(&f) {
			continue
		}
		x.Dimension = d
		x.Expected, x.Noise = make([]float32, effectMinutes), make([]float32, effectMinutes)
		for h := range x.Expected {
			q := &f.Minute[h]
			x.Expected[h], x.Noise[h] = float32(q[L50]), 1
			if q[L10] > 0 {
				x.Noise[h] = float32(math.Max(minNoise, math.Log(q[L90]/q[L10])/(2*gaussian[L90])))
			}
		}
		return
	}
}

// learnEvents updates the factors of events from the demand of a minute, events included.
func (p *pool) learnEvents(minute int64, demand func(dimension int) float64) {
	for _, x := range p.effects {
		h, s := minute-x.Begun, x.strength(minute)
		if s < minEffect || h < 0 || h >= int64(len(x.Expected)) {
			continue
		}
		observed, expected, noise := demand(x.Dimension), float64(x.Expected[h]), float64(x.Noise[h])
		if math.IsNaN(observed) || !(expected > 0) {
			continue
		}
		seen := math.Log(math.Max(observed/expected, 1.0/maxEventFactor)) / s
		r := effectTogether * noise * noise / (s * s)
		gain := x.Var / (x.Var + r)
		by := gain * (seen - x.Mean)
		x.Mean += by
		x.Var *= 1 - gain
		p.amendSince(x, minute, by)
	}
}

// amendSince corrects the minutes from the start of an event to before the newest, after the logarithm of its factor
// has changed.
func (p *pool) amendSince(x *effect, newest int64, by float64) {
	for m := x.Begun; m < newest; m++ {
		factor := math.Exp(-by * x.strength(m))
		for _, s := range p.series() {
			s.history.Amend(m, s.history.At(m)*factor)
		}
	}
}

// restoreEffects restores the effects of events that are still in the calendar with the same factor.
func (p *pool) restoreEffects(all []*effect) error {
	for _, old := range all {
		for i, x := range p.effects {
			if x.Name != old.Name || x.Stated != old.Stated {
				continue
			}
			n := len(old.Expected)
			if n != len(old.Noise) || n != 0 && n != effectMinutes || old.Dimension < 0 || old.Dimension >= len(dimensions) {
				return fmt.Errorf("forecaster state of the event %q of %s does not have this program's shape", x.Name, p.name)
			}
			old.event = x.event
			p.effects[i] = old
		}
	}
	return nil
}

// impact is what the events of a pool do to its forecasts of one origin: mean and variance, by minute, of the logarithm
// of their factor, and the mean in the newest minute.
type impact struct {
	now            float64
	mean, variance [Horizon]float64
	events         []EventEffect
}

// impact of the events near the newest minute.
func (p *pool) impact() (c impact) {
	for _, x := range p.effects {
		var strength [effectBack + Horizon]float64 // of the minutes around the newest
		recent := 0.0
		for i := range strength {
			strength[i] = x.strength(p.newest + int64(i-effectBack+1))
			if i < effectBack {
				recent += strength[i] / effectBack
			}
		}
		if slices.Max(strength[:]) == 0 {
			continue
		}
		now, ahead := strength[effectBack-1], strength[effectBack:]
		wide := z90 * math.Sqrt(x.Var)
		c.events = append(c.events, EventEffect{
			Name: x.Name, Stated: x.Stated, Learned: math.Exp(x.Mean), Low: math.Exp(x.Mean - wide), High: math.Exp(x.Mean + wide),
			Now: now, Ahead: ahead[targets[midLead].to-1],
		})
		c.now += x.Mean * now
		for h, s := range ahead {
			c.mean[h] += x.Mean * s
			c.variance[h] += x.Var * (s - recent) * (s - recent)
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
