package alerting

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm/features"
)

// TestSignals: open minutes replace what was known of them. The newest 15 minutes are kept. Add does not change a copy.
func TestSignals(t *testing.T) {
	minute := func(m int64, ttft float64) features.Latency { return features.Latency{Minute: m, TTFT: ttft, ITL: 1} }
	var s, kept Signals
	for m := int64(1); m <= 3*latestMinutes; m++ {
		s = s.Add([]features.Latency{minute(m-1, 20), minute(m, 10)})
		if m == 3 {
			kept = s
		}
	}
	if len(s) != latestMinutes || s[0] != minute(2*latestMinutes+1, 20) || s[latestMinutes-1] != minute(3*latestMinutes, 10) {
		t.Errorf("%d minutes are kept: %+v", len(s), s)
	}
	want := Signals{minute(0, 20), minute(1, 20), minute(2, 20), minute(3, 10)}
	if diff := cmp.Diff(want, kept, cmpopts.IgnoreUnexported(features.Latency{})); diff != "" {
		t.Errorf("a copy changed (-want +got):\n%s", diff)
	}
}

// A breach and its floor stay while the latency is unknown, for at most half an hour.
func TestBreachWithUnknownLatency(t *testing.T) {
	in := scene{ready: 4, median: func(int) float64 { return 40 }, last: 40, edit: func(in *Input) {
		in.Pool.Config.SLO.TTFT = time.Second
		for m := range latestMinutes {
			in.Signals = append(in.Signals, features.Latency{Minute: int64(m), Reports: 30, TTFT: 3, ITL: math.NaN()})
		}
	}}.input(t)
	over, state := Decide(noon, in, State{}, DefaultConfig())
	for i := range in.Signals {
		in.Signals[i].TTFT, in.Signals[i].Reports = math.NaN(), 0
	}
	soon, _ := Decide(noon.Add(10*time.Minute), in, state, DefaultConfig())
	late, _ := Decide(noon.Add(40*time.Minute), in, state, DefaultConfig())
	if b := over.Breach; b == nil || !b.TTFT || b.Own.Replicas <= 4 {
		t.Fatalf("a latency of three times its objective: %+v", b)
	}
	if diff := cmp.Diff(over.Breach, soon.Breach); diff != "" {
		t.Errorf("ten minutes without latencies change the breach (-before +after): %s", diff)
	}
	if late.Breach != nil {
		t.Errorf("the breach lasts 40 minutes without latencies: %+v", late.Breach)
	}
}

// TestLatencyOfSlowReports: the newest minutes lack the slow attempts, which are reported when they end. The complete
// minutes have them. More replicas are not judged by minutes from before they were ready.
func TestLatencyOfSlowReports(t *testing.T) {
	const newest, incomplete = 100, 6
	in := scene{ready: 4, median: flat(40), last: 40, edit: func(in *Input) {
		in.Pool.Config.SLO.TTFT = 2 * time.Second
		for m := range latestMinutes {
			l := features.Latency{Minute: int64(newest - latestMinutes + 1 + m), Reports: 60, TTFT: 5, ITL: math.NaN(), Complete: true}
			if m >= latestMinutes-incomplete {
				l.TTFT, l.Complete = .3, false
			}
			in.Signals = append(in.Signals, l)
		}
	}}.input(t)
	d, _ := Decide(noon, in, State{}, DefaultConfig())
	if len(d.Objectives) != 1 || d.Objectives[0].P90 != 5 || d.Breach == nil || d.Desired <= 4 {
		t.Errorf("objectives %+v, breach %+v, %d replicas; want a breach with 5 s, and more than 4", d.Objectives, d.Breach, d.Desired)
	}
	if got, want := in.Signals.completeUntil(noon).Unix(), int64(60*(newest-incomplete+1)); got != want {
		t.Errorf("complete until %d, want %d", got, want)
	}
}
