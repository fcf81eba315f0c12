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
			x.Minute = int64(m)
			x.TTFT *= 1 + .1*rng.NormFloat64()
			x.ITL *= 1 + .1*rng.NormFloat64()
			s = append(s, x).markSlow()
		}
		if got, _ := s.Diagnose(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestSignalsAreBounded: an hour of usual minutes is kept beside the newest quarter of an hour, and a copy stays what it was.
func TestSignalsAreBounded(t *testing.T) {
	m := &features.PoolMinute{Pool: "p", State: features.PoolState{WaitingPerReady: 2, KVUsedMax: .5}}
	var s, kept Signals
	for i := range 3 * signalMinutes {
		if m.State.WaitingPerReady = float64(i); i == 3 {
			kept = s
		}
		s = s.Add(noon.Add(time.Duration(i+1)*time.Minute), minuteOf(i, 1, .02), m)
	}
	if len(s) != signalMinutes+latestMinutes || s[len(s)-1].Waiting != 3*signalMinutes-1 || len(kept) != 3 || kept[0].Waiting != 0 {
		t.Errorf("%d minutes kept, the newest %+v; the copy %+v", len(s), s[len(s)-1], kept)
	}
	for i := range 2 * latestMinutes { // of which nothing is known
		s = s.Add(noon.Add(time.Duration(i+1+3*signalMinutes)*time.Minute), nil, m)
	}
	if len(s) != signalMinutes+latestMinutes || !math.IsNaN(s[len(s)-1].TTFT) {
		t.Errorf("after silence %d minutes kept, the newest %+v", len(s), s[len(s)-1])
	}
}

// minuteOf are windows of a minute after noon with these latencies in seconds.
func minuteOf(minute int, ttft, itl float64) []features.Window {
	w := features.Window{Key: features.Key{Pool: "p"}, Start: noon.Add(time.Duration(minute) * time.Minute), TTFT: new(sketch.Quantile), ITL: new(sketch.Quantile)}
	w.TTFT.Add(ttft)
	w.ITL.Add(itl)
	return []features.Window{w}
}

// TestDiagnosisLastsAsLongAsTheFault: what is usual is what was before, for a day.
func TestDiagnosisLastsAsLongAsTheFault(t *testing.T) {
	m := &features.PoolMinute{Pool: "p", State: features.PoolState{KVUsedMax: .5}}
	for _, tt := range []struct {
		name                 string
		minutes, first, last int // of the fault, and between which of its minutes it is diagnosed
		slow, after          float64
	}{
		{name: "36 minutes", minutes: 36, first: 4, last: 40, slow: 4, after: 1},
		{name: "five hours", minutes: 300, first: 4, last: 304, slow: 4, after: 1},
		{name: "it half recovers", minutes: 60, first: 4, last: 1000, slow: 4, after: 1.2},
		{name: "a new normal", minutes: 3000, first: 4, last: 1440 + 60, slow: 2, after: 2},
	} {
		rng := rand.New(rand.NewPCG(1, 3))
		var s Signals
		first, last := -1, -1
		for i := range 100 + min(tt.minutes+200, 2000) {
			ttft := .5
			switch at := i - 100; {
			case at >= tt.minutes:
				ttft *= tt.after
			case at >= 0:
				ttft *= tt.slow
			}
			s = s.Add(noon.Add(time.Duration(i+1)*time.Minute), minuteOf(i, ttft*(1+.05*rng.NormFloat64()), .02), m)
			switch got, x := s.Diagnose(); {
			case got == BottleneckPrefill:
				if last = i - 100; first < 0 {
					first = last
				}
				if math.Abs(x.TTFTBefore-.5) > .05 {
					t.Fatalf("%s: minute %d: it took %g before", tt.name, last, x.TTFTBefore)
				}
			case got != BottleneckNone || first >= 0 && i-100 < min(tt.minutes, signalAge-signalMinutes):
				t.Fatalf("%s: minute %d: %q", tt.name, i-100, got)
			}
		}
		if first < 2 || first > tt.first || last > tt.last || tt.last < 1000 && last < tt.minutes {
			t.Errorf("%s: diagnosed from minute %d to %d", tt.name, first, last)
		}
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
			x := Signal{Minute: int64(m), TTFT: .5, ITL: .03, KVUse: .6}
			switch ago := signalMinutes - 1 - m; {
			case ago < silent:
				x.TTFT, x.ITL = math.NaN(), math.NaN()
			case ago < silent+recentMinutes:
				x.TTFT = 1.5
			}
			s = append(s, x).markSlow()
		}
		if got, _ := s.Diagnose(); got != want {
			t.Errorf("silent for %d minutes: %q, want %q", silent, got, want)
		}
	}
}
