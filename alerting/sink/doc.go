// Package sink delivers decisions and alerts to their consumers: one file per consumer, listed in [Open]. The
// [Dispatcher] reads the notices from the log.
//
// Invariants: a sink that hangs or refuses delays neither the pipeline nor another sink. A newer notice replaces an
// older undelivered one. A delivered notice is not sent again, unless the process dies before the log knows. A second
// delivery is harmless, because the id of a notice stays the same over retries and restarts. Advice and alerts expire,
// and are counted ([alerting.Notice.Life]); a report waits until a newer one replaces it. Bounds: one notice in flight
// per sink; an attempt lasts 15 s; waiting notices are in the log.
package sink
