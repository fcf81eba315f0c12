package daemon

import (
	"slices"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/pipeline"
)

// faultKey is a fault of a producer that is said once, when it begins, and once when it is over.
type faultKey struct {
	pool, producer string
	kind           features.FaultKind
}

// sayFaults logs the faults of producers that are new, and those that are over.
func (d *Daemon) sayFaults(out *pipeline.Output) {
	now := map[faultKey]bool{}
	for i := range out.Pools {
		for _, f := range out.Pools[i].Faults {
			key := faultKey{out.Pools[i].Pool, f.Producer, f.Kind}
			if now[key] = true; !d.faults[key] {
				d.log.Warn("a producer of telemetry is at fault", zap.String("pool", key.pool), zap.String("producer", key.producer),
					zap.String("fault", string(key.kind)), zap.Float64("seconds", f.Seconds), zap.Uint64("future_records", f.Future),
					zap.Time("tick", out.Tick))
			}
		}
	}
	var over []faultKey
	for key := range d.faults {
		if !now[key] {
			over = append(over, key)
		}
	}
	slices.SortFunc(over, func(a, b faultKey) int {
		return slices.Compare([]string{a.pool, a.producer, string(a.kind)}, []string{b.pool, b.producer, string(b.kind)})
	})
	for _, key := range over {
		d.log.Info("a producer of telemetry is at fault no more", zap.String("pool", key.pool), zap.String("producer", key.producer),
			zap.String("fault", string(key.kind)), zap.Time("tick", out.Tick))
	}
	d.faults = now
}
