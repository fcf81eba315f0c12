// Package forecaster turns windows into calibrated forecasts 1 to 60 minutes ahead, and forecasts into projections of
// when a pool's capacity runs out.
//
// It is pure: no clock, no I/O, no logging, no goroutine. One network forecasts each series (pool × class × dimension,
// and the pool's total). The forecast is shifted towards yesterday and the last value, as far as those were right
// before. Then it is calibrated. Files: series.go has all steps of a minute; slope.go and calibration.go have what is
// learned.
//
// Invariants: a forecast depends only on windows before its origin; quantiles are monotone; a missing minute is
// skipped, never read as zero; the paths of a pool's total have its quantiles at each minute. Units: those of
// features.Dimensions, averaged over a minute. Bounds: state per series is fixed, series are bounded by
// features.Config.
package forecaster
