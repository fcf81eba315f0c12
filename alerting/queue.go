package alerting

import (
	"math"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// QueuePlan is how much a queue in front of the pool may absorb until more replicas are ready. Requests that wait
// longer than the deadline miss their objective and are retried, so a longer queue does not help.
type QueuePlan struct {
	DeadlineS     float64 `json:"deadline_seconds" cbor:"1,keyasint"`  // longest wait that still meets the objective for the first token
	MaxRequests   int     `json:"max_requests" cbor:"2,keyasint"`      // largest queue of the whole pool: what it serves within the deadline
	BurstRequests int     `json:"burst_requests" cbor:"3,keyasint"`    // requests beyond the forecast that fit within the lead time; negative if the pool is short
	Amplification float64 `json:"attempts_per_call" cbor:"4,keyasint"` // attempts per call in the last ten minutes
}

// maxQueue bounds a plan's numbers.
const maxQueue = 1_000_000_000

// queue is the plan for the binding resource; in a disaggregated pool, for the role that serves less. C is its ready
// capacity, D its demand, λ the attempts per second, T the objective for the first token, P the demand of prompt
// tokens, R a replica's rate for them, and L the lead time:
//
//	W = T − (P/λ)/R,  µ = C·λ/D,  largest queue = µ·W (Little's law),  burst = (µ − λ)·L + µ·W.
//
// λ, D and P are medians, averaged over the lead time. The deadline W is T if P or R is unknown, and at least 0. nil if
// the objective, the requests or the resource are unknown.
func (p *plan) queue() *QueuePlan {
	b := p.binding()
	deadline := p.in.Pool.SLO.TTFT.Seconds()
	if b == nil || p.blind != sighted || !(deadline > 0) {
		return nil
	}
	n := minutes(p.lead)
	calls := p.total(features.DimRequests)
	if calls == nil {
		return nil
	}
	rate := meanMedian(calls, n)
	served := b.evidence.PerReplica * float64(p.supply.Ready) * rate / meanMedian(b.forecast, n)
	if prompts := mostOf(p.prompts, ""); prompts != nil {
		if s := prompts.evidence.PerReplica * float64(p.promptSupply.Ready) * rate / meanMedian(prompts.forecast, n); s < served {
			served = s
		}
	}
	if !(served > 0) || math.IsInf(served, 0) {
		return nil
	}
	if prompts := p.total(features.DimPrefill); prompts != nil && p.in.Pool.Rates.PrefillTokensPerS > 0 {
		deadline = max(deadline-finite(meanMedian(prompts, n)/rate/p.in.Pool.Rates.PrefillTokensPerS), 0)
	}
	whole := func(x float64) int { return int(math.Round(math.Max(-maxQueue, math.Min(x, maxQueue)))) }
	return &QueuePlan{
		DeadlineS: deadline, MaxRequests: whole(served * deadline), Amplification: p.in.Forecast.Factor(features.DimRequests),
		BurstRequests: whole((served-rate)*p.lead.Seconds() + served*deadline),
	}
}

// total is the pool's forecast of a dimension; nil if unknown.
func (p *plan) total(dimension string) *forecaster.Forecast {
	for i := range p.in.Forecast.Total {
		if f := &p.in.Forecast.Total[i]; f.Dimension == dimension {
			return f
		}
	}
	return nil
}

// meanMedian is the median of a forecast, averaged over its first n minutes.
func meanMedian(f *forecaster.Forecast, n int) (mean float64) {
	for h := range n {
		mean += f.Minute[h].At(0.5) / float64(n)
	}
	return mean
}
