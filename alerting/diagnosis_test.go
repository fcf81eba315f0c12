package alerting

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
)

// TestDiagnose plants a change in the last five minutes of an hour, with latencies that vary by a tenth from minute to
// minute.
func TestDiagnose(t *testing.T) {
	nan := math.NaN()
	steady := Signal{TTFT: .5, ITL: .03, Waiting: 0, KVUse: .6}
	tests := map[string]struct {
		now    Signal
		before int // minutes
		want   Bottleneck
	}{
		"nothing changed":                     {steady, 55, BottleneckNone},
		"TTFT rises at constant ITL":          {Signal{TTFT: 1.5, ITL: .03, KVUse: .6}, 55, BottleneckPrefill},
		"so it does while requests queue":     {Signal{TTFT: 1.5, ITL: .03, Waiting: 3, KVUse: .6}, 55, BottleneckPrefill},
		"ITL rises at stable TTFT":            {Signal{TTFT: .5, ITL: .06, KVUse: .7}, 55, BottleneckDecode},
		"both rise, and KV is full":           {Signal{TTFT: 3, ITL: .06, Waiting: 4, KVUse: .97}, 55, BottleneckKV},
		"TTFT rises, and KV is full":          {Signal{TTFT: 3, ITL: .03, Waiting: 4, KVUse: .97}, 55, BottleneckKV},
		"both rise, requests queue beside KV": {Signal{TTFT: 3, ITL: .06, Waiting: 4, KVUse: .5}, 55, BottleneckSlots},
		"both rise, KV is not reported":       {Signal{TTFT: 3, ITL: .06, Waiting: 4, KVUse: nan}, 55, BottleneckSlots},
		"both rise without a queue":           {Signal{TTFT: 3, ITL: .06, KVUse: .9}, 55, BottleneckBoth},
		"a rise within what is usual":         {Signal{TTFT: .55, ITL: .032, KVUse: .6}, 55, BottleneckNone},
		"too short a past":                    {Signal{TTFT: 3, ITL: .06, Waiting: 4, KVUse: .97}, 9, BottleneckNone},
		"ITL is not reported":                 {Signal{TTFT: 3, ITL: nan, KVUse: .6}, 55, BottleneckNone},
	}
	for name, tt := range tests {
		rng := rand.New(rand.NewPCG(1, 2))
		var s Signals
		for m := range tt.before + recentMinutes {
			x := steady
			if m >= tt.before {
				x = tt.now
			}
			x.TTFT *= 1 + .1*rng.NormFloat64()
			x.ITL *= 1 + .1*rng.NormFloat64()
			s = append(s, x)
		}
		if got, _ := s.Diagnose(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestSignalsKeepAnHour, and a copy stays what it was.
func TestSignalsKeepAnHour(t *testing.T) {
	m := &features.PoolMinute{Pool: "p", State: features.PoolState{WaitingPerReady: 2, KVUsedMax: .5}}
	var s, kept Signals
	for i := range 2 * signalMinutes {
		if m.State.WaitingPerReady = float64(i); i == 3 {
			kept = s
		}
		s = s.Add(noon.Add(time.Duration(i)*time.Minute), nil, m)
	}
	if len(s) != signalMinutes || s[0].Waiting != signalMinutes || !math.IsNaN(s[0].TTFT) || len(kept) != 3 || kept[0].Waiting != 0 {
		t.Errorf("%d minutes kept, the first %+v; the copy %+v", len(s), s[0], kept)
	}
}

// TestSignalsHearLateReports: what is reported of a minute later belongs to it, unless it is of fewer requests; a minute that is no
// longer kept has none.
func TestSignalsHearLateReports(t *testing.T) {
	m := &features.PoolMinute{Pool: "p"}
	window := func(minute int, ttft ...float64) []features.Window {
		w := features.Window{Key: features.Key{Pool: "p"}, Start: noon.Add(time.Duration(minute) * time.Minute), TTFT: new(sketch.Quantile)}
		for _, v := range ttft {
			w.TTFT.Add(v)
		}
		return []features.Window{w}
	}
	var s Signals
	for i, windows := range [][]features.Window{nil, window(0, 2), window(0, 4, 4), window(0, 1), window(-90, 9, 9), window(4, 7)} {
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

// TestDiagnosisIsOfNow: latencies that were last known a quarter of an hour ago tell nothing of now.
func TestDiagnosisIsOfNow(t *testing.T) {
	for silent, want := range map[int]Bottleneck{0: BottleneckPrefill, 6: BottleneckPrefill, 12: BottleneckPrefill, 13: BottleneckNone} {
		var s Signals
		for m := range signalMinutes {
			x := Signal{TTFT: .5, ITL: .03, KVUse: .6}
			switch ago := signalMinutes - 1 - m; {
			case ago < silent:
				x.TTFT, x.ITL = math.NaN(), math.NaN()
			case ago < silent+recentMinutes:
				x.TTFT = 1.5
			}
			s = append(s, x)
		}
		if got, _ := s.Diagnose(); got != want {
			t.Errorf("silent for %d minutes: %q, want %q", silent, got, want)
		}
	}
}
