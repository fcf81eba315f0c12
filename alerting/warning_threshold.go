package alerting

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// thresholds are the possible alert thresholds, ascending: 10 % to 80 % in steps of two points. With steps of five or
// ten points, a pool uses only 90 % of its allowed false alarms, because the next lower step has too many.
var thresholds = func() (values [36]float64) {
	for i := range values {
		values[i] = float64(10+2*i) / 100
	}
	return values
}()

// How thresholds are learned; chosen on the second thirds of sixteen traces, with four pool sizes each
// (TestAlarmBenchmark). Recall at the same number of false alarms hardly depends on them. With a prior of two days, a
// pool uses 10 % fewer of its allowed false alarms: one bad day raises the threshold, and many good days are needed to
// lower it.
const (
	thresholdMemory = 28 * 24 * 60 // time constant in minutes: older alarms count less
	priorWeeks      = 1            // weight of the prior, weeks
	priorThreshold  = 0.3          // threshold of a new pool: there, the prior has the allowed number of false alarms
	maxGap          = 15           // a longer gap between ticks, in minutes, counts as one observed minute
	minutesPerWeek  = 7 * 24 * 60
)

// WarningThreshold learns the alert threshold of a pool: the lowest probability of saturation with no more false alarms
// than allowed. It simulates the alarms at each of thresholds, raised and resolved as by an AlertTracker. An alarm is
// false if demand did not exceed, in the hour after it was raised, the supply that was assumed then. That supply is
// fixed, so an averted saturation does not make an alarm false. An alarm that stays active is judged again each hour.
//
// With a fixed threshold, one pool has no alarm in a month and another has three a day. The zero value has learned
// nothing. It is pure; a tick costs O(steps). For each step, at most the alarms of one hour are open.
type WarningThreshold struct {
	Steps []thresholdStep `cbor:"1,keyasint"` // of thresholds; none before the first tick
	Weeks float64         `cbor:"2,keyasint"` // observed; older ones count less
	Last  int64           `cbor:"3,keyasint"` // newest tick, Unix minute
}

// thresholdStep has the simulated alarms at one threshold.
type thresholdStep struct {
	_ struct{} `cbor:",toarray"`

	Alarm Alarm
	Since int64            // when the active alarm was raised or last judged, Unix minute
	Open  []simulatedAlarm // not judged yet, oldest first
	False float64          // false alarms; older ones count less
}

// simulatedAlarm is an alarm that is not judged yet.
type simulatedAlarm struct {
	_ struct{} `cbor:",toarray"`

	At               int64 // Unix minute
	Known, Saturated bool
}

// Alarm is raised and resolved by a probability, like the conditions of an AlertTracker. The zero value is inactive.
type Alarm struct {
	_ struct{} `cbor:",toarray"`

	Held, Clear int // ticks in a row: at the threshold before it is raised; below fadeShare of it while active
	Active      bool
}

// Tick adds a probability, and returns whether the alarm is active.
func (a *Alarm) Tick(probability, line float64, cfg Config) bool {
	switch {
	case a.Active && probability >= fadeShare*line:
		a.Clear = 0
	case a.Active:
		if a.Clear++; a.Clear >= cfg.ResolveAfter {
			*a = Alarm{}
		}
	case probability >= line:
		if a.Held++; a.Held >= cfg.RaiseAfter {
			*a = Alarm{Active: true}
		}
	default:
		a.Held = 0
	}
	return a.Active
}

// AddOutcomes adds outcomes of hours: whether demand exceeded the supply that was assumed at the beginning. One of
// several resources is enough.
func (l *WarningThreshold) AddOutcomes(outcomes []forecaster.Outcome) {
	for _, o := range outcomes {
		for i := range l.Steps {
			open := l.Steps[i].Open
			byMinute := func(a simulatedAlarm, minute int64) int { return int(a.At - minute) }
			if at, found := slices.BinarySearchFunc(open, o.Minute, byMinute); found {
				open[at].Known, open[at].Saturated = true, open[at].Saturated || o.Short
			}
		}
	}
}

// Tick adds the probability of saturation used for warnings. Call it after AddOutcomes with all outcomes up to now.
func (l *WarningThreshold) Tick(now time.Time, probability float64, cfg Config) {
	minute := now.Unix() / int64(features.Minute/time.Second)
	if len(l.Steps) != len(thresholds) { // the first tick
		*l = WarningThreshold{Steps: make([]thresholdStep, len(thresholds)), Last: minute - 1}
	}
	passed := minute - l.Last
	if passed <= 0 {
		return
	}
	l.Last = minute
	keep, watched := math.Exp(-float64(passed)/thresholdMemory), passed
	if watched > maxGap {
		watched = 1
	}
	l.Weeks = keep*l.Weeks + float64(watched)/minutesPerWeek
	for i := range l.Steps {
		s := &l.Steps[i]
		s.False *= keep
		s.settle(minute)
		was := s.Alarm.Active
		if active := s.Alarm.Tick(probability, thresholds[i], cfg); active && (!was || minute-s.Since >= forecaster.Horizon) {
			s.Since, s.Open = minute, append(s.Open, simulatedAlarm{At: minute})
		}
	}
}

// settle counts the false alarms among those whose hour is over. An unknown outcome does not count.
func (s *thresholdStep) settle(minute int64) {
	over := 0
	for over < len(s.Open) && s.Open[over].At+forecaster.Horizon <= minute {
		if c := s.Open[over]; c.Known && !c.Saturated {
			s.False++
		}
		over++
	}
	s.Open = slices.Delete(s.Open, 0, over)
}

// Value is the threshold, and the expected number of false alarms a week at it. If cfg sets no FalseAlarmsPerWeek, it
// is AlertProbability and 0 (unknown).
func (l *WarningThreshold) Value(cfg Config) (probability, falsePerWeek float64) {
	if cfg.FalseAlarmsPerWeek == 0 {
		return cfg.AlertProbability, 0
	}
	for i, p := range thresholds {
		prior := cfg.FalseAlarmsPerWeek * (priorThreshold / p) * (priorThreshold / p)
		falseAlarms := 0.
		if i < len(l.Steps) {
			falseAlarms = l.Steps[i].False
		}
		probability, falsePerWeek = p, (falseAlarms+priorWeeks*prior)/(l.Weeks+priorWeeks)
		if falsePerWeek <= cfg.FalseAlarmsPerWeek*(1+1e-9) {
			break
		}
	}
	return probability, falsePerWeek
}
