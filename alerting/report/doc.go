// Package report compares what was forecast and decided in a period with what came.
//
// It is pure: no clock, no I/O beyond the writer it is given, no goroutine. The period and the [History] are arguments, and
// the same ones make the same bytes.
//
// An outcome that is not known is left out and counted, never read as zero. Every outcome minute belongs to one period,
// whichever period its forecast was issued in. Units: shares are fractions (percent only for people), demand is in the unit
// of its dimension, leads are minutes. Bounds: a period of at most [MaxDays]; 200 classes over all pools, the heaviest by
// tokens, are reported by themselves, and the others counted; some 140 bytes of memory for each minute of the period, for
// each of these classes.
//
// # How each number is defined
//
// Minutes are whole minutes of UTC; people read times in Options.Zone. The period is [From, To). The decision in force in a
// minute is the newest at or before its start, for fifteen minutes at most. Ready, Pending, Desired and resources of a minute
// are from it. Decisions and forecasts of the two hours before the period are read, too. Demand is what settled
// (forewarm_demand_*), the pool's is class "*": each call once. Load is what replicas had to do, all attempts: demand times the
// load factor of the first decision after the minute (Retries.Factor of its resource; 1 where it has none), of the last
// decision where none follows; 1 where that is more than fifteen minutes away.
//
// Data: Minutes of the period; Observed, in which any dimension of the pool is known; Decided, in which a decision was in force;
// Gaps, runs of minutes that are not Observed, the twenty longest.
//
// Totals: Σ 60 · demand over the minutes of the period that are known (prompt tokens are those to prefill and those
// cached), and what came after features.revise and was handed out in the period: that is in no minute, so in no score either. Of
// calls that were turned away the tokens are those expected of them. RequestsBefore is the same sum of the pool's requests over
// the same span before the period, where nine tenths of its minutes are known.
//
// Accuracy, of every class, dimension and horizon that is stored: y is the outcome, q(τ) the forecast's quantile, N the
// outcomes; sums are over forecasts whose target minute m is in the period and known, those whose is not are Missing. The
// forecast for horizon h of minute m was issued at the start of minute m − h + 1. The window maximum issued at the start of
// minute o is about the largest of minutes o + 14 … o + 29, is known when all are, and belongs to minute o + 29.
//
//	Mean        Σy/N
//	WAPE        Σ|q(.5) − y| / Σy
//	Bias        Σ(q(.5) − y) / Σy
//	Skill       1 − Σ|q(.5) − y| / Σ|last − y| over outcomes for which the last value is known: the demand of the minute before
//	            the origin, for the window maximum the largest of the sixteen minutes before it
//	Q50 … Q99   share of y ≤ q(τ); Low and High are Wilson's for Effective outcomes: N·p(1 − p) over the variance of hits with
//	            Bartlett's weights 1 − |k|/h for origins k < h minutes apart (h is 30 for the window maximum), at most N and
//	            at least N/⌈h/step⌉, step being the mean minutes from origin to origin
//
// With records that come late the last value is more than anyone knew then, and the skill shown is the smaller for it.
//
// Saturation: a minute is saturated when the load of the pool, in some resource, is above ready replicas × capacity of
// one, both as the newest decision had them; in a disaggregated pool, of what the replicas that decode carry. Saturated
// minutes no further apart than Options.Merge are one episode, which belongs to the period it starts in. Forecast of an
// episode is the median load that was forecast of its peak minute at the horizon next to 15 minutes, over the same capacity;
// Cause names the class with the largest rise of mean demand over the hour before, if it is half of the pool's.
// A warning is a run of decisions, on fresh telemetry, whose probability is at least the pool's threshold for warnings (where that is not known, Options.Probability). It claims a
// saturation until its last decision's lead time and Options.Merge, or if that is more its warning window, have passed.
// An episode inside the claim is warned of: in time when the warning came a lead time before it, else late; an
// episode outside of any is missed. A warning without an episode is averted when load did go above the capacity
// that was ready at its start, and false when it did not; one that starts during an episode counts for nothing; one whose
// claim outlasts the period, or in which demand is not known, is open.
//
// Decisions: Actions are decisions with another Desired than the one before; TakenBack are those that undo the action
// before (more after less, or less after more) within an hour. Asks are replicas k with max(Desired of the decision before,
// Ready + Pending) < k ≤ Desired, followed from that decision until one with Desired < k: ready at the first with Ready ≥ k
// within twice the lead time (an hour at least), after which nobody obeyed it; taken by the load in the first minute in which
// need + reserves ≥ k. Times are from decision to decision. In advisory mode nobody need have obeyed.
//
// Provision: need is, in the resource where it is largest, load over what a replica carries (PerReplica of the decision in
// force), rounded up; minutes in which that is not known count for Ready and Pending only. Over is Σ max(0, ready −
// max(need + reserves, replicas.min)), Under Σ max(0, need − ready), Paid Σ ready + pending. GPU-hours and costs are by the
// newest decision's GPUs and price of a replica. In a disaggregated pool replicas are those that decode. Static is the largest
// max(need, replicas.min), not above the pool's limit, in every known minute. Hindsight is the offline optimum of right-sizing:
// the replica path that costs least among all with max(need, replicas.min) ready in every minute, not above the limit, each
// replica paid from LagMinutes before it is ready; LagMinutes is the median over minutes of the median warm-up lag as it was
// believed. It knows demand, so it holds no reserves (Lin, Wierman, Andrew and Thereska 2011,
// doi:10.1109/INFCOM.2011.5934885, §III; Lu, Chen and Andrew 2013, doi:10.1109/TPDS.2012.241).
//
// Cost: of Paid, prompt tokens to compute, output tokens and KV token-seconds each bear as much as they use of a replica
// (Σ load / PerReplica), and a class pays of each its share. KV is of prompts and outputs as prompt : output/2, and failed
// attempts hold as the calls of their class. Tenants, features and models pay of their classes by tokens. Those without
// series of their own are others.
//
// Other settings are of who can run the period again (forewarm report -suggest): GPU-hours and saturated minutes of the same
// simulation of the recorded demand, with the configuration in force and with one other value. Nothing is recommended: a week
// does not say which value is better beyond chance.
package report
