// Package storage keeps on local disk the history of what the pipeline produced: series in an embedded Prometheus TSDB. What must
// last is in package stream; the history is a cache.
//
// It decides nothing; beside the appends it compacts, on one goroutine a [Store]. One process owns a directory ([Lock]). What the
// series are is in docs/series.md.
//
// Invariants: appending again what is stored changes nothing; a failed or refused sample is counted and never stops the
// pipeline. Bounds: Config.MaxClasses classes, Config.MaxSeries active series, Config.Retention and Config.MaxBytes of history.
package storage
