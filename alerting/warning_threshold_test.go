package alerting

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/forecaster"
)

var thresholdStart = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// simulate runs a threshold over hours of which the first minutes have a probability, and then none; short says whether
// a saturation follows.
func simulate(l *WarningThreshold, cfg Config, hours, minutes int, probability float64, short func(hour int) bool) {
	start := l.Last + 1
	if l.Last == 0 {
		start = thresholdStart.Unix() / 60
	}
	for m := range int64(hours * 60) {
		if from := m - forecaster.Horizon; from >= 0 {
			l.AddOutcomes([]forecaster.Outcome{{Dimension: "kv", Minute: start + from, Short: short(int(from / 60))}})
		}
		p := 0.
		if m%60 < int64(minutes) {
			p = probability
		}
		l.Tick(time.Unix((start+m)*60, 0), p, cfg)
	}
}

func TestWarningThresholdFollowsWhatAlarmsWereWorth(t *testing.T) {
	cfg := DefaultConfig()
	never, always := func(int) bool { return false }, func(int) bool { return true }
	var young WarningThreshold
	if from, wrong := young.Value(cfg); from != priorThreshold || wrong != cfg.FalseAlarmsPerWeek {
		t.Errorf("a young pool is warned from %g on, %g false a week expected", from, wrong)
	}
	for name, c := range map[string]struct {
		probability float64
		short       func(hour int) bool
		from        float64
	}{
		"nothing was ever stated":                      {0, never, .14},
		"alarms at 0.45 come to nothing each hour":     {.45, never, .46},
		"as often, but demand exceeds the supply":      {.45, always, .14},
		"alarms at nearly 1 come to nothing each hour": {.99, never, .8},
		"one alarm in twenty comes to nothing":         {.45, func(hour int) bool { return hour%20 > 0 }, .24},
		"one alarm in five comes to nothing":           {.45, func(hour int) bool { return hour%5 > 0 }, .46},
	} {
		var l WarningThreshold
		simulate(&l, cfg, 12*7*24, 20, c.probability, c.short)
		if from, wrong := l.Value(cfg); from != c.from || wrong > cfg.FalseAlarmsPerWeek && c.from < .8 {
			t.Errorf("%s: warned from %g on with %.1f false a week, want %g", name, from, wrong, c.from)
		}
	}
}

// One bad day of a young pool does not silence it: with a prior that counted for two days it was warned from 0.4 on.
func TestWarningThresholdOutlivesABadDay(t *testing.T) {
	cfg := DefaultConfig()
	never := func(int) bool { return false }
	var l WarningThreshold
	simulate(&l, cfg, 2*24, 0, 0, never)
	simulate(&l, cfg, 8, 20, .38, never)
	bad, _ := l.Value(cfg)
	if bad <= priorThreshold || bad >= .4 {
		t.Errorf("warned from %g on after eight false alarms at 0.38 in a day, want between %g and 0.4", bad, priorThreshold)
	}
	simulate(&l, cfg, 4*24, 0, 0, never)
	if from, _ := l.Value(cfg); from >= bad || from > priorThreshold {
		t.Errorf("warned from %g on after four quiet days, and %g before", from, bad)
	}
}

// An averted saturation does not make an alarm false: the supply at the alarm counts. An unknown outcome does not count.
func TestWarningThresholdJudgesAnAlarmByItsOwnMinute(t *testing.T) {
	cfg := DefaultConfig()
	var l WarningThreshold
	for m := range int64(200) {
		at := thresholdStart.Unix()/60 + m
		switch m {
		case 61:
			l.AddOutcomes([]forecaster.Outcome{{Dimension: "kv", Minute: at - 60}, {Dimension: "decode", Minute: at - 60, Short: true}})
		case 81: // another minute's
			l.AddOutcomes([]forecaster.Outcome{{Dimension: "kv", Minute: at - 61}})
		case 160:
			l.AddOutcomes([]forecaster.Outcome{{Dimension: "kv", Minute: at - 60}})
		}
		p := 0.
		if m < 4 || m >= 20 && m < 24 || m >= 99 && m < 102 { // raised at 1, 21 and 100
			p = .9
		}
		l.Tick(time.Unix(at*60, 0), p, cfg)
	}
	for i, s := range l.Steps {
		if !(s.False > .99 && s.False <= 1) || len(s.Open) > 0 {
			t.Errorf("at %g: %.3f false, %d open; want the third alone, since of the first one resource saturated, and of the second nothing is known", thresholds[i], s.False, len(s.Open))
		}
	}
}

func TestWarningThresholdCountsALongAlarmEachHour(t *testing.T) {
	var long, repeated WarningThreshold
	cfg := DefaultConfig()
	never := func(int) bool { return false }
	simulate(&long, cfg, 24, 60, .9, never)
	simulate(&repeated, cfg, 24, 20, .9, never)
	if got, want := long.Steps[0].False, repeated.Steps[0].False; got < .9*want || want < 20 {
		t.Errorf("%.1f false for an alarm of a day, %.1f for one raised each hour", got, want)
	}
}

func TestWarningThresholdForgetsAndIsBounded(t *testing.T) {
	cfg := DefaultConfig()
	var l WarningThreshold
	simulate(&l, cfg, 4*7*24, 20, .45, func(int) bool { return false })
	if from, _ := l.Value(cfg); from != .46 {
		t.Fatalf("warned from %g on", from)
	}
	simulate(&l, cfg, 26*7*24, 0, 0, func(int) bool { return false })
	if from, _ := l.Value(cfg); from > .14 {
		t.Errorf("half a year later still warned from %g on", from)
	}
	if weeks := l.Weeks; weeks > thresholdMemory/float64(minutesPerWeek)+.01 {
		t.Errorf("%.2f weeks remembered", weeks)
	}
	weeks := l.Weeks
	l.Tick(time.Unix((l.Last+7*24*60)*60, 0), 0, cfg)
	if l.Weeks > weeks {
		t.Errorf("a week without a tick counts as watched: %.2f after %.2f weeks", l.Weeks, weeks)
	}
	unjudged := WarningThreshold{} // nobody knows what came
	for m := range int64(3000) {
		unjudged.Tick(thresholdStart.Add(time.Duration(m)*time.Minute), float64(m/7%2), cfg)
		for _, s := range unjudged.Steps {
			if len(s.Open) > forecaster.Horizon {
				t.Fatalf("%d alarms wait for their end", len(s.Open))
			}
		}
	}
}

func TestFixedThreshold(t *testing.T) {
	cfg := DefaultConfig()
	cfg.FalseAlarmsPerWeek = 0
	var l WarningThreshold
	if from, wrong := l.Value(cfg); from != cfg.AlertProbability || wrong != 0 {
		t.Errorf("warned from %g on with %g false a week, want the configured", from, wrong)
	}
}

// warnedFrom is a decision for a pool without a reserve.
func warnedFrom(threshold, soon, ahead float64, p50 time.Duration) Decision {
	d := decided()
	d.WarnFrom, d.FalsePerWeek = threshold, 4
	d.Reserves.Failure, d.Resources[0].AfterFailure = 0, nil
	d.Resources[0].Probability, d.Resources[0].Ahead, d.Resources[0].ETA.P50 = soon, ahead, p50
	d.Probability, d.ETA.P50 = soon, p50
	return d
}

// An Alarm is active in those ticks in which an AlertTracker has the warning fire.
func TestAlarmEqualsTrackedWarning(t *testing.T) {
	cfg := DefaultConfig()
	r := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		tracker, now := NewAlertTracker(cfg), thresholdStart
		var a Alarm
		p := .3
		for tick := range 300 {
			p = min(max(p+.2*(r.Float64()-.5), 0), 1)
			d := warnedFrom(.3, .1, p, forecaster.Never)
			fires := false
			for _, alert := range tracker.Update(now, Conditions(&d, nil, cfg)) {
				fires = fires || alert.Name == SaturationAhead && !alert.Resolved
			}
			if active := a.Tick(p, .3, cfg); active != fires {
				t.Fatalf("tick %d at %.2f: active %v, fires %v", tick, p, active, fires)
			}
			now = now.Add(time.Minute)
		}
	}
}

// What is warned of early says by how far, and from which probability on.
func TestEarlyWarning(t *testing.T) {
	cfg := DefaultConfig()
	d := warnedFrom(.2, .12, .31, forecaster.Never)
	got := Conditions(&d, nil, cfg)
	if len(got) != 1 || got[0].Name != SaturationAhead || got[0].Fading || got[0].Severity != Warning {
		t.Fatalf("%+v: want a warning", got)
	}
	for key, want := range map[string]string{
		"summary": "may be full within 28 min (30 % likely)", "saturation_probability": "0.31", "warning_threshold": "A warning begins at a chance of 20 % within 28 min. Expected false warnings a week: about 4.",
	} {
		if !strings.Contains(got[0].Annotations[key], want) {
			t.Errorf("%s is %q, want %q in it", key, got[0].Annotations[key], want)
		}
	}
	d = warnedFrom(.4, .12, .31, forecaster.Never)
	if got := Conditions(&d, nil, cfg); len(got) != 1 || !got[0].Fading {
		t.Errorf("%+v: want one that keeps an alert and raises none", got)
	}
	d = warnedFrom(.6, .12, .31, forecaster.Never)
	if got := Conditions(&d, nil, cfg); len(got) != 0 {
		t.Errorf("%+v: want none", got)
	}
}

// A page is the same whatever the threshold.
func TestPagesIgnoreTheThreshold(t *testing.T) {
	cfg := DefaultConfig()
	late := func(from float64) *Condition {
		d := warnedFrom(from, .8, .85, 12*time.Minute)
		for _, c := range Conditions(&d, nil, cfg) {
			if c.Severity == Page {
				return &c
			}
		}
		return nil
	}
	fixed := late(0)
	if fixed == nil {
		t.Fatal("no page of what is nearer than the warm-up")
	}
	for _, from := range []float64{.1, .8} {
		if diff := cmp.Diff(fixed, late(from)); diff != "" {
			t.Errorf("with another threshold:\n%s", diff)
		}
	}
}
