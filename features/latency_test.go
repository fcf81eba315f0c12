package features

import (
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features/sketch"
)

// TestLatencies: the classes of one pool and minute are taken together, and nothing else.
func TestLatencies(t *testing.T) {
	start := at(0)
	window := func(pool string, start time.Time, ttft ...float64) Window {
		w := Window{Key: Key{Pool: pool}, Start: start, TTFT: new(sketch.Quantile)}
		for _, v := range ttft {
			w.TTFT.Add(v)
		}
		return w
	}
	windows := []Window{
		window("other", start, 9), window("p", start, 1, 1, 1, 1, 1, 1, 1, 1), window("p", start, 3, 3), window("p", start.Add(-Minute), 7),
		{Key: Key{Pool: "p"}, Start: start},
	}
	if ttft, itl := Latencies(windows, "p", start); math.Abs(ttft-3) > .1 || !math.IsNaN(itl) {
		t.Errorf("TTFT %g, ITL %g", ttft, itl)
	}
	if ttft, itl := Latencies(nil, "p", start); !math.IsNaN(ttft) || !math.IsNaN(itl) {
		t.Errorf("of nothing: %g, %g", ttft, itl)
	}
}
