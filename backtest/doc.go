// Package backtest runs the pipeline over recorded or synthetic traffic on the event clock, and scores what it said.
//
// It holds five things: readers of traces ([Open]), which stream requests and sums in time order; a generator of
// synthetic traffic ([NewWorkload]); simulated pools that turn demand and a replica count into queues and latencies
// ([Cluster] at request level, [FluidPool] minute by minute for whole traces and sums); the scaling policies that run on
// the same arrivals and the same draws ([Policies]); and the accounts of all that: forecasts against what came ([Score]),
// policies at equal saturation ([Comparison]), alarms and pages ([Alarms], [Pages]), in JSON and as a page for people.
//
// One pass over a trace feeds the pipeline and steps every pool: [Run] makes a contender of each setting of each policy,
// those of Forewarm's knob all deciding from the pipeline's forecasts. A policy sees an [Observation] a minute and
// nothing else; only those marked as clairvoyant are given the [Future].
//
// Invariants: the pipeline sees at origin o only what the trace says of the time before o; the same trace,
// configuration and seed give the same bytes. Traces are offsets in seconds from a start, so that day and week are
// known. Units: times are event time in UTC, token counts are tokens, rates are per second.
// Bounds: a reader holds at most its reorder buffer, whatever the length of the trace; the cluster's queue, its
// replicas and its undrained telemetry are capped and what does not fit is counted.
package backtest
