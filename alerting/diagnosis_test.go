package alerting

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
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
		if got := s.Diagnose(); got != tt.want {
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
