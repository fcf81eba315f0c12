package backtest

import (
	"math"
	"testing"
)

func TestCurve(t *testing.T) {
	c := newCurve([]point{{.02, 100}, {0, 200}, {.01, 150}, {.015, 160}, {.02, 90}, {.01, 155}})
	if len(c) != 3 {
		t.Fatalf("%v: want the three points of the Pareto front", c)
	}
	for _, test := range []struct{ share, want float64 }{{0, 200}, {.005, 175}, {.01, 150}, {.015, 120}, {.02, 90}, {.5, 90}} {
		if got := c.hoursAt(test.share); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("at %g: %g GPU-hours, want %g", test.share, got, test.want)
		}
	}
	for _, test := range []struct{ hours, want float64 }{{300, 0}, {175, .005}, {120, .015}, {90, .02}, {80, math.Inf(1)}} {
		if got := c.saturatedAt(test.hours); math.Abs(got-test.want) > 1e-9 && got != test.want {
			t.Errorf("for %g GPU-hours: %g saturated, want %g", test.hours, got, test.want)
		}
	}
	if got := c[1:].hoursAt(.001); !math.IsInf(got, 1) {
		t.Errorf("%g GPU-hours for less saturation than any setting has, want +Inf", got)
	}
	if got := newCurve(nil).hoursAt(1); !math.IsInf(got, 1) {
		t.Errorf("%g GPU-hours for a policy without settings, want +Inf", got)
	}
}

// TestCompareTunesBeforeItScores: all knobs but the first are chosen by the tuning part of the trace, not by the scored
// part.
func TestCompareTunesBeforeItScores(t *testing.T) {
	at := func(spec *PolicySpec, set Setting, tuning, scored point) *contender {
		a := func(p point) Account {
			return Account{Known: 1000, Saturated: int(1000 * p[0]), GPUHours: p[1]}
		}
		return &contender{name: spec.Name, set: set, tuning: a(tuning), pool: &FluidPool{account: a(scored)}}
	}
	own, rival := &PolicySpec{Name: ForewarmPolicy, Knobs: make([]Knob, 1)}, &PolicySpec{Name: "rival", Knobs: make([]Knob, 2)}
	oracle := &PolicySpec{Name: OraclePolicy, Knobs: make([]Knob, 1)}
	c := compare([][]*contender{
		{at(own, Setting{.5}, point{.01, 120}, point{.01, 120})},
		{
			// The second knob is better at 1 in the tuning part, and at 2 in the scored part.
			at(rival, Setting{.7, 1}, point{.02, 100}, point{.02, 130}), at(rival, Setting{.6, 1}, point{0, 120}, point{0, 150}),
			at(rival, Setting{.7, 2}, point{.02, 110}, point{.02, 100}), at(rival, Setting{.6, 2}, point{0, 130}, point{0, 110}),
		},
		{at(oracle, Setting{1}, point{0, 80}, point{0, 100})},
	}, .01)
	if c.BestRival != "rival" || c.Costs[1].GPUHours != 140 || c.Costs[1].Tuned.SaturatedShare != 0 || c.Costs[1].Tuned.GPUHours != 150 {
		t.Errorf("%+v: want 140 GPU-hours, between 130 and 150; and 150 for the setting that kept to the target in the tuning part", c)
	}
	if got := float64(c.GapClosed); math.Abs(got-.5) > 1e-9 {
		t.Errorf("gap closed %g, want (140 − 120)/(140 − 100) = 0.5", got)
	}
	if !math.IsNaN(float64(c.SaturationRatio)) && c.SaturationRatio != 0 {
		t.Errorf("saturation ratio %g: the rival has no setting for 120 GPU-hours", c.SaturationRatio)
	}
}
