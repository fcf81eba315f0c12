package backtest

import (
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// rolePools is a disaggregated pool: a [FluidPool] that decodes, which is what is observed and scaled as the pool, and one that
// computes prompts beside it, which reports nothing. Neither waits for the other, and how fast KV cache is sent between them is
// left out.
type rolePools struct {
	*FluidPool
	prompts *FluidPool
	both    int // minutes in which both were saturated
}

// newFluid makes the fluid pool, or pools, of a pool with its initial replicas ready.
func newFluid(pool capacity.Pool, start time.Time, seed uint64) simulated {
	if !pool.Disaggregated {
		return NewFluidPool(pool, start, seed)
	}
	return &rolePools{FluidPool: NewFluidPool(decodePool(pool), start, seed), prompts: NewFluidPool(promptPool(pool), start, seed+1)}
}

// decodePool is the part of a disaggregated pool that decodes, as a pool; another pool is that itself.
func decodePool(p capacity.Pool) capacity.Pool {
	if p.Disaggregated {
		p.Rates.PrefillTokensPerS, p.Disaggregated = 0, false
	}
	return p
}

// promptPool is the part of a disaggregated pool that computes prompts, as a pool.
func promptPool(p capacity.Pool) capacity.Pool {
	p.Replicas, p.Reserves, p.Disaggregated = p.PrefillReplicas, p.PrefillReserves, false
	p.KVTokens, p.BudgetHourUSD = 0, 0
	p.Rates = capacity.Rates{PrefillTokensPerS: p.Rates.PrefillTokensPerS, Sustained: p.Rates.Sustained, Bound: true}
	return p
}

// Step serves one minute of demand.
func (p *rolePools) Step(load Load) {
	before := p.Account().Saturated
	p.FluidPool.Step(load)
	p.prompts.Step(load)
	if p.Account().Saturated-before > 1 {
		p.both++
	}
}

// Account is what both roles cost, and how demand fared that needs both: minutes in which either was saturated, and requests that
// each served, as if those that one lost were others than the other's where that can be.
func (p *rolePools) Account() Account {
	sum, prompts := p.FluidPool.Account(), p.prompts.Account()
	sum.Saturated += prompts.Saturated - p.both
	sum.Met = max(sum.Met+prompts.Met-sum.Asked, 0)
	sum.GPUHours += prompts.GPUHours
	sum.Actions, sum.Reversed = sum.Actions+prompts.Actions, sum.Reversed+prompts.Reversed
	return sum
}

// obey scales a pool as decided.
func obey(pool simulated, d *alerting.Decision) {
	pool.SetDesired(d.Desired)
	if p, ok := pool.(*rolePools); ok && d.ByRole != nil {
		p.prompts.SetDesired(d.ByRole.Prefill)
	}
}
