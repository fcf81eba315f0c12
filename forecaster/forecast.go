package forecaster

import (
	"time"

	"github.com/forewarm/forewarm/features"
)

// Horizon is the forecast range in minutes.
const Horizon = 60

// Window whose largest minute is a forecast target, because the quantile of a maximum is not the maximum of the
// quantiles.
const (
	WindowFrom = 15
	WindowTo   = 30
)

// Confidence grades the amount of history behind a forecast.
type Confidence string

// The grades of confidence.
const (
	Cold     Confidence = "cold"     // less than an hour of known minutes
	Warm     Confidence = "warm"     // less than two days
	Seasonal Confidence = "seasonal" // two days or more
)

// Forecast is the distribution of one dimension of one class at one origin. Minute h, counted from 1, is
// [Origin + (h−1) min, Origin + h min); values are in the dimension's unit, averaged over the minute.
type Forecast struct {
	features.Key // Class is features.TotalClass for the pool
	Dimension    string
	Origin       time.Time
	Last         float64 // the newest known value, as nowcast: the forecast of the last-value baseline; NaN if unknown
	// Now is the demand of the newest minute: its nowcast if records come late. If that is not known yet, it is at
	// least the median of the next minute, whose forecast has learned how incomplete the newest counts are.
	Now        features.Estimate
	Minute     [Horizon]Quantiles // Minute[h-1]
	WindowMax  Quantiles          // of the largest minute in WindowFrom..WindowTo
	Confidence Confidence
	Known      int  // known minutes of history
	Fallback   bool // recent outcomes were nearer to the last value than to the network's median
	Basis      Basis
}

// Paths are joint sample paths of a pool's total demand: path j of one dimension belongs to path j of every other.
// At[d][j][h-1] is dimension d at minute h.
type Paths struct {
	Dimensions []string
	At         [][][Horizon]float32
}

// PoolForecast is everything forecast for a pool at one origin.
type PoolForecast struct {
	Pool    string
	Origin  time.Time
	Classes []Forecast // ordered by class, then by dimension as listed in features.Dimensions
	Total   []Forecast // one per forecast dimension
	Paths   Paths
	Retries Retries // other fields are of calls, each counted once: see Load
	Minute  features.PoolMinute
	// Stale means that the newest known minute is too old; the forecasts are then the last good ones.
	Stale bool
}
