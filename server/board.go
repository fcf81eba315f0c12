package server

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forewarm/forewarm/pipeline"
)

// Board has the newest results of every pool; it begins without pools. Only the pipeline's goroutine calls
// [Board.Observe]; [Board.Pools] is safe for concurrent use. It keeps the last forecasts in memory.
type Board struct{ views atomic.Pointer[[]PoolView] }

// Pools are the views of the last tick, ordered by name.
func (b *Board) Pools() []PoolView {
	if views := b.views.Load(); views != nil {
		return *views
	}
	return nil
}

// Observe keeps the output of a tick, and copies of its pools, which the next tick overwrites. Pools that are not in it
// are deleted; a pool without a decision in it keeps its last one. Cost: linear in the size of the output.
func (b *Board) Observe(out *pipeline.Output) {
	now, last := time.Now(), map[string]PoolView{}
	for _, v := range b.Pools() {
		last[v.Pool] = v
	}
	views, byName := make([]PoolView, len(out.Pools)), map[string]*PoolView{}
	for i := range out.Pools {
		m, v := &out.Pools[i], &views[i]
		*v, byName[m.Pool] = last[m.Pool], v
		v.Pool, v.State, v.LastEvent = m.Pool, m.State, m.LastEvent
		v.State.PendingSince = slices.Clone(m.State.PendingSince)
		if len(out.Decisions) > 0 {
			v.Alerts = nil
		}
	}
	of := func(pool string) *PoolView { return cmp.Or(byName[pool], &PoolView{}) } // each pool is in out.Pools
	for i := range out.Decisions {
		v := of(out.Decisions[i].Pool)
		v.Decision, v.Decided = &out.Decisions[i], now
	}
	for i := range out.Projections {
		of(out.Projections[i].Pool).Projection = &out.Projections[i]
	}
	for i := range out.Services {
		of(out.Services[i].Pool).Service = &out.Services[i]
	}
	for i := range out.Forecasts {
		of(out.Forecasts[i].Pool).Forecast = out.Forecasts[i]
	}
	for _, a := range out.Alerts {
		if !a.Resolved {
			v := of(a.Labels["pool"])
			v.Alerts = append(v.Alerts, a)
		}
	}
	slices.SortFunc(views, func(x, y PoolView) int { return strings.Compare(x.Pool, y.Pool) })
	b.views.Store(&views)
}
