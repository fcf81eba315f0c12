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

// TestBottleneck: the bottleneck follows from which latencies are over their objectives, and whether requests queue.
func TestBottleneck(t *testing.T) {
	for name, tt := range map[string]struct {
		ttft, itl      bool
		waiting, kvUse float64
		want           Bottleneck
	}{
		"the first token":                 {true, false, 0, .6, BottleneckPrefill},
		"the first token, requests queue": {true, false, 3, .6, BottleneckPrefill},
		"further tokens":                  {false, true, 0, .7, BottleneckDecode},
		"both, and KV is full":            {true, true, 4, .97, BottleneckKV},
		"the first token, and KV is full": {true, false, 4, .97, BottleneckKV},
		"both, requests queue":            {true, true, 4, .5, BottleneckSlots},
		"both, KV is not reported":        {true, true, 4, math.NaN(), BottleneckSlots},
		"both without a queue":            {true, true, 0, .9, BottleneckBoth},
		"both, the queue is not reported": {true, true, math.NaN(), .9, BottleneckBoth},
	} {
		if got := bottleneckOf(tt.ttft, tt.itl, tt.waiting, tt.kvUse); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestSignals: the newest 15 minutes are kept. Add does not change a copy.
func TestSignals(t *testing.T) {
	m := &features.PoolMinute{Pool: "p", State: features.PoolState{WaitingPerReady: 2, KVUsedMax: .5}}
	var s, kept Signals
	for i := range 3 * latestMinutes {
		if m.State.WaitingPerReady = float64(i); i == 3 {
			kept = s
		}
		s = s.Add(noon.Add(time.Duration(i+1)*time.Minute), minuteOf(i, 1), m)
	}
	if len(s) != latestMinutes || s[len(s)-1].Waiting != 3*latestMinutes-1 || len(kept) != 3 || kept[0].Waiting != 0 {
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
	m := &features.PoolMinute{Pool: "p"}
	var s Signals
	for i, windows := range [][]features.Window{nil, minuteOf(0, 2), minuteOf(0, 4, 4), minuteOf(0, 1), minuteOf(-90, 9, 9), minuteOf(4, 7)} {
		before := slices.Clone(s)
		copied := s
		s = s.Add(noon.Add(time.Duration(i+1)*time.Minute), windows, m)
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
			in.Signals = append(in.Signals, Signal{Minute: int64(m), Reports: 30, TTFT: 3, ITL: math.NaN(), Waiting: 0, KVUse: .4})
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
