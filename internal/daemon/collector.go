package daemon

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// What the heap may grow by between two collections: as much again while it is small, for what comes in from the stream is
// soon garbage; no more than a tenth once thousands of classes are kept, which stay: ten thousand leave some 50 MiB of garbage
// a minute, so that this is a collection. In between it is a span of its own.
const (
	collectorSpan  = 80 << 20 // bytes
	mostGCPercent  = 100
	leastGCPercent = 10
)

// collector sets how far the heap grows by what is kept in it. A zero one leaves that to the environment.
type collector struct {
	live    []metrics.Sample
	percent int
}

// newCollector leaves little room until the first tick, for a state that is restored leaves much behind. Where GOGC or
// GOMEMLIMIT is set it changes nothing.
func newCollector() collector {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return collector{}
	}
	debug.SetGCPercent(leastGCPercent)
	return collector{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, percent: leastGCPercent}
}

// adjust takes note of what the last collection left. It is cheap enough for each tick.
func (c *collector) adjust() {
	if c.live == nil {
		return
	}
	metrics.Read(c.live)
	if percent := gcPercent(c.live[0].Value.Uint64()); percent != c.percent {
		debug.SetGCPercent(percent)
		c.percent = percent
	}
}

// gcPercent is how far the heap may grow when so many bytes of it are kept, in steps of a tenth of that.
func gcPercent(live uint64) int {
	percent := int(collectorSpan * 100 / max(live, 1))
	return max(leastGCPercent, min(percent/10*10, mostGCPercent))
}
