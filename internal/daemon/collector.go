package daemon

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// Bounds for the growth of the heap between two collections: 100 % while it is small, because most messages are
// short-lived; 10 % with thousands of classes, which stay: ten thousand leave some 50 MiB of garbage a minute, about
// one collection. Between these the growth is a fixed span.
const (
	collectorSpan = 80 << 20 // bytes
	maxGCPercent  = 100
	minGCPercent  = 10
)

// collector sets GOGC from the live heap. The zero value changes nothing.
type collector struct {
	live    []metrics.Sample
	percent int
}

// newCollector starts with a small growth, because a restored state leaves much garbage. If GOGC or GOMEMLIMIT is set
// it changes nothing.
func newCollector() collector {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return collector{}
	}
	debug.SetGCPercent(minGCPercent)
	return collector{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, percent: minGCPercent}
}

// adjust updates GOGC after a collection. It is cheap enough for each tick.
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

// gcPercent returns GOGC for a number of live bytes, in steps of a tenth.
func gcPercent(live uint64) int {
	percent := int(collectorSpan * 100 / max(live, 1))
	return max(minGCPercent, min(percent/10*10, maxGCPercent))
}
