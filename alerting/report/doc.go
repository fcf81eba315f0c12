// Package report compares what was forecast and decided in a period with what came.
//
// It is pure: no clock, no I/O beyond the writer it is given, no goroutine; the period and the [History] are arguments,
// and the same ones make the same bytes.
//
// Invariants: an outcome that is not known is left out and counted, never read as zero; every outcome minute belongs to
// one period, whichever period its forecast was issued in; a period without data is reported as such. Units: shares are
// fractions (percent only in the Markdown and the page), demand is in the unit of its dimension, leads are minutes. Bounds:
// a period of at most [MaxDays]; 200 classes over all pools, the heaviest by tokens, are reported by themselves, and the others
// counted; some 140 bytes of memory for each minute of the period and of the nine days before, for each of these classes;
// 500 errors are explained; the Markdown lists at most fifty saturations of a pool.
//
// # How each number is defined
//
// Minutes are whole minutes of UTC; people are told by the clock of Options.Zone, with its abbreviation where clocks show a
// time twice. The period is [From, To). The decision in force in a minute is the newest at or
// before its start, for fifteen minutes at most. Ready, Pending, Desired and resources of a minute are from it. Decisions of
// the two hours before the period count only where one is in force at its start. Demand is what settled
// (forewarm_demand_*), the pool's is class "*": each call once. Load is what replicas had to do, all attempts: demand times the
// load factor of the first decision after the minute (Retries.Factor of its resource, which decisions size, too; 1 where it has
// none), of the last decision where none follows; 1 where that is more than fifteen minutes away.
//
// Data: Minutes of the period; Observed, in which any dimension of the pool is known; Decided, in which a decision was in force;
// Gaps, runs of minutes that are not Observed, the twenty longest.
//
// Totals: Σ 60 · demand over the minutes of the period that are known (prompt tokens are those to prefill and those
// cached), and what came after the bound on late records (features.revise) and was handed out in it: that is in no minute,
// so in no score either. Of calls that were turned away the tokens are those expected of them.
//
// Accuracy, of every class, dimension and horizon that is stored: y is the outcome, q(τ) the forecast's quantile, N the
// outcomes; sums are over forecasts whose target minute m is in the period and known, those whose is not are Missing. The
// forecast for horizon h of minute m was issued at the start of minute m − h + 1. The window maximum issued at the start of
// minute o is about the largest of minutes o + 14 … o + 29, is known when all are, and belongs to minute o + 29.
//
//	Mean        Σy/N
//	WAPE        Σ|q(.5) − y| / Σy
//	Bias        Σ(q(.5) − y) / Σy
//	MASELag1    (Σ|q(.5) − y|/N) / mean |yₜ − yₜ₋₁|, the latter over all minutes from nine days before the period to its end;
//	            MASEDay: |yₜ − yₜ₋₁₄₄₀|
//	Losses      Σ max(τ(y − q(τ)), (τ − 1)(y − q(τ))) / N at τ = .5, .8, .9, .95, .99; Pinball is their mean
//	CRPS        2·∫ loss dτ by the trapezoid rule over the nine stored levels, constant beyond the outermost
//	Q50 … Q99   share of y ≤ q(τ); Low and High are Wilson's for Effective outcomes: N·p(1 − p) over the variance of hits with
//	            Bartlett's weights 1 − |k|/h for origins k < h minutes apart (h is 30 for the window maximum), at most N and
//	            at least N/⌈h/step⌉, step being the mean minutes from origin to origin
//	Intervals   share of outcomes within q((1 − c)/2) … q((1 + c)/2), bounds included, c = .5, .8, .9, .95. The levels of the
//	            last, .025 and .975, are not stored: lines through q(.05), q(.1) and q(.95), q(.99) over the quantiles of the
//	            normal distribution give them, not below 0
//	PIT         outcomes by the level that linear interpolation between quantiles gives them, in ten bins
//	Skill       1 − Σ|q(.5) − y| / Σ|last − y| over outcomes for which the last value is known: the demand of the minute before
//	            the origin, for the window maximum the largest of the sixteen minutes before it
//
// Baselines expect of minute m, from an origin o: last as above; recent_15m the mean of the known minutes o − 15 … o − 1, for
// the window maximum their largest; seasonal_day and seasonal_week the mean of the known minutes within 7 of m − 1440 and
// m − 10080, for the window maximum that of the same window then. PointSkill is 1 − Σ|q(.5) − y| / Σ|point − y| over the
// outcomes that a baseline had something to expect of. Skill (of quantiles), DM and P give each baseline the quantiles of
// its own past errors, tracked as a stream from nine days before the period on ([forecaster.Scorer]), and its Outcomes are
// those for which it had them, from its twentieth error on; best_baseline is the one with the least Skill. Baselines are
// told settled demand: with records
// that come late they know more than anyone did then, and the skill shown is the smaller for it.
//
// Drift: the same, of the pool's totals at the headline horizon (15 minutes, or the stored one nearest to it), apart for
// outcomes before the middle of the period and from it on.
//
// Saturation: a minute is saturated when the load of the pool, in some resource, is above ready replicas × capacity of
// one, both as the newest decision had them; in a disaggregated pool, of what the replicas that decode carry. Saturated
// minutes no further apart than Options.Merge are one episode, which belongs to the period it starts in. An announcement is
// a run of decisions, on fresh telemetry, whose probability is that from which the pool is warned or more (where that is not
// known, Options.Probability); it claims a saturation from its start until its last decision's
// lead time and Options.Merge, or if that is more its warning window, have passed.
// An episode inside the claim is announced: in time when the announcement came a lead time before it, else late; an
// episode outside of any is missed. An announcement without an episode is averted when load did go above the capacity
// that was ready at its start, and false when it did not; one that starts during an episode announces nothing; one whose
// claim outlasts the period, or in which demand is not known, is open.
//
// Decisions: Actions are decisions with another Desired than the one before. Thrash counts those that undo the action
// before (more after less, or less after more) within an hour of it, and within its Lead. Asks are replicas k with
// max(Desired of the decision before, Ready + Pending) < k ≤ Desired, followed from that decision, the event, until one
// with Desired < k: ready at the first with Ready ≥ k within twice the lead time (an hour at least), after which nobody
// obeyed it; crossed in the first minute in which need + reserves ≥ k.
// Before the event, need + reserves may have been at k or more for some minutes without a break: the end of the first of
// these minutes is when the need was visible. Decisions may likewise have had Needed ≥ k for some time: the first of these
// is the other time. The earlier of the two counts.
// The queue meanwhile is the largest Waiting from the event until the ask was ready or was no longer made.
// Times are from decision to decision, so they are no finer than the time between decisions.
// In advisory mode nobody need have obeyed.
//
// Provision: need is, in the resource where it is largest, load over what a replica carries (PerReplica of the standing
// decision), rounded up; minutes in which that is not known count for Ready and Pending only. Over is Σ max(0, ready −
// max(need + reserves, replicas.min)), Under Σ max(0, need − ready), Paid Σ ready + pending. GPU-hours and costs are by the
// newest decision's GPUs and price of a replica; journals of versions before these were kept have replica-hours only. In a
// disaggregated pool replicas are those that decode. Clairvoyant is the offline optimum of right-sizing: the replica path
// that costs least among all with max(need, replicas.min) ready in every minute, not above the pool's limit, each replica
// paid from LagMinutes before it is ready; LagMinutes is the median over minutes of the warm-up lag's median as it was
// believed. It knows demand, so it holds no reserves (Lin, Wierman, Andrew and Thereska 2011,
// doi:10.1109/INFCOM.2011.5934885, §III; Lu, Chen and Andrew 2013, doi:10.1109/TPDS.2012.241). Regret is Paid − Clairvoyant:
// what was paid for not knowing, reserves included.
//
// Cost: in each minute of Provision, min(need, Ready) replicas served requests. The wasted part of these is
// wasted_prefill and wasted_decode over the tokens to prefill and to decode: tokens of attempts that failed.
// Idle replicas are first those of the reserves, in the order failure, failover,
// rollout, maintenance, warm; then those up to replicas.min; then Over. With Pending that is all of Paid. Who pays: prompt
// tokens to
// compute, output tokens and KV token-seconds each bear as much of Paid as they use of a replica (Σ load / PerReplica), and
// a class pays of each its share; KV is of prompts and outputs as prompt : output/2, and failed attempts hold as the calls of
// their class. Tenants, features and models
// pay of their classes by tokens; those without series of their own are others.
//
// Errors: utilisation of a resource in minute m, at one horizon h of a pool: the shortest stored one that is not below the lead
// of the newest decision, or else the longest, because that far ahead decisions need to know, is
//
//	came      demand · retries / (Ready · capacity)
//	forecast  median issued at o = m − h + 1 · retries of the minute before o / (due · capacity believed at o)
//
// where demand · retries is load. capacity came to the median PerReplica of the decisions in force in the 24 hours
// from the hour of m on, what was learned afterwards; believed was that of the decision in force at o. due is what would be
// ready had each replica taken the lag believed at o: the least, over the minutes m − lag … m, of Ready + Pending, in active
// mode or of Desired where that is more; where no replica reports it is Ready. Of prefill
// in a disaggregated pool, whose replicas of that role do not report, Ready and due are the replicas last asked for,
// desired_by_role of the decision in force in m, so that none is seen to be late; capacity is that of prefill_resources.
// What has no capacity has no utilisation. A forecast stands for as many
// minutes from its own on as there are to the next of its kind, by the median, so that a configuration that forecasts less
// often finds the same errors. A difference is large from 0.1 on, and from
// two standard deviations, 1.4826 times the median absolute deviation of all of that resource; large ones of one
// sign, what they stand for no further apart than Options.Merge, are one episode if Σ|difference|
// over the minutes that they stand for is 0.5 or more, such as 20 points for two and a half minutes.
// All are counted. The sum is the size of an episode. Episodes of one sign that overlap, or are at most Options.Merge apart,
// make one incident, whatever their resource: it begins with the largest episode that is in none. The largest episode of an
// incident is shown, the others are named. At most 500 episodes of a report are explained, in equal shares for its pools, but 20
// of each. Of an episode with more than 240 forecasts, 240 are read, evenly spread. An episode's Forecast and Actual are Σ load
// over Σ replicas · capacity.
//
// Causes: with n the requests of class c, N of all, and sums over the episode's minutes, each side is
//
//	Σ_c  N/seen · seen · n/N · load of a request · retries / (replicas · capacity)
//
// where the load of a request is, of prefill, prompt · share not cached; of decode, output; of KV, (prompt + output/2) ·
// output · seconds a token. The difference is split among the factors by the additive logarithmic mean Divisia index (LMDI;
// Ang 2005, doi:10.1016/j.enpol.2003.10.010, §3), which leaves no remainder: demand level is N/seen, class mix n/N, holding
// time the seconds a token. Forecasts of classes are scaled to add up to the pool's; a class without a forecast
// is expected as in the fifteen minutes before o. The share not cached, which is never forecast, is expected between that of
// the fifteen minutes before the first o and that before every o, on a logarithmic scale where the forecast load of a
// request is. seen is the share of demand that telemetry had. Forecast: where
// the decision at o was stale, a producer faulty, a minute of the five before o unknown, or else the difference is four
// times the usual (and 5 %), what decisions took demand to be in those five minutes over what it settled to, at most 1;
// times 1 − the
// share of tokens from fifteen minutes before the first origin to the last that came after the bound, within an hour, beyond
// the usual share.
// Came: 1 − that share of the episode's own minutes. Neither explains more than what the forecast was off by. Where more
// than half of what a forecast lacked came too late, all of it is telemetry loss; where half of what fell short did, a
// producer was silent, or minutes border on unknown ones, for most minutes of
// an episode, requests that fell short of the forecast are telemetry loss, by class; a silent producer is noted. Records
// that never came and of which nothing tells cannot
// be told from fewer requests.
//
// Assumptions are of the newest decision; Confirmed is the tick at which an estimate last moved, replicas last reported
// their cache, or a start was last observed; of a price, its date. Off is Stated / Learned − 1.
//
// Other settings are of who can run the period again (forewarm report -suggest): GPU-hours and saturated minutes of the same
// simulation of the recorded demand, with the configuration in force and with one other value. Nothing is recommended: a week
// does not say which value is better beyond chance.
package report
