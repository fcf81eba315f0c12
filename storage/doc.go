// Package storage keeps on disk what the fold produced: series in an embedded Prometheus TSDB, an append-only journal of
// decisions, an outbox of what is to be told, and snapshots of the pipeline's state.
//
// It decides nothing; beside the appends it compacts, on one goroutine a [Store]. One process owns a directory ([Lock]). The
// formats, what a crash or a loss of power can take, and what is done about a disk that fails are in formats/README.md and
// the page of each format beside it; [Verify] checks a directory against them.
//
// Invariants: appending again what is stored changes nothing; a failed or refused sample is counted and never stops the
// pipeline; what Sync has said to be safe is there after any crash; no file is read beyond its stated bounds. Bounds:
// Config.MaxClasses classes, Config.MaxSeries active series, Config.Retention and Config.MaxBytes of history, 64 MiB a
// segment, 1 GiB a snapshot, two snapshots, 1 MiB of decisions that wait for the disk.
package storage
