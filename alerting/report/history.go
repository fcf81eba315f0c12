package report

import (
	"context"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// History is the stored past. Arguments of fn are valid during the call only; an error of fn ends the walk and is
// returned. Calls come in a fixed order, so the same history gives the same report. Intervals are [from, to).
type History interface {
	// Observed reads the settled demand of every pool, class (features.TotalClass for the pool) and dimension:
	// values[i] is the minute that starts at from + i minutes, NaN if unknown. from is a whole minute.
	Observed(ctx context.Context, from, to time.Time, fn func(key features.Key, dimension string, values []float64) error) error
	// Forecasts reads the forecasts issued in the interval, grouped by pool, class and dimension, by origin; a pool's
	// total comes before its classes. Minutes that are not stored are NaN.
	Forecasts(ctx context.Context, from, to time.Time, fn func(*forecaster.Forecast) error) error
	// Decisions reads the decisions of the interval by tick, then pool.
	Decisions(ctx context.Context, from, to time.Time, fn func(*alerting.Decision) error) error
}
