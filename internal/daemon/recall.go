package daemon

import (
	"cmp"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage/stream"
)

// recall has autoscalers told what was decided before a restart, until the first tick decides again: each pool's newest decision
// in the log, as long as it has not lapsed and is not older than telemetry may be. Decisions of another mode, or of a pool
// that may now have fewer or more replicas, were made by another configuration and are not repeated. On the event clock no
// one knows how old a decision is. Pools whose decision is not repeated are known all the same.
func (d *Daemon) recall(newest []stream.Record, now time.Time) {
	var views []server.PoolView
	for i := range newest {
		x := newest[i].Decision
		views = append(views, server.PoolView{Pool: x.Pool})
		if d.cfg.Clock != pipeline.WallClock || x.Tick.Before(now.Add(-d.cfg.Features.StaleAfter)) || x.Tick.After(now) || !d.stillAllowed(&x) {
			continue
		}
		if x.Expires.After(x.Tick.Add(d.cfg.Features.StaleAfter)) {
			x.Expires = x.Tick.Add(d.cfg.Features.StaleAfter)
		}
		views[i].Decision, views[i].Decided = &x, x.Tick
	}
	d.board.Recall(views)
}

// stillAllowed says whether a pool, as it is configured or defined now, is in the mode of x and may have as many replicas.
func (d *Daemon) stillAllowed(x *alerting.Decision) bool {
	mode := d.cfg.Decision.Mode
	p := d.served.Load().pool(x.Pool)
	if p == nil {
		if d.cfg.DefaultPool != nil {
			mode = cmp.Or(alerting.Mode(d.cfg.DefaultPool.Mode), mode)
		}
		return x.Mode == mode
	}
	most, _ := p.Limit()
	return x.Mode == cmp.Or(alerting.Mode(p.Mode), mode) && x.Desired >= p.Replicas.Min && x.Desired <= most
}
