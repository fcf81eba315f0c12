package daemon

import (
	"cmp"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage/stream"
)

// recall shows autoscalers each pool's newest decision in the log until the first tick. It skips decisions that have
// lapsed, that are older than stale_after, or that the current mode or bounds of the pool do not allow. On the event
// clock the age is unknown, so it skips all. The board lists pools without such a decision too.
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

// stillAllowed reports whether the current configuration of the pool allows the mode and the replicas of x.
func (d *Daemon) stillAllowed(x *alerting.Decision) bool {
	mode := d.cfg.Decision.Mode
	p := d.served.Load().pool(x.Pool)
	if p == nil {
		if d.cfg.DefaultPool != nil {
			mode = cmp.Or(alerting.Mode(d.cfg.DefaultPool.Mode), mode)
		}
		return x.Mode == mode
	}
	limit, _ := p.Limit()
	return x.Mode == cmp.Or(alerting.Mode(p.Mode), mode) && x.Desired >= p.Replicas.Min && x.Desired <= limit
}
