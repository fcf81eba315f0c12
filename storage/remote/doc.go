// Package remote reads the demand of the time before the telemetry from a Prometheus.
//
// It uses range queries of one day ([Past]). The caller stores the results in the event log.
//
// Nothing here owns a goroutine. Bounds: 16 MiB an answer; [BackfillConfig] for time and days.
package remote
