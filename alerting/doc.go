// Package alerting turns projections into decisions, and decisions into what consumers read: pre-scale events and
// alerts.
//
// [Decide] and [AlertTracker] are pure: the same projection, observation and state give the same decision and alerts.
// Nothing here reads a clock or opens a socket; the sinks and the dispatcher that owns their queues live in
// alerting/sink.
//
// Invariants: stale or thin evidence never scales in; pending replicas count as supply; every bound that changes a number is
// named in Decision.Constraints; a generation never repeats with other content. Units: probabilities and quantiles are
// fractions, durations are time.Duration. Bounds: see maxActive, maxFaults, maxPriorities and latestMinutes.
package alerting
