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

// startGC begins with a small growth, because a restored state leaves much garbage. If the environment sets the growth
// it returns 0, with which [adjustGC] changes nothing.
func startGC() (percent int) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return 0
	}
	debug.SetGCPercent(minGCPercent)
	return minGCPercent
}

// adjustGC sets GOGC by the live heap, and returns it. It is cheap enough for each tick.
func adjustGC(percent int) int {
	if percent == 0 {
		return 0
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	next := gcPercent(live[0].Value.Uint64())
	if next != percent {
		debug.SetGCPercent(next)
	}
	return next
}

// gcPercent returns GOGC for a number of live bytes, in steps of a tenth.
func gcPercent(live uint64) int {
	percent := int(collectorSpan * 100 / max(live, 1))
	return max(minGCPercent, min(percent/10*10, maxGCPercent))
}
