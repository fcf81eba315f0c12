package pipeline

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
)

// TestResume: a pipeline whose snapshot was lost continues from the states in its newest decisions and the rest of the
// log. These states do not change while the log up to them is applied, and no tick is decided twice. Generations
// continue, and firing alerts continue and do not fire again.
func TestResume(t *testing.T) {
	const minutes, lost = 120, 90
	cfg, log := mixedConfig(t, WallClock), mixedLog(11, minutes)
	cfg.Decision.Mode = alerting.Active
	cut := slices.IndexFunc(log, func(b ingest.Batch) bool { return b.ReceivedAt.After(midnight.Add(lost * time.Minute)) })
	var journal []alerting.Decision
	alerts := map[string]alerting.Alert{}
	note := func(o *Output) {
		for _, d := range o.Decisions() {
			journal = append(journal, *d)
		}
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
		t.Fatalf("nothing is published (%d decisions) or no alert fires (%d)", len(journal), len(alerts))
	}

	begin := slices.IndexFunc(log, func(b ingest.Batch) bool { return b.ReceivedAt.After(midnight.Add(lost / 2 * time.Minute)) })
	resumed := New(cfg)
	for _, e := range whole.pools {
		state, err := whole.DecisionState(e.pool.Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := resumed.Resume(e.pool.Name, state, last.Tick); err != nil || !resumed.byName[e.pool.Name].Decision.LastTick.Equal(last.Tick) {
			t.Fatal(err)
		}
	}
	var firing []alerting.Alert
	for _, a := range alerts {
		firing = append(firing, a)
	}
	resumed.ResumeAlerts(firing)
	same := func() {
		t.Helper()
		for _, e := range whole.pools {
			was, _ := whole.DecisionState(e.pool.Name)
			if got, err := resumed.DecisionState(e.pool.Name); err != nil || !bytes.Equal(was, got) {
				t.Errorf("%s: %v; was %x, is %x", e.pool.Name, err, was, got)
			}
		}
	}
	same()

	ticks := 0
	apply(resumed, log[begin:cut], func(o *Output) {
		ticks++
		if len(o.Decisions())+len(o.Alerts) > 0 {
			t.Errorf("%s: %d decisions and %d alerts for the past", o.Tick, len(o.Decisions()), len(o.Alerts))
		}
		if len(o.Pools) == 0 && ticks > 1 {
			t.Errorf("%s: no forecast", o.Tick)
		}
	})
	same()
	if ticks < lost/2-5 {
		t.Errorf("%d ticks in the past", ticks)
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
		for _, d := range o.Decisions() {
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
		t.Errorf("%d decisions and %d alerts that continue", decided, continued)
	}
}
