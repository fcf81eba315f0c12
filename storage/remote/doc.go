// Package remote exchanges data with Prometheus-like servers: it reads demand from before the telemetry, and writes the
// stored series.
//
// Reading uses range queries of one day ([Past]). The caller stores the results in the event log. Writing is Prometheus
// remote write; the TSDB is its queue ([Writer]).
//
// Nothing here owns a goroutine. Bounds: 16 MiB an answer; [BackfillConfig] for time and days; 2,000 samples and 30
// seconds a request to write.
package remote
