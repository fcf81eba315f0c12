package forecaster

import (
	"time"

	"github.com/forewarm/forewarm/features"
)

// Horizon is the furthest minute ahead that is forecast.
const Horizon = 60

// Window over whose minutes the maximum is a forecast target of its own: the quantile of a maximum is not the maximum
// of the quantiles.
const (
	WindowFrom = 15
	WindowTo   = 30
)

// Confidence says how much history stands behind a forecast.
type Confidence string

// The grades of confidence: cold is less than an hour of known minutes, warm less than two days, seasonal has seen at
// least two days.
const (
	Cold     Confidence = "cold"
	Warm     Confidence = "warm"
	Seasonal Confidence = "seasonal"
)

// Forecast is the distribution of one dimension of one class at one origin. Minute h, counted from 1, is
// [Origin + (h−1) min, Origin + h min); values are in the dimension's unit, averaged over the minute.
type Forecast struct {
	features.Key // Class is features.TotalClass for the pool
	Dimension    string
	Origin       time.Time
	Last         float64 // the newest known value, as nowcast: what a last-value forecaster would say; NaN when none
	// Now is the demand of the newest minute: its nowcast where records come late. Where that is not known yet, it is at
	// least the median of the next minute, which has learned what the newest counts lack.
	Now        features.Estimate
	Minute     [Horizon]Quantiles // Minute[h-1]
	WindowMax  Quantiles          // of the largest minute in WindowFrom..WindowTo
	Confidence Confidence
	Known      int  // known minutes of history
	Fallback   bool // outcomes of late stayed nearer to the last value than to the network's median
	Basis      Basis
}

// Paths are joint sample paths of a pool's total demand. They keep dependence over minutes and dimensions:
// path j of one dimension belongs to path j of every other. At[d][j][h-1] is dimension d at minute h.
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
	Retries Retries // all else is of calls, each counted once: see Load
	Minute  features.PoolMinute
	// Stale says that the newest known minute is too old to forecast from; the numbers are then the last good ones.
	Stale bool
}
