package forecaster

import (
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/network"
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
	// Now is the demand of the newest minute: its nowcast if records come late, the median of the next minute if it is
	// unknown.
	Now        features.Estimate
	Minute     [Horizon]Quantiles // Minute[h-1]
	WindowMax  Quantiles          // of the largest minute in WindowFrom..WindowTo
	Confidence Confidence
	Known      int // known minutes of history
	// Fallback: the last value weighs more than the network's forecast, because recent outcomes were nearer to it.
	Fallback bool
	// LoadFactor is the load of all attempts over that of calls in the last ten minutes, of a pool's total.
	LoadFactor float64
	Basis      Basis
	// Paths are joint sample paths of a pool's total, nil for a class: path j belongs to path j of every other
	// dimension. Paths[j][h-1] is minute h.
	Paths [][Horizon]float32
}

// PoolForecast is everything forecast for a pool at one origin.
type PoolForecast struct {
	Pool    string
	Origin  time.Time
	Classes []Forecast // ordered by class, then by dimension as listed in features.Dimensions
	Total   []Forecast // one per forecast dimension
	Retries Retries    // other fields are of calls, each counted once: see Load
	Minute  features.PoolMinute
	// Stale means that the newest known minute is too old; the forecasts are then the last good ones.
	Stale bool
}

// targets are leads, and the window maximum. Minutes in between are interpolated, as distributions change slowly.
var targets = network.Spans

const (
	numTargets = network.Targets
	windowMax  = numTargets - 1 // index of the window maximum; single leads come before it
	midLead    = 6              // index of the lead of 15 minutes
)

// interpolate fills all minutes from the quantiles at the single leads, linearly in the lead.
func interpolate(at *[numTargets]Quantiles, minutes *[Horizon]Quantiles) {
	k := 0
	for h := 1; h <= Horizon; h++ {
		for targets[k].To < h {
			k++
		}
		if targets[k].To == h {
			minutes[h-1] = at[k]
			continue
		}
		a, b := targets[k-1].To, targets[k].To
		f := float64(h-a) / float64(b-a)
		for i := range minutes[h-1] {
			minutes[h-1][i] = at[k-1][i] + f*(at[k][i]-at[k-1][i])
		}
	}
}
