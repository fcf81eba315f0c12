// Package report compares what was forecast and decided in a period with what came.
//
// It is pure: no clock, no I/O beyond the writer it is given, no goroutine; the period and the [History] are arguments,
// and the same ones make the same bytes.
//
// Invariants: an outcome that is not known is left out and counted, never read as zero; every outcome minute belongs to
// one period, whichever period its forecast was issued in; a period without data is reported as such. Units: shares are
// fractions (percent only in the Markdown), demand is in the unit of its dimension, leads are minutes. Bounds: a period
// of at most [MaxDays]; memory for the minutes of the period and the nine days before of every observed series and of every pool's decisions; the
// Markdown lists at most fifty saturations of a pool.
//
// # What is counted
//
// Accuracy, per pool, class, dimension and horizon: every stored forecast whose target minute lies in the period, against
// the settled demand of that minute. For horizon h the target is the h-th minute from the origin; for the window maximum
// it is the largest of minutes 15 to 30, known when all of them are. The last value that skill is measured against is the
// settled demand of the minute before the origin, for the window maximum the largest of the sixteen minutes before it. The
// baselines ([forecaster.Baseline]) are told settled demand, too: with records that come late they know more than anyone
// did then, and the skill shown is the smaller for it. Their quantiles are those of their errors of the days before, for
// which nine days before the period are read. Coverage intervals and the Diebold–Mariano test allow for horizons that
// overlap.
//
// Totals, per pool and class: settled demand summed over the minutes of the period, and what came after the bound on
// late records (features.revise) and was handed out in it: that is in no minute, so in no score either. Of calls that
// were turned away the tokens are those expected of them.
//
// Saturation: a minute is saturated when the demand of the pool, in some resource, is above ready replicas × capacity of
// one, both as the newest decision had them. Saturated minutes no further apart than Options.Merge are one episode, which
// belongs to the period it starts in. An announcement is a run of decisions, on fresh telemetry, with a probability of
// Options.Probability or more; it claims a saturation from its start until its last decision's lead time and Options.Merge have passed.
// An episode inside the claim is announced: in time when the announcement came a lead time before it, else late; an
// episode outside of any is missed. An announcement without an episode is averted when demand did go above the capacity
// that was ready at its start, and false when it did not; one that starts during an episode announces nothing; one whose
// claim outlasts the period, or in which demand is not known, is open.
package report
