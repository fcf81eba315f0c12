package alerting

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm/features"
)

// TestSignals: the newest 15 minutes are kept. Add does not change a copy.
func TestSignals(t *testing.T) {
	var s, kept Signals
	for i := range 3 * latestMinutes {
		if i == 3 {
			kept = s
		}
		s = s.Add(noon.Add(time.Duration(i+1)*time.Minute), minuteOf(i, 1), "p")
	}
	first := noon.Unix() / 60
	if len(s) != latestMinutes || s[len(s)-1].Minute != first+3*latestMinutes-1 || len(kept) != 3 || kept[0].Minute != first {
		t.Errorf("%d minutes kept, the newest %+v; the copy %+v", len(s), s[len(s)-1], kept)
	}
}

// minuteOf is the window of a minute after noon, with the times to the first token of its requests, in seconds.
func minuteOf(minute int, ttft ...float64) []features.Window {
	w := features.Window{Key: features.Key{Pool: "p"}, Start: noon.Add(time.Duration(minute) * time.Minute)}
	for _, v := range ttft {
		w.TTFT.Add(v)
	}
	return []features.Window{w}
}

// A late report updates its minute, unless it has fewer requests. A minute that is no longer kept is not updated.
func TestSignalsOfLateReports(t *testing.T) {
	var s Signals
	for i, windows := range [][]features.Window{nil, minuteOf(0, 2), minuteOf(0, 4, 4), minuteOf(0, 1), minuteOf(-90, 9, 9), minuteOf(4, 7)} {
		before := slices.Clone(s)
		copied := s
		s = s.Add(noon.Add(time.Duration(i+1)*time.Minute), windows, "p")
		if diff := cmp.Diff(before, copied, cmp.AllowUnexported(Signal{}), cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("minute %d changes a copy: %s", i, diff)
		}
	}
	for i, want := range []float64{4, math.NaN(), math.NaN(), math.NaN(), 7, math.NaN()} {
		if got := s[i].TTFT; !(math.Abs(got-want) < .1) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("minute %d: %g, want %g", i, got, want)
		}
	}
}

// A breach and its floor stay while the latency is unknown, for at most half an hour.
func TestBreachWithUnknownLatency(t *testing.T) {
	in := scene{ready: 4, median: func(int) float64 { return 40 }, last: 40, edit: func(in *Input) {
		in.Pool.Config.SLO.TTFT = time.Second
		for m := range latestMinutes {
			in.Signals = append(in.Signals, Signal{Minute: int64(m), Reports: 30, TTFT: 3, ITL: math.NaN()})
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
