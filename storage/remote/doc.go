// Package remote speaks to the Prometheus-like servers around Forewarm: it reads from one what demand was before telemetry
// began.
//
// Reading is by range queries, a day at a time ([Past]); what comes back enters the fold through the event log, not here.
// Nothing here owns a goroutine. Bounds: a day of minutes an answer, [maxAnswer] bytes, [BackfillConfig] for time and days.
package remote
