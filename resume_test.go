package forewarm

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
)

// TestResume: a pipeline whose state was lost takes up the journal and as much of the log as there still is. What the
// journal tells of the state is as it was; no tick of the journal is decided again; advice keeps its numbers; alerts that
// fire go on and are not raised again.
func TestResume(t *testing.T) {
	const minutes, lost = 120, 90
	cfg, log := mixedConfig(t, WallClock), mixedLog(11, minutes)
	cfg.Decision.Mode = alerting.Active
	cut := slices.IndexFunc(log, func(b ingest.Batch) bool { return b.ReceivedAt.After(midnight.Add(lost * time.Minute)) })
	var journal []alerting.Decision
	alerts := map[string]alerting.Alert{}
	note := func(o *Output) {
		journal = append(journal, o.Decisions...)
		for _, a := range o.Alerts {
			if alerts[a.Identity()] = a; a.Resolved {
				delete(alerts, a.Identity())
			}
		}
	}
	whole := New(cfg)
	apply(whole, log[:cut], note)
	last := journal[len(journal)-1]
	if last.Generation == journal[0].Generation || len(alerts) == 0 {
		t.Fatalf("nothing was published (%d decisions) or fires (%d alerts)", len(journal), len(alerts))
	}

	begin := slices.IndexFunc(log, func(b ingest.Batch) bool { return b.ReceivedAt.After(midnight.Add(lost / 2 * time.Minute)) })
	resumed := New(cfg)
	for i := range journal {
		resumed.Resume(&journal[i], log[begin].ReceivedAt)
	}
	var firing []alerting.Alert
	for _, a := range alerts {
		firing = append(firing, a)
	}
	resumed.ResumeAlerts(firing)
	for i, e := range whole.pools {
		// What must stay, and since when demand is seen, is learned anew; pending replicas that report are seen anew.
		ignore := cmpopts.IgnoreFields(alerting.State{}, "Sighted", "Keeps", "PrefillKeeps", "Pending")
		if diff := cmp.Diff(e.decision, resumed.pools[i].decision, ignore, cmp.AllowUnexported(alerting.State{})); diff != "" {
			t.Errorf("%s (-was +resumed): %s", e.pool.Name, diff)
		}
		if len(e.decision.Pending) != len(resumed.pools[i].decision.Pending) {
			t.Errorf("%s: pending since %v, was %v", e.pool.Name, resumed.pools[i].decision.Pending, e.decision.Pending)
		}
		if diff := cmp.Diff(e.issued, resumed.pools[i].issued); diff != "" {
			t.Errorf("%s: issued (-was +resumed): %s", e.pool.Name, diff)
		}
	}

	ticks := 0
	apply(resumed, log[begin:cut], func(o *Output) {
		ticks++
		if len(o.Decisions)+len(o.Alerts) > 0 {
			t.Errorf("%s: %d decisions and %d alerts of the past", o.Tick, len(o.Decisions), len(o.Alerts))
		}
		if len(o.Forecasts) == 0 && ticks > 1 {
			t.Errorf("%s: nothing is forecast", o.Tick)
		}
	})
	if ticks < lost/2-5 {
		t.Errorf("%d ticks of the past", ticks)
	}
	published := map[string]int64{}
	for i := range journal {
		published[journal[i].Pool] = journal[i].Generation
	}
	began := map[string]time.Time{}
	for _, a := range alerts {
		began[string(a.Name)+a.Labels["pool"]+a.Labels["resource"]] = a.StartsAt
	}
	continued, decided := 0, 0
	apply(resumed, log[cut:], func(o *Output) {
		for i := range o.Decisions {
			d := &o.Decisions[i]
			if decided++; d.Generation < published[d.Pool] || d.Publish && d.Generation != published[d.Pool]+1 {
				t.Errorf("%s %s: generation %d (published %t) after %d", d.Pool, d.Tick, d.Generation, d.Publish, published[d.Pool])
			}
			published[d.Pool] = d.Generation
		}
		for _, a := range o.Alerts {
			if was, ok := began[string(a.Name)+a.Labels["pool"]+a.Labels["resource"]]; ok && o.Tick.Before(midnight.Add((lost+3)*time.Minute)) {
				if continued++; !a.StartsAt.Equal(was) {
					t.Errorf("%s of %s began at %s, and again at %s", a.Name, a.Labels["pool"], was, a.StartsAt)
				}
			}
		}
	})
	if decided == 0 || continued == 0 {
		t.Errorf("%d decisions and %d alerts that go on", decided, continued)
	}
}

// TestResumeRecallsTheLag: of what replicas did before the log begins the journal's lag is what is left.
func TestResumeRecallsTheLag(t *testing.T) {
	cfg := mixedConfig(t, WallClock)
	p, from := New(cfg), midnight.Add(time.Hour)
	stated := p.entry("p").warmup.Quantile(.5)
	for minute, p50 := range map[int]float64{1: 3 * stated.Seconds(), 90: 9 * stated.Seconds()} {
		d := alerting.Decision{Pool: "p", Tick: midnight.Add(time.Duration(minute) * time.Minute), Basis: &alerting.Basis{}}
		d.Basis.Warmup = alerting.WarmupBasis{P50: p50, P90: 1.5 * p50, Seen: 40}
		q := New(cfg)
		q.Resume(&d, from)
		got := q.entry("p").warmup.Quantile(.5)
		if before := minute < 60; before != (got > 2*stated) || !before && got != stated {
			t.Errorf("minute %d: the median lag is %s, stated are %s and the journal has %.0f s", minute, got, stated, p50)
		}
	}
}
