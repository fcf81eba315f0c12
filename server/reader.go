package server

import (
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/pipeline"
)

// Reader is the server's view of the daemon. Both methods must be safe for concurrent use and must not block. Nobody
// changes their results.
type Reader interface {
	Status() Status
	// Pools are ordered by name.
	Pools() []PoolView
}

// Status is the state of the daemon itself.
type Status struct {
	Version  string         `json:"version"`         // of the program
	Mode     alerting.Mode  `json:"mode"`            // advisory or active
	Clock    pipeline.Clock `json:"clock"`           // wall or event
	Began    time.Time      `json:"-"`               // start of the process or newest reload, by the clock of the machine
	Tick     time.Time      `json:"-"`               // zero before the first one since Began
	TickedAt time.Time      `json:"-"`               // when that ran, by the clock of the machine
	Behind   time.Duration  `json:"-"`               // age of that when it ran, by the clock of the stream; 0 with clock: event
	Sequence uint64         `json:"stream_sequence"` // newest message read from the telemetry stream

	Connected  bool    `json:"-"`
	Connection string  `json:"-"`                   // the server's address, or why there is no connection
	Lag        *uint64 `json:"stream_lag_messages"` // messages that are not read yet; null if that is not known
	Stream     string  `json:"-"`                   // what is wrong with the telemetry stream, and the fix; "" if nothing

	Producers []features.ProducerState `json:"producers"` // of telemetry, ordered by name

	Configured []string `json:"-"` // pools with a name in the configuration

	Restored bool   `json:"-"` // the start-up restore is over, with or without a snapshot
	Restore  string `json:"-"` // what was restored: "snapshot at 1234", "no snapshot: empty state"

	Config  string `json:"-"` // when and why a configuration was not reloaded; "" if the newest one is in use
	Storage string `json:"-"` // newest write error; "" if all writes work
	Sinks   string `json:"-"` // failing sinks and why; "" if none
	Refused string `json:"-"` // recently refused telemetry: producer, reason and fix; "" if none
	Scrape  string `json:"-"` // targets that cannot be scraped: job, address and why; "" if none

	Alerts []alerting.Alert `json:"alerts"` // firing ones about the daemon itself
}

// PoolView is one pool at the last tick.
type PoolView struct {
	pipeline.PoolOutput
	Alerts []alerting.Alert // firing ones
}

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
	if out.Pools == nil {
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

// find returns the pool of a name. The error is a problem that names some of the known pools.
func find(r Reader, name string) (*PoolView, error) {
	views := r.Pools()
	i, ok := slices.BinarySearchFunc(views, name, func(v PoolView, name string) int { return strings.Compare(v.Pool, name) })
	if ok {
		return &views[i], nil
	}
	if r.Status().Tick.IsZero() {
		return nil, Problemf(http.StatusServiceUnavailable, "no minute was evaluated since the start: ask again in a minute")
	}
	known := "; no telemetry of any pool was counted by then"
	if len(views) > 0 {
		known = ", or no telemetry of it yet; /api/v1/pools lists " + some(columnOf(views, func(v *PoolView) string { return v.Pool }))
	}
	return nil, Problemf(http.StatusNotFound, "no pool %q at the last tick%s", name, known)
}

// resources iterates over the resources of a pool's own replicas, and then over those of a disaggregated pool's prefill
// replicas. With each comes the projection of these replicas.
func resources(p *forecaster.Projection) iter.Seq2[*forecaster.ResourceProjection, *forecaster.Projection] {
	return func(yield func(*forecaster.ResourceProjection, *forecaster.Projection) bool) {
		for of := p; of != nil; of = of.Prompts {
			for i := range of.Resources {
				if !yield(&of.Resources[i], of) {
					return
				}
			}
		}
	}
}
