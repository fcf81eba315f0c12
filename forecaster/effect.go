package forecaster

import (
	"fmt"
	"math"
	"time"

	"github.com/forewarm/forewarm/features"
)

// Scheduled events multiply demand. The series of a pool hold demand without them: observed demand is divided by the
// expected factor of its events. So neither levels nor seasons learn a launch as if it came every day. Forecasts are
// multiplied again, and widened by the uncertainty of the change from now.
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

	effectState
	at       int64 // minute of strength
	strength [effectBack + Horizon]float64
	observed float64 // demand, in the minute being observed, of the classes that the event applies to
}

// effectState is the part of effect in snapshots.
type effectState struct {
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

func newEffect(e *Event) *effect {
	return &effect{event: e, at: -1, effectState: effectState{Name: e.Name, Stated: e.Factor, Mean: math.Log(e.Factor), Var: e.logSD() * e.logSD()}}
}

// setMinute computes the strengths around a minute.
func (x *effect) setMinute(minute int64) {
	if x.at == minute {
		return
	}
	x.at = minute
	for i := range x.strength {
		x.strength[i] = x.event.strength(middle(minute + int64(i-effectBack+1)))
	}
}

func middle(minute int64) time.Time { return time.Unix(60*minute+30, 0).UTC() }

// now is the strength in the minute set, ahead h minutes later, recent the mean over the last minutes.
func (x *effect) now() float64        { return x.strength[effectBack-1] }
func (x *effect) ahead(h int) float64 { return x.strength[effectBack-1+h] }
func (x *effect) recent() float64 {
	sum := 0.0
	for _, s := range x.strength[:effectBack] {
		sum += s
	}
	return sum / effectBack
}

// near reports whether the event has any strength around the minute set.
func (x *effect) near() bool {
	for _, s := range x.strength {
		if s > 0 {
			return true
		}
	}
	return false
}

// multiplier is the expected factor of the events on the demand of a class in a minute.
func (p *pool) multiplier(class string, minute int64) float64 {
	sum := 0.0
	for _, x := range p.effects {
		if !x.event.applies(class) {
			continue
		}
		if back := x.at - minute; x.at >= 0 && back >= 0 && back < effectBack {
			sum += x.Mean * x.strength[effectBack-1-back]
		} else {
			sum += x.Mean * x.event.strength(middle(minute))
		}
	}
	if sum == 0 {
		return 1
	}
	return math.Exp(sum)
}

// withoutEvents is the nowcast of a window's dimension, divided by the factor of events. Demand of the newest minute is
// also counted for learning the events.
func (p *pool) withoutEvents(d int, w *features.Window, multiplier float64, newest bool) (features.Estimate, bool) {
	now, ok := dimensions[d].Now(w)
	if ok && newest {
		p.countForEvents(w.Class, d, now)
	}
	if ok && multiplier != 1 {
		scale(&now, 1/multiplier)
	}
	return now, ok
}

func scale(e *features.Estimate, by float64) {
	e.Mean, e.Counted, e.SD = e.Mean*by, e.Counted*by, e.SD*by
}

// expectEvents records the forecast before each event that begins in a minute.
func (p *pool) expectEvents(minute int64) {
	for _, x := range p.effects {
		x.setMinute(minute)
		x.observed = math.NaN()
		if x.now() == 0 {
			continue
		}
		if x.Newest+1 < minute || x.Newest == 0 {
			x.begin(minute, p)
		}
		x.Newest = minute
	}
}

// begin records the forecast of the classes that the event applies to, in their first dimension.
func (x *effect) begin(minute int64, p *pool) {
	if x.Begun != 0 {
		x.Var = math.Min(x.Var+effectDrift*effectDrift, x.event.logSD()*x.event.logSD())
	}
	x.Begun, x.Expected, x.Noise = minute, nil, nil
	for d := range dimensions {
		var f Forecast
		if !p.forecastWithoutEvents(x.event.Class, d, &f) {
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

// forecastWithoutEvents forecasts a class, or the pool if the name is empty.
func (p *pool) forecastWithoutEvents(name string, d int, f *Forecast) bool {
	if name == "" {
		return p.total[d] != nil && p.total[d].forecast(f)
	}
	c := p.find(name)
	return c != nil && c.series[d] != nil && c.series[d].forecast(f)
}

// countForEvents adds demand of a class, events included, to the events that apply to it.
func (p *pool) countForEvents(class string, d int, now features.Estimate) {
	for _, x := range p.effects {
		if x.now() > 0 && d == x.Dimension && x.event.applies(class) {
			x.observed = zeroIfNaN(x.observed) + now.Mean
		}
	}
}

// learnEvents updates the factors of events from the demand of a minute.
func (p *pool) learnEvents(minute int64) {
	for _, x := range p.effects {
		h, s := minute-x.Begun, x.now()
		if s < minEffect || math.IsNaN(x.observed) || h < 0 || h >= int64(len(x.Expected)) {
			continue
		}
		expected, noise := float64(x.Expected[h]), float64(x.Noise[h])
		if !(expected > 0) {
			continue
		}
		seen := math.Log(math.Max(x.observed/expected, 1.0/maxEventFactor)) / s
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
		factor := math.Exp(-by * x.event.strength(middle(m)))
		for _, c := range p.classes {
			if !x.event.applies(c.key.Class) {
				continue
			}
			for d := range dimensions {
				s := c.series[d]
				if s == nil {
					continue
				}
				was := s.history.At(m)
				s.history.Amend(m, was*factor)
				if t := p.total[d]; t != nil && !math.IsNaN(was) {
					t.history.Amend(m, math.Max(0, t.history.At(m)+was*(factor-1)))
				}
			}
		}
	}
}

// effectStates are the effects in a snapshot.
func (p *pool) effectStates() (all []effectState) {
	for _, x := range p.effects {
		all = append(all, x.effectState)
	}
	return all
}

// restoreEffects restores the effects of events that are still in the calendar with the same factor.
func (p *pool) restoreEffects(all []effectState) error {
	for i := range all {
		for _, x := range p.effects {
			if x.Name != all[i].Name || x.Stated != all[i].Stated {
				continue
			}
			n := len(all[i].Expected)
			if n != len(all[i].Noise) || n != 0 && n != effectMinutes || all[i].Dimension < 0 || all[i].Dimension >= len(dimensions) {
				return fmt.Errorf("forecaster state of the event %q of %s does not have this program's shape", x.Name, p.name)
			}
			x.effectState = all[i]
		}
	}
	return nil
}
