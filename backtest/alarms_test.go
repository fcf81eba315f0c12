package backtest

import (
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// A pool of two replicas that warm up in five minutes saturates at minutes 100 and 200 to 204, and again at 210, too soon
// for a new onset; 230 is within half an hour of that.
func testWatch() *watch {
	w := &watch{pool: capacity.Pool{Warmup: capacity.NewWarmup(5*time.Minute, 5*time.Minute)}, replicas: 2, from: DefaultStart}
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
	a := testWatch().alarms(.5)
	if a.Onsets != 2 {
		t.Errorf("%d onsets, want those at 100 and 200", a.Onsets)
	}
	want := AlarmPoint{Threshold: .5, Raised: 3, Precision: 2. / 3, Recall: .5, LeadP50: 20 * 60, FalsePerWeek: Number(1 / (400. / (7 * day)))}
	if got := a.Operating; math.Abs(float64(got.FalsePerWeek-want.FalsePerWeek)) > 1e-9 || got.Raised != want.Raised || got.Precision != want.Precision || got.Recall != want.Recall || got.LeadP50 != want.LeadP50 {
		t.Errorf("at 0.5: %+v, want %+v", got, want)
	}
	// 250 minutes have no saturation in the hour after them; in those the alarms stood at 101 to 113 and 300 to 323.
	if got := float64(a.Operating.FalseShare); math.Abs(got-37./250) > 1e-9 {
		t.Errorf("alarms stood for nothing in %.3f of the minutes", got)
	}
	for _, p := range a.Curve {
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
func TestAlarmsEndAfterAQuarter(t *testing.T) {
	w := &watch{pool: capacity.Pool{Warmup: capacity.NewWarmup(time.Minute, time.Minute)}, replicas: 2}
	for m := range 200 {
		need, p := 1., 0.
		if m%10 == 0 && m > 20 && m < 60 { // every ten minutes
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
	if got := w.episodes(.5); len(got) != 1 || got[0].from != 30 || got[0].to != 65 {
		t.Errorf("%v: want one alarm from 30, over a quarter hour after 50", got)
	}
}

func TestPages(t *testing.T) {
	p := newPager(DefaultStart.Add(10 * time.Minute))
	page := alerting.Alert{Name: alerting.TooLateToWarm, Labels: map[string]string{"pool": "p", "severity": string(alerting.Page)}}
	warning := alerting.Alert{Name: alerting.SaturationAhead, Labels: map[string]string{"pool": "p", "severity": string(alerting.Warning)}}
	resolved := page
	resolved.Resolved = true
	saturated := 0
	for m := range 200 {
		at := DefaultStart.Add(time.Duration(m) * time.Minute)
		switch m {
		case 5: // before what is scored
			p.tick(at, []alerting.Alert{page})
		case 6:
			p.tick(at, []alerting.Alert{resolved})
		case 20, 21: // one page, that comes true
			p.tick(at, []alerting.Alert{page, warning})
		case 40:
			p.tick(at, []alerting.Alert{resolved})
		case 100: // one that does not
			p.tick(at, []alerting.Alert{page})
		}
		if m == 30 {
			saturated++
		}
		p.minute(at, Account{Saturated: saturated})
	}
	if got := p.pages(); got.Raised != 2 || got.False != 1 || math.Abs(float64(got.PerWeek)-7*day/190.) > 1e-9 {
		t.Errorf("%+v: want two pages, one of them false, in 190 minutes", got)
	}
}
