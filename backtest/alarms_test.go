package backtest

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// A pool of two replicas that warm up in five minutes saturates at minutes 100 and 200 to 204, and again at 210, too
// soon for a new onset; 230 is within half an hour of that.
func testWatch() *fixedPool {
	w := &fixedPool{pool: capacity.Pool{Warmup: capacity.NewWarmup(5*time.Minute, 5*time.Minute)}, cfg: alerting.DefaultConfig(), replicas: 2, from: DefaultStart}
	for m := range 400 {
		need, p := 1., 0.
		switch {
		case m == 100, m >= 200 && m < 205, m == 210, m == 230:
			need = 3
		}
		switch {
		case m >= 80 && m < 100: // in time for 100
			p = .8
		case m >= 197 && m < 204: // too late for 200, where a warm-up takes five minutes
			p = .8
		case m >= 300 && m < 310: // nothing comes
			p = .6
		}
		w.need, w.probability = append(w.need, need), append(w.probability, p)
	}
	return w
}

func TestAlarms(t *testing.T) {
	w := testWatch()
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
		t.Errorf("alarms stood in %g of the quiet minutes", got)
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

// An alarm that flickers is one; one that begins while the pool is saturated is no news.
func TestAlarmsEndAsThoseOfTheBoard(t *testing.T) {
	w := &fixedPool{pool: capacity.Pool{Warmup: capacity.NewWarmup(time.Minute, time.Minute)}, cfg: alerting.DefaultConfig(), replicas: 2}
	for m := range 200 {
		need, p := 1., 0.
		if m%4 < 2 && m >= 28 && m < 60 {
			p = 1
		}
		if m == 120 {
			need = 3
		}
		if m > 120 && m < 122 {
			p = 1
		}
		w.need, w.probability = append(w.need, need), append(w.probability, p)
	}
	if got := w.episodes(.5); len(got) != 1 || got[0].from != 29 || got[0].to != 62 {
		t.Errorf("%v: want one alarm from 29, the second tick, to five ticks after 57", got)
	}
}

// An alarm that is active for hours before a saturation does not announce it, and is false each hour. Once one came, it
// announces the next.
func TestAlarmThatStandsForHoursAnnouncesNothing(t *testing.T) {
	w := &fixedPool{pool: capacity.Pool{Warmup: capacity.NewWarmup(time.Minute, time.Minute)}, cfg: alerting.DefaultConfig(), replicas: 2}
	for m := range 600 {
		need := 1.
		if m == 400 || m == 450 {
			need = 3
		}
		w.need, w.probability = append(w.need, need), append(w.probability, 1)
	}
	got := w.score(.5, w.onsets())
	if got.Recall != .5 || got.Raised != 1 || got.FalsePerWeek != 0 || math.Abs(float64(got.HourlyFalsePerWeek)*600/(7*day)-8) > 1e-9 {
		t.Errorf("%+v: want the second of two announced, and eight of ten hours false", got)
	}
}

func TestKnowingTheLevel(t *testing.T) {
	w := &fixedPool{pool: capacity.Pool{Warmup: capacity.NewWarmup(5*time.Minute, 5*time.Minute)}, cfg: alerting.DefaultConfig(), replicas: 2, from: DefaultStart}
	for m := range 2000 {
		need := 1 + .02*float64(m%2)
		switch {
		case m == 1500:
			need = 2.2
		case m >= 470 && m < 520:
			need += float64(m-470) / 40
		}
		w.need, w.probability = append(w.need, need), append(w.probability, 0)
	}
	a := w.inHindsight()
	if a.Onsets != 2 || a.levelKnown.Recall != .5 || a.atFalseShare.Recall != 0 {
		t.Errorf("%d onsets, of which one who knows the level announces %g, and alarms that are never raised %g; want 2, half, none", a.Onsets, a.levelKnown.Recall, a.atFalseShare.Recall)
	}
}
