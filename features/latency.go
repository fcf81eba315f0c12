package features

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/features/sketch"
)

// maxLatencyWindows bounds the classes that a minute's latencies are taken from.
const maxLatencyWindows = 256

// Latencies are the 90th percentiles of time to first token and of time per output token, in seconds, over the classes of a
// pool in the minute that begins at start; NaN where none reports it. O(windows) and a merge of at most 256.
func Latencies(windows []Window, pool string, start time.Time) (ttft, itl float64) {
	var first, next sketch.Quantile
	n := 0
	for i := range windows {
		w := &windows[i]
		if w.Pool != pool || !w.Start.Equal(start) || w.TTFT == nil && w.ITL == nil {
			continue
		}
		if n++; n > maxLatencyWindows {
			break
		}
		if w.TTFT != nil {
			first.Merge(w.TTFT)
		}
		if w.ITL != nil {
			next.Merge(w.ITL)
		}
	}
	high := func(q *sketch.Quantile) float64 {
		if q.Count() == 0 {
			return math.NaN()
		}
		return q.Quantile(0.9)
	}
	return high(&first), high(&next)
}
