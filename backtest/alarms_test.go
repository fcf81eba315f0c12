package backtest

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// testPoolOfTwo returns a pool of two replicas with the need and the probability of each minute.
func testPoolOfTwo(warmup time.Duration, minutes int, at func(minute int) (need, probability float64)) *fixedPool {
	w := &fixedPool{pool: capacity.Pool{Warmup: capacity.NewWarmup(warmup, warmup)}, cfg: alerting.DefaultConfig(), replicas: 2, from: DefaultStart}
	for m := range minutes {
		need, p := at(m)
		w.need, w.probability = append(w.need, need), append(w.probability, p)
	}
	return w
}

// TestAlarms: the pool saturates at minutes 100 and 200. The saturations at 202 to 204, 210 and 230 are within half an
// hour of another one, so they are no new onsets.
func TestAlarms(t *testing.T) {
	w := testPoolOfTwo(5*time.Minute, 400, func(m int) (need, p float64) {
		need = 1
		switch {
		case m == 100, m >= 200 && m < 205, m == 210, m == 230:
			need = 3
		}
		switch {
		case m >= 80 && m < 100: // in time for 100
			p = .8
		case m >= 197 && m < 204: // less than a warm-up before 200: too late
			p = .8
		case m >= 300 && m < 310: // no saturation follows
			p = .6
		}
		return need, p
	})
	w.cfg.WarningProbability = .5
	a := w.alarms()
	if a.Onsets != 2 {
		t.Errorf("%d onsets, want those at 100 and 200", a.Onsets)
	}
	weeks := Number(float64(len(w.need)) / (7 * day))
	want := AlarmPoint{Threshold: .5, Raised: 3, Precision: 2. / 3, Recall: .5, LeadP50: 19 * 60, FalsePerWeek: 1 / weeks, HourlyFalsePerWeek: 1 / weeks}
	got := a.Operating
	want.Announced = (23. + 10 + 13) / 400 // 81 to 103, 198 to 207, 301 to 313
	// 250 minutes have no saturation in the hour after them; in those the alarms were active at 101 to 103 and 301 to 313.
	if got := w.alarmShare(w.episodes(.5)); got != 16./250 {
		t.Errorf("alarms are active in %g of the quiet minutes, want 16 of 250", got)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("at 0.5 (-want +got):\n%s", diff)
	}
	for _, p := range w.curve(w.onsets()) {
		raised := 3
		switch {
		case p.Threshold > .8:
			raised = 0
		case p.Threshold > .6:
			raised = 2
		}
		if p.Raised != raised {
			t.Errorf("at %g: %d alarms, want %d", p.Threshold, p.Raised, raised)
		}
	}
}

// TestAlarmEpisodes: alarms a few minutes apart count as one. An alarm that begins during a saturation does not count
// as a warning.
func TestAlarmEpisodes(t *testing.T) {
	w := testPoolOfTwo(time.Minute, 200, func(m int) (need, p float64) {
		need = 1
		if m == 120 {
			need = 3
		}
		if m%4 < 2 && m >= 28 && m < 60 || m == 121 {
			p = 1
		}
		return need, p
	})
	if got := w.episodes(.5); len(got) != 1 || got[0].from != 29 || got[0].to != 62 {
		t.Errorf("%v: want one alarm from 29, the second tick, to five ticks after 57", got)
	}
}

// TestLongAlarm: an alarm that is active for hours before a saturation does not announce it, and counts as false in
// each of these hours. From the first saturation on, it announces the next.
func TestLongAlarm(t *testing.T) {
	w := testPoolOfTwo(time.Minute, 600, func(m int) (need, p float64) {
		if m == 400 || m == 450 {
			return 3, 1
		}
		return 1, 1
	})
	got := w.score(.5, w.onsets())
	if got.Recall != .5 || got.Raised != 1 || got.FalsePerWeek != 0 || math.Abs(float64(got.HourlyFalsePerWeek)*600/(7*day)-8) > 1e-9 {
		t.Errorf("%+v: want the second of two announced, and eight of ten hours false", got)
	}
}

// TestKnownLevelAlarms: a forecaster that knows the level announces the saturation after a ramp, and not the one of a
// single minute.
func TestKnownLevelAlarms(t *testing.T) {
	w := testPoolOfTwo(5*time.Minute, 2000, func(m int) (need, p float64) {
		need = 1 + .02*float64(m%2)
		switch {
		case m == 1500:
			need = 2.2
		case m >= 470 && m < 520:
			need += float64(m-470) / 40
		}
		return need, 0
	})
	a := w.inHindsight()
	if a.Onsets != 2 || a.levelKnown.Recall != .5 || a.atFalseShare.Recall != 0 {
		t.Errorf("%d onsets, recall %g with a known level, %g without alarms; want 2, 0.5, 0", a.Onsets, a.levelKnown.Recall, a.atFalseShare.Recall)
	}
}
