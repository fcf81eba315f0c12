package forecaster

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
)

// crowd draws minutes of traffic for many classes of one pool: weights fall off like 1/rank, and most classes are silent
// in most minutes. Windows are as features.Aggregator.Close orders them, with all dimensions.
type crowd struct {
	rng     *rand.Rand
	names   []string
	windows []features.Window
}

func newCrowd(classes int) *crowd {
	c := &crowd{rng: rand.New(rand.NewPCG(uint64(classes), 1)), windows: make([]features.Window, classes)}
	for i := range classes {
		c.names = append(c.names, fmt.Sprintf("class-%05d", i))
	}
	return c
}

func (c *crowd) minute(i int) []features.Window {
	for k := range c.windows {
		n := 0.0
		if rate := 1000 / float64(1+k*7919%len(c.names)); c.rng.Float64() < rate {
			n = float64(1 + int(rate*c.rng.ExpFloat64()))
		}
		c.windows[k] = features.Window{
			Key: features.Key{Pool: "p", Class: c.names[k]}, Start: minuteAt(i), Covered: true,
			Reports: features.ReportsRequests | features.ReportsPrompt | features.ReportsOutput | features.ReportsKV,
			Records: n, Requests: n, RequestsKnown: n, PromptKnown: n, OutputKnown: n, KVKnown: n,
			PromptTokens: 900 * n, OutputTokens: 200 * n, KVTokenSeconds: 12_000 * n,
		}
	}
	return c.windows
}

// BenchmarkClasses is a minute of a pool: learn from it and forecast, with paths, totals and window maxima.
func BenchmarkClasses(b *testing.B) {
	for _, classes := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(classes), func(b *testing.B) {
			c := newCrowd(classes)
			f := New(Config{Settle: 10 * time.Minute, MaxLight: DefaultMaxLight})
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			i := 0
			tick := func() {
				f.Observe(c.minute(i), []features.PoolMinute{{Pool: "p", Start: minuteAt(i), Covered: true, LastEvent: minuteAt(i)}})
				i++
				if pf := f.Forecast(minuteAt(i)); len(pf) != 1 {
					b.Fatal("no forecast")
				}
			}
			for range 60 {
				tick()
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			for b.Loop() {
				tick()
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(classes), "B/class")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*classes*len(dimensions)), "µs/series")
		})
	}
}
