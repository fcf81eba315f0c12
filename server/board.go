package server

import (
	"sync/atomic"

	"github.com/forewarm/forewarm/pipeline"
)

// Board has the newest results of every pool; it begins without pools. Only the pipeline's goroutine calls
// [Board.Observe]; [Board.Pools] is safe for concurrent use. It keeps the last forecasts in memory.
type Board struct{ views atomic.Pointer[[]PoolView] }

// Pools are the views of the last tick that decided, ordered by name.
func (b *Board) Pools() []PoolView {
	if views := b.views.Load(); views != nil {
		return *views
	}
	return nil
}

// Observe keeps the pools of a tick that decided.
func (b *Board) Observe(out *pipeline.Output) {
	if len(out.Pools) == 0 {
		return
	}
	views := make([]PoolView, len(out.Pools))
	for i := range views {
		v := &views[i]
		v.PoolOutput = out.Pools[i]
		for _, a := range out.Alerts {
			if !a.Resolved && a.Labels["pool"] == v.Pool {
				v.Alerts = append(v.Alerts, a)
			}
		}
	}
	b.views.Store(&views)
}
