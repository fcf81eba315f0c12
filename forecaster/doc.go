// Package forecaster turns windows into calibrated forecasts 1 to 60 minutes ahead, and forecasts into projections of
// when a pool's capacity runs out.
//
// It is pure: no clock, no I/O, no logging, no goroutine. Per series (pool × class × dimension, and the pool's total) it
// runs cheap experts side by side, tracks the quantiles of their errors by horizon, weights them by how well they did,
// and corrects the result for coverage.
//
// Invariants: a forecast at an origin depends only on windows before it; quantiles are monotone; a missing minute is
// skipped, never read as zero; a path of a pool's total is the sum of its classes' paths
// moved to the total's own quantiles, rank by rank. Units: those of features.Dimensions,
// averaged over a minute. Bounds: state per series is fixed (no history grows), series are bounded by features.Config.
package forecaster
