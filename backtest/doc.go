// Package backtest runs the pipeline over recorded traffic on the event clock, and scores its output.
//
// It has readers of traces ([Open]) and of monitoring data ([Recorded]). A simulated pool converts the demand of a
// minute and a number of replicas to saturated minutes and cost ([FluidPool]). All scaling policies get the same demand
// and warm-ups ([Policies]). The results are forecast errors ([Score]), policies at equal saturation ([Comparison]) and
// alarms ([Alarms]), in JSON and as a page. [NewWorkload] generates the traffic of the demo and of tests.
//
// One pass over a trace feeds the pipeline and steps all pools. [Run] creates a contender for each setting of each
// policy. All contenders of Forewarm use the pipeline's forecasts. A policy sees one [Observation] a minute; only the
// oracle uses the future in the [Scene].
//
// Invariants: at origin o the pipeline sees only the trace before o; the same trace, configuration and seed give the
// same bytes. Units: event time in UTC, tokens, rates per second. Bounds: a reader holds at most the
// rows of its sort buffer.
package backtest
