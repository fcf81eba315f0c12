package alerting

import (
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/forecaster"
)

// TestAskedAt: when a replica is lost, another one is requested at that moment. The time of the request stays until the
// pool has enough replicas.
func TestAskedAt(t *testing.T) {
	st, cfg := State{}, DefaultConfig()
	var d Decision
	tick := func(minute, ready int) {
		in := scene{ready: ready, median: flat(350), last: 350}.input(t)
		d, st = Decide(noon.Add(time.Duration(minute)*time.Minute), in, st, cfg)
	}
	tick(0, 4)
	if !d.AskedAt.IsZero() {
		t.Errorf("no replica was requested, AskedAt is %s", d.AskedAt)
	}
	tick(10, 3)
	tick(11, 3)
	if want := noon.Add(10 * time.Minute); d.Desired != 4 || !d.AskedAt.Equal(want) {
		t.Errorf("%d replicas requested at %s, want 4 at %s", d.Desired, d.AskedAt, want)
	}
	tick(20, 4)
	tick(30, 3)
	if want := noon.Add(30 * time.Minute); !d.AskedAt.Equal(want) {
		t.Errorf("requested at %s, want %s", d.AskedAt, want)
	}
}

// saturateNow makes all resources saturate in the first minute.
func saturateNow(in *Input) {
	for i := range in.Projection.Resources {
		r := &in.Projection.Resources[i]
		r.ETA = forecaster.ETA{}
		for h := range r.Probability {
			r.Probability[h] = 1
		}
	}
}

// TestLost: a warning says that replicas no longer report, while more are wanted than report.
func TestLost(t *testing.T) {
	st, cfg := State{}, DefaultConfig()
	cfg.Mode = Active
	for _, tick := range []struct {
		minute, ready, draining int
		demand                  float64
		want                    string
	}{
		{0, 8, 0, 790, ""},
		{1, 7, 1, 790, ""}, // one is replaced
		{2, 8, 0, 790, ""},
		{3, 4, 0, 790, "4 of 8 replicas stopped reporting before 12:03 UTC, so Forewarm counts 4."},
		{4, 5, 0, 790, "3 of 8 replicas stopped reporting before 12:03 UTC, so Forewarm counts 5."},
		{5, 5, 0, 490, "3 of 8 replicas stopped reporting before 12:03 UTC, so Forewarm counts 5."}, // the request is kept
		{6, 8, 0, 790, ""},
		{7, 7, 0, 790, "1 of 8 replicas stopped reporting before 12:07 UTC, so Forewarm counts 7."},
		{67, 7, 0, 690, ""}, // enough
		{68, 7, 0, 790, ""},
	} {
		at := noon.Add(time.Duration(tick.minute) * time.Minute)
		in := scene{ready: tick.ready, median: flat(tick.demand), last: tick.demand, edit: func(in *Input) {
			in.Minute.State.Draining, in.Minute.LastEvent = tick.draining, at
			saturateNow(in)
		}}.input(t)
		var d Decision
		d, st = Decide(at, in, st, cfg)
		if got := strings.Join(d.Warnings, " "); got != tick.want {
			t.Errorf("minute %d: warnings %q, want %q", tick.minute, got, tick.want)
		}
		for _, c := range Conditions(&d, in.Forecast, cfg) {
			if text := strings.ReplaceAll(tick.want, " UTC", ""); !strings.Contains(c.Annotations["description"], text) {
				t.Errorf("minute %d: %s says %q, without %q", tick.minute, c.Name, c.Annotations["description"], text)
			}
		}
	}
}

// TestFromZero: a pool that was at zero and starts its first replica warns, and pages once the replica is late. A pool
// that loses its last replica pages.
func TestFromZero(t *testing.T) {
	st, cfg := State{}, DefaultConfig()
	cfg.Mode = Active
	var d Decision
	tick := func(minute, ready, pending int, now, soon float64) map[AlertName]Condition {
		at, alerts := noon.Add(time.Duration(minute)*time.Minute), map[AlertName]Condition{}
		in := scene{ready: ready, pending: pending, median: flat(soon), last: now, edit: func(in *Input) {
			in.Pool.Replicas.Min, in.Minute.LastEvent = 0, at
			if ready == 0 && soon > 0 {
				saturateNow(in)
			}
		}}.input(t)
		d, st = Decide(at, in, st, cfg)
		for _, c := range Conditions(&d, in.Forecast, cfg) {
			alerts[c.Name] = c
		}
		return alerts
	}
	tick(0, 0, 0, 0, 0)
	if d.Desired != 0 || !d.FromZero {
		t.Errorf("%d replicas are desired, from zero: %t", d.Desired, d.FromZero)
	}
	soon := tick(1, 0, 0, 0, 50)
	text := soon[SaturationAhead].Annotations["summary"]
	if text != "Pool llama: no replica is ready, and requests will come within a minute" {
		t.Errorf("before the first request: %q", text)
	}
	for _, minute := range []int{2, 13, 16} {
		page := minute > 14
		c := tick(minute, 0, 1, 50, 50)
		if _, got := c[TooLateToWarm]; got != page || c[SaturationAhead].Name == "" || d.Admission != nil {
			t.Errorf("in minute %d the first replica is late: %t, want %t; limits %v; %s", minute, got, page, d.Admission, d.Reason)
		}
	}
	tick(17, 1, 0, 50, 50)
	if c := tick(18, 0, 1, 50, 50); c[TooLateToWarm].Severity != Page || d.FromZero {
		t.Errorf("the last replica is gone: %v", c)
	}
}
