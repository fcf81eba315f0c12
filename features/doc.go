// Package features aggregates requests into one-minute, event-time windows per pool and class: the demand dimensions,
// quantile sketches of the shapes, cross-moments, and KV-cache occupancy.
//
// It is pure: no clock, no I/O, no logging, no goroutine; time enters as arguments.
//
// Demand is what users asked for, not what was served. Calls that a pool turned away count with the expected values of
// their class. Retries do not count. In minutes with a queue ([Window.Censored]) tokens are demand of the minute in
// which they were requested.
//
// Invariants: a minute without evidence is not a minute without traffic ([Window.Covered]). Every request is counted in
// exactly one minute, that of its arrival; if that has settled, in the totals of late records ([Window.Late]). The same
// records in the same order give the same bytes. Units: rates are per second averaged over the minute, occupancy is
// tokens. Bounds: classes per pool, names per class, open minutes and producers are capped ([Config], [Producers]); the
// excess is counted under [OverflowClass] or dropped and counted.
//
// The package also has [ClassifyConfig], which gives requests a class, [Ranking], which lists the largest consumers,
// and [Producers], which detects faults of those who send telemetry.
package features
