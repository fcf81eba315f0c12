package daemon

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// The heap grows by about collectorSpan between two collections: a small one doubles at most, and a large one grows by at
// least 10 %. Ten thousand classes leave some 50 MiB of garbage a minute, which is about one collection.
const (
	collectorSpan = 80 << 20 // bytes
	maxGCPercent  = 100
	minGCPercent  = 10
)

// adjustGC sets GOGC by the live heap, unless the environment sets the growth. Before the first tick GOGC is small,
// because a restored state leaves much garbage. The call is cheap enough for each tick.
func adjustGC(ticked bool) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	now, next := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}, minGCPercent
	metrics.Read(now)
	if ticked {
		next = gcPercent(now[0].Value.Uint64())
	}
	if uint64(next) != now[1].Value.Uint64() {
		debug.SetGCPercent(next)
	}
}

// gcPercent returns GOGC for a number of live bytes, in steps of a tenth.
func gcPercent(live uint64) int {
	percent := int(collectorSpan * 100 / max(live, 1))
	return max(minGCPercent, min(percent/10*10, maxGCPercent))
}
