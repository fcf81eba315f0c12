package features

import (
	"math"
	"testing"
	"time"
)

// TestLatencies: the latencies of a pool are those of all its classes, minute by minute.
func TestLatencies(t *testing.T) {
	start := at(0)
	window := func(pool string, start time.Time, ttft ...float64) Window {
		w := Window{Key: Key{Pool: pool}, Start: start}
		for _, v := range ttft {
			w.TTFT.Add(v)
		}
		return w
	}
	earlier := start.Add(-Minute)
	windows := []Window{
		window("other", start, 9), window("p", start, 1, 1, 1, 1, 1, 1, 1, 1), window("p", start, 3, 3), window("p", earlier, 7),
		{Key: Key{Pool: "p"}, Start: start},
	}
	for i, want := range []Latency{{start, 10, 3, math.NaN()}, {earlier, 1, 7, math.NaN()}} {
		if got := Latencies(windows, "p")[i]; !got.Start.Equal(want.Start) || got.Reports != want.Reports || math.Abs(got.TTFT-want.TTFT) > .1 || !math.IsNaN(got.ITL) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if got := Latencies(nil, "p"); len(got) != 0 {
		t.Errorf("without windows: %+v", got)
	}
}
