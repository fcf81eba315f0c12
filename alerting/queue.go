package alerting

import (
	"math"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// QueuePlan is how much a queue before the pool may absorb until more replicas can be ready. What waits longer than the
// deadline misses its objective, is given up and comes again, so that a longer queue serves nobody.
type QueuePlan struct {
	DeadlineS     float64 `json:"deadline_seconds" cbor:"1,keyasint"`  // longest wait that still meets the objective for the first token: less what its prompt takes
	MaxRequests   int     `json:"max_requests" cbor:"2,keyasint"`      // that may wait in the whole pool: what it serves within the deadline
	BurstRequests int     `json:"burst_requests" cbor:"3,keyasint"`    // beyond the forecast that can be taken within the lead time; negative when it is short already
	Amplification float64 `json:"attempts_per_call" cbor:"4,keyasint"` // attempts per call in the last ten minutes
}

// maxQueue bounds a plan's numbers.
const maxQueue = 1_000_000_000

// queue is the plan by what the binding resource serves, of the two roles of a disaggregated pool the one that serves less. With C its capacity that is ready, D its demand, λ calls per
// second, a attempts per call, T the objective for the first token, P the demand of prompt tokens and R a replica's rate for
// them, and L the lead time:
//
//	W = T − (P/λ)/R,  µ = C·λ/D,  most waiting = µ·W (Little's law),  burst = (µ − a·λ)·L + µ·W.
//
// λ, D and P are medians, averaged over the lead; the deadline W is T where P or R is not known, and never below 0. nil when the
// objective, the calls or the resource are not known.
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

// total is the pool's forecast of a dimension; nil without one.
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
