// Package features sums requests up in one-minute, event-time windows per pool and class: the demand dimensions,
// quantile sketches of the shapes, cross-moments, and KV-cache occupancy.
//
// It is pure: no clock, no I/O, no logging, no goroutine; time enters as arguments.
//
// Demand is what was asked, not what was served: calls that a pool turned away count with what their class lets expect,
// attempts at calls that were counted do not, and in minutes in which a queue built up ([Window.Censored]) tokens are
// demand of the minute they were asked in.
//
// Invariants: a minute without evidence is not a minute without traffic ([Window.Covered]); every request is counted in
// exactly one minute, that of its arrival, or when that has settled in the totals of what came late ([Window.Late]);
// the same records in the same order give the same bytes. Units: rates are per second averaged over the minute,
// occupancy is tokens. Bounds: classes per pool, names per class, open minutes and producers are capped
// ([Config], [Producers]); what does not fit is pooled under [OverflowClass] or forgotten, and counted.
//
// Beside the windows: [ClassifyConfig] gives requests a class, [Ranking] says who it is for,
// [Producers] whether those who report can be relied on.
package features
