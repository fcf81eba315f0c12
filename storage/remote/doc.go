// Package remote speaks to the Prometheus-like servers around Forewarm: it reads from one what demand was before telemetry
// began, and writes to one what is stored.
//
// Reading is by range queries, a day at a time ([Past]); what comes back enters the pipeline through the event log, not here.
// Writing is Prometheus' remote write, out of the TSDB's write-ahead log ([Writer]).
//
// Nothing here owns a goroutine. Bounds: 16 MiB an answer; [BackfillConfig] for time and days; 2,000 samples and 30
// seconds a request to write.
package remote
