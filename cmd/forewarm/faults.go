package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm"
	"github.com/forewarm/forewarm/features"
)

// faultKey is a fault of a producer that is said once, when it begins, and once when it is over.
type faultKey struct {
	pool, producer string
	kind           features.FaultKind
}

// sayFaults logs the faults of producers that are new, and those that are over.
func (d *daemon) sayFaults(out *forewarm.Output) {
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

// lateSpan is how long agents are said to be late after they were, and how far apart that is logged.
const lateSpan = 10 * time.Minute

// sayLate tells of agents whose windows have come after their minute had closed, "" for none of late.
func (d *daemon) sayLate(tick time.Time) string {
	var late []string
	latest := time.Time{}
	for _, a := range d.pipeline.Edges() {
		if a.LateAt.IsZero() || tick.Sub(a.LateAt) > lateSpan {
			continue
		}
		late = append(late, fmt.Sprintf("%q (%d windows so far, the newest by %s)", a.Agent, a.Late, a.LateAt.UTC().Format(time.RFC3339)))
		if a.LateAt.After(latest) {
			latest = a.LateAt
		}
	}
	if len(late) == 0 {
		return ""
	}
	const most = 8
	if more := len(late) - most; more > 0 {
		late = append(late[:most], fmt.Sprintf("%d more", more))
	}
	who := strings.Join(late, ", ")
	if latest.After(d.lateSaid) && tick.Sub(d.lateSaid) >= lateSpan {
		d.lateSaid = tick
		d.log.Warn("windows of agents come after their minute was closed: history has them, forecasts are made without; see what holds the agents back, or raise features.agent_wait",
			zap.String("agents", who), zap.Time("tick", tick))
	}
	return "windows come too late for forecasts from agent " + who
}
