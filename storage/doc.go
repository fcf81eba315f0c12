// Package storage keeps the pipeline's history on local disk, as series in an embedded Prometheus TSDB. It is a cache;
// package stream keeps the durable data.
//
// A [Store] compacts on at most one goroutine of its own while others append. One process owns a directory ([Lock]).
// docs/series.md lists the series.
//
// Invariants: appending stored samples again changes nothing; a failed or refused sample is counted and never stops the
// pipeline. Bounds: Config.MaxSeries active series, Config.Retention and Config.MaxBytes.
package storage
