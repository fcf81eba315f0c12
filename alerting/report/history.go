package report

import (
	"context"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// History is what was stored of the past. What is handed to fn is valid during the call only; an error of fn ends the
// walk and is returned. The order of calls is a function of what is stored, so that the same history makes the same
// report. Intervals are half open, [from, to).
type History interface {
	// Observed gives the settled demand of every pool, class (features.TotalClass for the pool) and dimension: values[i]
	// is the minute that starts at from + i minutes, NaN where it is not known. from is a whole minute.
	Observed(ctx context.Context, from, to time.Time, fn func(key features.Key, dimension string, values []float64) error) error
	// Late gives, for each class that had any, what came too late to be in Observed and was handed out in the interval.
	Late(ctx context.Context, from, to time.Time, fn func(key features.Key, late features.Late) error) error
	// Forecasts gives the forecasts issued in the interval, those of one pool, class and dimension together and by
	// origin, and those of a pool's total before those of its classes. Minutes that are not kept are NaN.
	Forecasts(ctx context.Context, from, to time.Time, fn func(*forecaster.Forecast) error) error
	// Decisions gives the decisions of the interval by tick, then pool.
	Decisions(ctx context.Context, from, to time.Time, fn func(*alerting.Decision) error) error
	// Tokens gives the tokens a second of the tenants, features or models (by) of classes that have series of their own, and
	// those of a class's others under the name ""; values are as in Observed. The order is that of keys, then names.
	Tokens(ctx context.Context, by string, from, to time.Time, fn func(key features.Key, name string, values []float64) error) error
}
