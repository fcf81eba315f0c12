package features

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features/sketch"
)

// maxLatencyWindows bounds the classes that a minute's latencies are taken from.
const maxLatencyWindows = 256

// Latency has 90th percentiles of the reported requests of one minute: time to first token and time per output token in
// seconds, NaN without data.
type Latency struct {
	Start     time.Time
	Reports   float64 // number of values behind the percentiles
	TTFT, ITL float64
}

// Latencies has one entry for each minute of the pool's windows, over its classes, in the order of the windows.
// O(windows · minutes) and a merge of at most 256 windows a minute.
func Latencies(windows []Window, pool string) []Latency {
	type sums struct {
		start     time.Time
		ttft, itl sketch.Quantile
		n         int
	}
	var all []*sums
	for i := range windows {
		w := &windows[i]
		if w.Pool != pool || w.TTFT == nil && w.ITL == nil {
			continue
		}
		at := slices.IndexFunc(all, func(s *sums) bool { return s.start.Equal(w.Start) })
		if at < 0 {
			at, all = len(all), append(all, &sums{start: w.Start})
		}
		s := all[at]
		if s.n++; s.n > maxLatencyWindows {
			continue
		}
		if w.TTFT != nil {
			s.ttft.Merge(w.TTFT)
		}
		if w.ITL != nil {
			s.itl.Merge(w.ITL)
		}
	}
	high := func(q *sketch.Quantile) float64 {
		if q.Count() == 0 {
			return math.NaN()
		}
		return q.Quantile(0.9)
	}
	out := make([]Latency, len(all))
	for i, s := range all {
		out[i] = Latency{s.start, s.ttft.Count() + s.itl.Count(), high(&s.ttft), high(&s.itl)}
	}
	return out
}
