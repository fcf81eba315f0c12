// Package backtest runs the pipeline over recorded traffic on the event clock, and scores what it said.
//
// It holds readers of traces ([Open]) and of what a monitoring system recorded ([Recorded]); the simulated pool that turns the
// demand of a minute and a number of replicas into saturated minutes and cost ([FluidPool]); the scaling policies that meet the same
// demand and the same warm-ups ([Policies]); and the accounts: forecasts against what came ([Score]), policies at equal saturation
// ([Comparison]), alarms ([Alarms]), in JSON and as a page for people. For the demo and for tests, which need
// single requests, there are a generator of traffic ([NewWorkload]) and a pool that serves each request ([Cluster]).
//
// One pass over a trace feeds the pipeline and steps every pool. [Run] makes a contender of each setting of each policy; those of
// Forewarm all decide from the pipeline's forecasts. A policy sees an [Observation] a minute and nothing else; only the oracle is
// given the [Future].
//
// Invariants: the pipeline sees at origin o only what the trace says of the time before o; the same trace, configuration and seed
// give the same bytes. Units: times are event time in UTC, token counts are tokens, rates are per second. Bounds: a reader holds at
// most its reorder buffer; the cluster's queue, its replicas and its undrained telemetry are capped, and what does not fit is
// counted.
package backtest
