package alerting

import (
	"fmt"
	"math"

	"github.com/forewarm/forewarm/features"
)

// floor is the minimum of replicas from present observations, without the forecast.
type floor struct {
	replicas int
	cause    string // for the reason; "" if only current demand counts
}

// queueShare is the share of the ready replicas added for each multiple of the tolerated queue.
const queueShare = 0.1

// reactive is the floor: the replicas for the newest known demand, more if requests queue, and more if the fullest KV
// cache is above danger. All are totals, so pending replicas count.
func reactive(s features.PoolState, rows []resource, danger float64, cfg Config) floor {
	var f floor
	for i := range rows {
		f.replicas = max(f.replicas, rows[i].now)
	}
	if !s.Observed || s.Ready == 0 {
		return f
	}
	ready := float64(s.Ready)
	if w := s.WaitingPerReady; w >= cfg.WaitingPerReplica && !math.IsInf(w, 0) {
		more := min(math.Ceil(ready*queueShare*w/cfg.WaitingPerReplica), ready)
		f.raise(s.Ready+int(more), fmt.Sprintf("%.1f requests wait per replica (threshold %g)", w, cfg.WaitingPerReplica))
	}
	if use := finite(s.KVUsedMax); use > danger {
		f.raise(int(math.Ceil(ready*min(use, 1)/danger)), fmt.Sprintf("the fullest replica's KV cache is %s full (danger above %s)", percent(use), percent(danger)))
	}
	return f
}

func (f *floor) raise(replicas int, cause string) {
	if replicas > f.replicas {
		f.replicas, f.cause = replicas, cause
	}
}
