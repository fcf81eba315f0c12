// Package sink delivers decisions and alerts to their consumers: one file per consumer, listed in [Open], with the
// [Dispatcher] that takes from the log what each is to be told.
//
// Invariants: a sink that hangs or refuses delays neither the pipeline nor another sink; what is newer replaces what is
// older and not yet delivered; what a sink has dealt with it is not sent again, unless the process dies before the log knows;
// delivering twice is harmless, because every notice carries an id that stays the same over retries and restarts. Advice and
// alerts lapse, and are counted ([alerting.Notice.Life]); a report waits until a newer one takes its place. Bounds: one notice of a
// sink is under way (of Alertmanager, 256), an attempt lasts 15 s, or a minute for a report; what waits is in the log.
package sink
