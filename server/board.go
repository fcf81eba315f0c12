package server

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forewarm/forewarm/pipeline"
)

// Board has the newest results of every pool. Only the pipeline's goroutine calls [Board.Observe]; [Board.Pools] is
// safe for concurrent use. Memory: one copy of the last forecasts.
type Board struct {
	last  map[string]PoolView // by pool; owned by the caller of Observe
	views atomic.Pointer[[]PoolView]
}

// NewBoard returns a board without pools.
func NewBoard() *Board {
	b := &Board{last: map[string]PoolView{}}
	b.views.Store(&[]PoolView{})
	return b
}

// Pools are the views of the last tick, ordered by name.
func (b *Board) Pools() []PoolView { return *b.views.Load() }

// Recall sets the views of pools from before a restart, so that a valid decision is available before the first tick. It
// owns the views afterwards. Only the pipeline's goroutine calls it, like [Board.Observe].
func (b *Board) Recall(views []PoolView) {
	for _, v := range views {
		b.last[v.Pool] = v
	}
	slices.SortFunc(views, func(x, y PoolView) int { return strings.Compare(x.Pool, y.Pool) })
	b.views.Store(&views)
}

// Observe keeps the output of a tick, and copies of its pools, which the next tick overwrites. Pools that are not in it
// are deleted; a pool without a decision in it keeps its last one. Cost: linear in the size of the output.
func (b *Board) Observe(out *pipeline.Output) {
	now := make(map[string]PoolView, len(out.Pools))
	for _, m := range out.Pools {
		v := b.last[m.Pool]
		v.Pool, v.State, v.Covered, v.LastEvent = m.Pool, m.State, m.Covered, m.LastEvent
		v.State.PendingSince = slices.Clone(m.State.PendingSince)
		if len(out.Decisions) > 0 {
			v.Alerts = nil
		}
		now[m.Pool] = v
	}
	update := func(pool string, change func(v *PoolView)) {
		v := now[pool]
		v.Pool = pool
		change(&v)
		now[pool] = v
	}
	for i := range out.Decisions {
		update(out.Decisions[i].Pool, func(v *PoolView) {
			v.Decision, v.Decided = &out.Decisions[i], time.Now()
		})
	}
	for i := range out.Projections {
		update(out.Projections[i].Pool, func(v *PoolView) { v.Projection = &out.Projections[i] })
	}
	for i := range out.Services {
		s := &out.Services[i]
		update(s.Pool, func(v *PoolView) { v.Service, v.Limits, v.Curve = &s.Trusted, s.Limits, s.Curve })
	}
	for i := range out.Forecasts {
		f := &out.Forecasts[i]
		update(f.Pool, func(v *PoolView) { v.Stale, v.Forecasts = f.Stale, slices.Concat(f.Total, f.Classes) })
	}
	for _, a := range out.Alerts {
		if !a.Resolved {
			update(a.Labels["pool"], func(v *PoolView) { v.Alerts = append(v.Alerts, a) })
		}
	}
	views := make([]PoolView, 0, len(now))
	for _, pool := range slices.Sorted(maps.Keys(now)) {
		views = append(views, now[pool])
	}
	b.last = now
	b.views.Store(&views)
}
