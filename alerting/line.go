package alerting

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// lineLadder are the probabilities from one of which on a pool is warned of a saturation, ascending: from a tenth to four fifths
// by two percent points. With steps of five and ten points a tenth of what is borne was left over, for a pool is warned from the
// next step that is rare enough.
var lineLadder = func() (ladder [36]float64) {
	for i := range ladder {
		ladder[i] = float64(10+2*i) / 100
	}
	return ladder
}()

// How lines are learned, chosen on the second thirds of sixteen traces, with pools of four sizes each: TestAlarmBenchmark. What is
// announced for the same number of false alarms hardly depends on any of it. A prior of two days left another tenth of them over, for
// one bad day lifts the line and many good ones are needed to bring it down.
const (
	lineMemory     = 28 * 24 * 60 // minutes after which an alarm counts e times less
	linePrior      = 1            // weeks that the prior counts for
	linePriorLine  = 0.3          // at which the prior has as many false alarms as are borne: where a young pool begins
	lineUnwatched  = 15           // minutes between two ticks, beyond which only one was watched
	minutesPerWeek = 7 * 24 * 60
)

// Line is the probability of saturation from which on a pool is warned: the lowest at which no more alarms than are borne
// came to nothing. It is learned from what warnings at each of lineLadder would have been, whether they were raised or not: an
// alarm, raised and ended as those of a Board, was false where demand did not exceed, within the hour after it was raised, the
// supply that was assumed then. That supply is held fixed, so that a saturation which was averted makes no alarm false. An
// alarm that stands is judged anew each hour, as if it were raised again: one that stands for days for nothing is many.
//
// A fixed probability gives one pool no alarm in a month and another three a day, and nobody can tell before which. The zero
// value has learned nothing. It is pure; a tick costs O(steps), and at most an hour's alarms of each wait for their end.
type Line struct {
	Steps []lineStep `cbor:"1,keyasint"` // of lineLadder; none before the first tick
	Weeks float64    `cbor:"2,keyasint"` // that were watched, older ones counting less
	Last  int64      `cbor:"3,keyasint"` // newest tick, Unix minute
}

// lineStep is what warnings at one probability would have been.
type lineStep struct {
	_ struct{} `cbor:",toarray"`

	Alarm Alarm
	Since int64   // when the alarm that stands was raised or last judged, Unix minute
	Open  []claim // that are not over, oldest first
	False float64 // alarms, older ones counting less
}

// claim is an alarm that waits for what comes.
type claim struct {
	_ struct{} `cbor:",toarray"`

	At          int64 // Unix minute
	Known, Came bool
}

// Alarm is raised and ended by a probability as a Board does it with conditions. The zero value does not stand.
type Alarm struct {
	_ struct{} `cbor:",toarray"`

	Held, Clear int // ticks in a row at the line before it is raised; below fadeShare of it while it stands
	Stands      bool
}

// Tick takes in a probability, and says whether the alarm stands.
func (a *Alarm) Tick(probability, line float64, cfg Config) bool {
	switch {
	case a.Stands && probability >= fadeShare*line:
		a.Clear = 0
	case a.Stands:
		if a.Clear++; a.Clear >= cfg.ResolveAfter {
			*a = Alarm{}
		}
	case probability >= line:
		if a.Held++; a.Held >= cfg.RaiseAfter {
			*a = Alarm{Stands: true}
		}
	default:
		a.Held = 0
	}
	return a.Stands
}

// Judge takes in what came of the hour from a minute on: whether demand exceeded the supply that was assumed at its beginning.
// Of several resources, one that did is enough.
func (l *Line) Judge(outcomes []forecaster.Outcome) {
	for _, o := range outcomes {
		for i := range l.Steps {
			open := l.Steps[i].Open
			if at, found := slices.BinarySearchFunc(open, o.Minute, func(c claim, m int64) int { return int(c.At - m) }); found {
				open[at].Known, open[at].Came = true, open[at].Came || o.Short
			}
		}
	}
}

// Tick takes in the probability of saturation that warnings go by, after the outcomes of the hours that were over by now.
func (l *Line) Tick(now time.Time, probability float64, cfg Config) {
	minute := now.Unix() / int64(features.Minute/time.Second)
	if len(l.Steps) != len(lineLadder) { // the first tick
		*l = Line{Steps: make([]lineStep, len(lineLadder)), Last: minute - 1}
	}
	passed := minute - l.Last
	if passed <= 0 {
		return
	}
	l.Last = minute
	keep, watched := math.Exp(-float64(passed)/lineMemory), passed
	if watched > lineUnwatched {
		watched = 1
	}
	l.Weeks = keep*l.Weeks + float64(watched)/minutesPerWeek
	for i := range l.Steps {
		s := &l.Steps[i]
		s.False *= keep
		s.settle(minute)
		stood := s.Alarm.Stands
		if stands := s.Alarm.Tick(probability, lineLadder[i], cfg); stands && (!stood || minute-s.Since >= forecaster.Horizon) {
			s.Since, s.Open = minute, append(s.Open, claim{At: minute})
		}
	}
}

// settle counts the alarms that are over. One of which it is not known what came counts as none.
func (s *lineStep) settle(minute int64) {
	over := 0
	for over < len(s.Open) && s.Open[over].At+forecaster.Horizon <= minute {
		if c := s.Open[over]; c.Known && !c.Came {
			s.False++
		}
		over++
	}
	s.Open = slices.Delete(s.Open, 0, over)
}

// At is the line, and how many alarms a week are expected to come to nothing at it; where cfg has none learned, that of
// AlertProbability, and 0 for what is not known.
func (l *Line) At(cfg Config) (probability, falsePerWeek float64) {
	if cfg.FalseAlarmsPerWeek == 0 {
		return cfg.AlertProbability, 0
	}
	for i, p := range lineLadder {
		prior := cfg.FalseAlarmsPerWeek * (linePriorLine / p) * (linePriorLine / p)
		came := 0.
		if i < len(l.Steps) {
			came = l.Steps[i].False
		}
		probability, falsePerWeek = p, (came+linePrior*prior)/(l.Weeks+linePrior)
		if falsePerWeek <= cfg.FalseAlarmsPerWeek*(1+1e-9) {
			break
		}
	}
	return probability, falsePerWeek
}
