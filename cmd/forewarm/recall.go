package main

import (
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/storage/stream"
)

// recall has autoscalers told what was decided before a restart, until the first tick decides again: each pool's newest decision
// in the log, as long as it has not lapsed and is not older than telemetry may be. Decisions of another mode, or of a pool
// that may now have fewer or more replicas, were made by another configuration and are not repeated. On the event clock no
// one knows how old a decision is.
func (d *daemon) recall(newest []stream.Record, now time.Time) {
	if d.cfg.Clock != pipeline.WallClock {
		return
	}
	var decisions []alerting.Decision
	for i := range newest {
		x := newest[i].Decision
		if x.Tick.Before(now.Add(-d.cfg.Features.StaleAfter)) || x.Tick.After(now) || x.Mode != d.cfg.Decision.Mode || !d.within(&x) {
			continue
		}
		if x.Expires.After(x.Tick.Add(d.cfg.Features.StaleAfter)) {
			x.Expires = x.Tick.Add(d.cfg.Features.StaleAfter)
		}
		decisions = append(decisions, x)
	}
	d.board.Recall(decisions)
}

// within says whether a pool may, as configured now, have as many replicas as x asks for.
func (d *daemon) within(x *alerting.Decision) bool {
	p := d.served.Load().pool(x.Pool)
	if p == nil {
		return true
	}
	most, _ := p.Limit()
	return x.Desired >= p.Replicas.Min && x.Desired <= most
}
