// Package forewarm is the whole flow in one place: a fold over an event log.
//
//	state', outputs = step(state, event-or-tick)
//
// The daemon, the backtest and the tests run this same code; only the source of events and of time differ.
package forewarm

import (
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// Output is what one tick produced. Its slices are valid until the next tick.
type Output struct {
	Tick     time.Time // the origin: windows before it are in, forecasts start at it
	Sequence uint64    // stream sequence folded so far

	Windows     []features.Window // first counts of the minute before Tick, and windows that settled at this tick
	Pools       []features.PoolMinute
	Forecasts   []forecaster.PoolForecast
	Projections []forecaster.Projection
	Decisions   []alerting.Decision
	Alerts      []alerting.Alert // raised, still firing, or resolved at this tick
}
