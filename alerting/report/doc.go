// Package report compares the forecasts and decisions of a period with outcomes.
//
// It is pure: no clock, no I/O except its writer, no goroutine. The period and the [History] are arguments; the same
// arguments give the same bytes.
//
// An unknown outcome is skipped and counted, never read as zero. Every outcome minute belongs to one period, whichever
// period its forecast was issued in. Units: shares are fractions (percent only for people), demand is in the unit of
// its dimension, leads are minutes. Bounds: a period of at most [MaxDays]. About 80 bytes of memory for each minute of
// the period and each stored class; storage.max_series bounds these.
//
// # How numbers are defined that their fields do not explain
//
// Minutes are whole minutes of UTC; people read times in the zone of the report. The period is [From, To). The decision
// in force in a minute is the newest one at or before its start, for at most fifteen minutes. Ready, Pending, Desired
// and resources of a minute are from it. Decisions and forecasts of the two hours before the period are read, too.
// Demand is the settled one (forewarm_demand_*), for the pool that of class "*": each call once. Load is the work of
// replicas, all attempts: demand times the load factor of the decision in force (Retries.Factor of its resource); 1 if
// there is none.
//
// Totals: Σ 60 · demand over the known minutes of the period (prompt tokens are those to prefill and those cached).
// Records that come after features.revise are in no minute. Rejected calls have their expected tokens.
//
// Accuracy, of every stored class, dimension and horizon: y is the outcome, q(τ) the forecast's quantile, N the number
// of outcomes. Sums are over forecasts whose target minute m is in the period and known; those with an unknown one are
// Missing. The forecast for horizon h of minute m was issued at the start of minute m − h + 1. The window maximum
// issued at the start of minute o is the largest of minutes o + 14 … o + 29; it is known if all are, and belongs to
// minute o + 29.
//
//	Mean        Σy/N
//	WAPE        Σ|q(.5) − y| / Σy
//	Bias        Σ(q(.5) − y) / Σy
//	Skill       1 − Σ|q(.5) − y| / Σ|last − y| over outcomes with a known last value: the demand of the minute before the
//	            origin, for the window maximum the largest of the sixteen minutes before it
//	Q90         share of y ≤ q(.9). Low and High are Wilson's interval for the Effective outcomes, which do not overlap:
//	            N/⌈h/step⌉. h is 30 for the window maximum. step is the mean number of minutes between origins
//
// If records come late, the last value was not yet complete at the origin, so the real skill is larger.
//
// Saturation: a minute is saturated if the load of the pool in some resource is above ready replicas × capacity of one,
// both by the decision in force; in a disaggregated pool, by the decode replicas. Any load saturates a pool of which
// all replicas are known not to be ready. Saturated minutes at most ten minutes apart are one episode. It belongs to
// the period of its start. Forecast of an episode is the median forecast load of its peak minute 15 minutes before,
// over the same capacity. Cause is what the decision in force in that minute names as the driver of demand. A warning
// is a run of decisions, on fresh telemetry, whose probability is at least the pool's threshold for warnings. Its claim
// lasts a warning window (forecaster.WarningWindow) from its last decision. An episode that begins within a claim is in
// time if the warning came at least a lead time before it, else late; outside of any claim it is missed. A warning
// without an episode is averted if load exceeded the capacity that was ready at its start, else false. A warning that
// starts during an episode is not counted. If its claim outlasts the period, or demand in it is unknown, it is open.
//
// Provision: need is load over PerReplica of the decision in force, rounded up, in the resource where it is largest;
// minutes with unknown need do not count. Over is Σ max(0, ready − max(need + reserves,
// replicas.min)), Under Σ max(0, need − ready), Paid Σ ready + pending. GPU-hours and costs use GPUs and price of a
// replica of the newest decision, and its replicas.min counts. In a disaggregated pool replicas are the decode replicas.
// Static is the largest max(need, replicas.min), at most the pool's limit, in every known minute. Hindsight is the offline
// optimum of right-sizing: the cheapest replica path with max(need, replicas.min), at most the limit, ready in every minute. Each
// replica is paid from LagMinutes before it is ready; LagMinutes is the median warm-up lag that the newest decision
// used. It knows demand, so it has no reserves (Lin, Wierman, Andrew and Thereska 2011,
// doi:10.1109/INFCOM.2011.5934885, §III; Lu, Chen and Andrew 2013, doi:10.1109/TPDS.2012.241).
package report
