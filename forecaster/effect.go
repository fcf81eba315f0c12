package forecaster

import (
	"fmt"
	"math"
	"time"

	"github.com/forewarm/forewarm/features"
)

// Scheduled events multiply demand. The series of a pool hold demand without them: what was observed is divided by what
// events are thought to have made of it, so that neither levels nor seasons learn a launch as if it came every day; what
// is forecast is multiplied again, and widened by how uncertain the change from now is.
//
// How much an event really does is learned in its first hour, against what was forecast just before it began: the
// logarithm of the factor has a normal prior, stated by the calendar, and each minute is a noisy observation of it (a
// scalar Kalman filter). An event that was put off is so believed for minutes, not for hours; one that repeats starts
// next time from what it was this time.
const (
	// effectMinutes is how long an event is learned from; what came before it forecasts no further.
	effectMinutes = Horizon
	// effectTogether is how many minutes count as one: their errors are far from independent.
	effectTogether = 10
	// leastEffect is the strength from which on an event can be told from noise.
	leastEffect = 0.25
	// minNoise is the least standard deviation of a minute's logarithm.
	minNoise = 0.05
	// effectDrift is what a factor may change by from one occurrence to the next: a standard deviation of its logarithm.
	effectDrift = 0.1
	// before the origin, this many minutes tell how strong the events are in what the models have seen.
	effectBack = 10
)

// effect is what is known of one event of the pool.
type effect struct {
	event *Event

	effectState
	at       int64 // minute for which strengths hold
	strength [effectBack + Horizon]float64
	came     float64 // demand of the classes concerned in the minute that is being observed
}

// effectState is the part of it that snapshots keep.
type effectState struct {
	Name   string  `cbor:"1,keyasint"`
	Stated float64 `cbor:"2,keyasint"` // the factor of the calendar: when that changes, all begins again
	Mean   float64 `cbor:"3,keyasint"` // of the logarithm of the factor
	Var    float64 `cbor:"4,keyasint"`
	// Begun is the minute in which it began last, 0 before that; Expected is what had been forecast for the minutes from
	// then on, of Dimension, and Noise its standard deviation.
	Begun     int64     `cbor:"5,keyasint,omitempty"`
	Dimension int       `cbor:"6,keyasint,omitempty"`
	Expected  []float32 `cbor:"7,keyasint,omitempty"`
	Noise     []float32 `cbor:"8,keyasint,omitempty"`
	Newest    int64     `cbor:"9,keyasint,omitempty"` // the newest minute in which it was felt
}

func newEffect(e *Event) *effect {
	return &effect{event: e, at: -1, effectState: effectState{Name: e.Name, Stated: e.Factor, Mean: math.Log(e.Factor), Var: e.spread() * e.spread()}}
}

// look works out the strengths around a minute.
func (x *effect) look(minute int64) {
	if x.at == minute {
		return
	}
	x.at = minute
	for i := range x.strength {
		x.strength[i] = x.event.strength(middle(minute + int64(i-effectBack+1)))
	}
}

func middle(minute int64) time.Time { return time.Unix(60*minute+30, 0).UTC() }

// now is the strength in the minute looked at, ahead that h minutes later, seen the mean over the last minutes.
func (x *effect) now() float64        { return x.strength[effectBack-1] }
func (x *effect) ahead(h int) float64 { return x.strength[effectBack-1+h] }
func (x *effect) seen() float64 {
	sum := 0.0
	for _, s := range x.strength[:effectBack] {
		sum += s
	}
	return sum / effectBack
}

// near says whether the event is felt anywhere around the minute looked at.
func (x *effect) near() bool {
	for _, s := range x.strength {
		if s > 0 {
			return true
		}
	}
	return false
}

// multiplier is what the events make of the demand of a class in a minute.
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

// base is what a dimension of a window will come to, without the events. What came with them in the newest minute counts
// towards those.
func (p *pool) base(d int, w *features.Window, multiplier float64, newest bool) (features.Estimate, bool) {
	now, ok := dimensions[d].Now(w)
	if ok && newest {
		p.towards(w.Class, d, now)
	}
	if ok && multiplier != 1 {
		magnify(&now, 1/multiplier)
	}
	return now, ok
}

func magnify(e *features.Estimate, by float64) {
	e.Mean, e.Counted, e.SD, e.Low, e.High = e.Mean*by, e.Counted*by, e.SD*by, e.Low*by, e.High*by
}

// expectEvents notes, of events that begin in a minute, what was forecast before it.
func (p *pool) expectEvents(minute int64) {
	for _, x := range p.effects {
		x.look(minute)
		x.came = math.NaN()
		if x.now() == 0 {
			continue
		}
		if x.Newest+1 < minute || x.Newest == 0 {
			x.begin(minute, p)
		}
		x.Newest = minute
	}
}

// begin takes what is forecast of the classes that the event concerns, in the first dimension that they have.
func (x *effect) begin(minute int64, p *pool) {
	if x.Begun != 0 {
		x.Var = math.Min(x.Var+effectDrift*effectDrift, x.event.spread()*x.event.spread())
	}
	x.Begun, x.Expected, x.Noise = minute, nil, nil
	for d := range dimensions {
		var f Forecast
		if !p.expected(x.event.Class, d, &f) {
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

// expected forecasts a class, or with no name the pool, without events.
func (p *pool) expected(name string, d int, f *Forecast) bool {
	if name == "" {
		return p.total[d] != nil && p.total[d].forecast(f)
	}
	c := p.find(name)
	return c != nil && c.series[d] != nil && c.series[d].forecast(f)
}

// towards counts what came of a class, events and all, for the events that concern it.
func (p *pool) towards(class string, d int, now features.Estimate) {
	for _, x := range p.effects {
		if x.now() > 0 && d == x.Dimension && x.event.applies(class) {
			x.came = zeroIfNaN(x.came) + now.Mean
		}
	}
}

// learnEvents takes what came in a minute.
func (p *pool) learnEvents(minute int64) {
	for _, x := range p.effects {
		h, s := minute-x.Begun, x.now()
		if s < leastEffect || math.IsNaN(x.came) || h < 0 || h >= int64(len(x.Expected)) {
			continue
		}
		expected, noise := float64(x.Expected[h]), float64(x.Noise[h])
		if !(expected > 0) {
			continue
		}
		seen := math.Log(math.Max(x.came/expected, 1.0/maxEventFactor)) / s
		r := effectTogether * noise * noise / (s * s)
		gain := x.Var / (x.Var + r)
		by := gain * (seen - x.Mean)
		x.Mean += by
		x.Var *= 1 - gain
		p.rebase(x, minute, by)
	}
}

// rebase takes the minutes since an event began, up to the one before the newest, for what they are without it now that
// the logarithm of its factor has been moved.
func (p *pool) rebase(x *effect, newest int64, by float64) {
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

// effectStates are those of all events, for a snapshot.
func (p *pool) effectStates() (all []effectState) {
	for _, x := range p.effects {
		all = append(all, x.effectState)
	}
	return all
}

// restoreEffects takes up what was learned of events that are still in the calendar as they were.
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
