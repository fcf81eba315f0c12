// Package sink delivers decisions and alerts to their consumers: one file per consumer, listed in [Open], with the
// [Dispatcher] that owns their queues.
//
// Invariants: a sink that hangs or refuses delays neither the pipeline nor another sink; what is newer replaces what is
// older and not yet delivered; what a sink has dealt with, by the [Ledger], it is not sent again; delivering twice is
// harmless, because every notice carries an id that stays the same over retries and restarts. Bounds: a queue holds
// Delivery.Queue notices for each sink, an attempt lasts Delivery.Timeout, a notice is given up when it expires.
package sink
