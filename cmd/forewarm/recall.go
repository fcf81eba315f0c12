package main

import (
	"maps"
	"slices"
	"time"

	"github.com/forewarm/forewarm"
	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// recall has autoscalers told what was decided before a restart, until the first tick decides anew: each pool's last decision
// in the journal, as long as it has not lapsed and is not older than telemetry may be. Decisions of another mode, or of a pool
// that may now have fewer or more replicas, were made by another configuration and are not repeated. On the event clock no
// one knows how old a decision is.
func (d *daemon) recall(now time.Time) error {
	if d.cfg.Clock != forewarm.WallClock {
		return nil
	}
	newest := map[string]alerting.Decision{}
	if err := d.journal.Read(now.Add(-d.cfg.Features.StaleAfter), now, func(x *alerting.Decision) error {
		newest[x.Pool] = *x
		return nil
	}); err != nil {
		return err
	}
	maps.DeleteFunc(newest, func(_ string, x alerting.Decision) bool { return x.Mode != d.cfg.Decision.Mode || !d.within(&x) })
	decisions := slices.Collect(maps.Values(newest))
	for i := range decisions {
		if x := &decisions[i]; x.Expires.After(x.Tick.Add(d.cfg.Features.StaleAfter)) {
			x.Expires = x.Tick.Add(d.cfg.Features.StaleAfter)
		}
	}
	d.board.Recall(decisions)
	return nil
}

// within says whether a pool may, as configured now, have as many replicas as x asks for.
func (d *daemon) within(x *alerting.Decision) bool {
	i := slices.IndexFunc(d.pools, func(p capacity.Pool) bool { return p.Name == x.Pool })
	if i < 0 {
		return true
	}
	most, _ := d.pools[i].Limit()
	return x.Desired >= d.pools[i].Replicas.Min && x.Desired <= most
}
