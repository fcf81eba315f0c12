package plan

import (
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Resources of a sheet that are not of one replica.
const (
	Queue      = "queue"                   // requests that wait during a warm-up
	RateLimit  = "limits.requests_per_min" // of the whole pool; named as its configuration key, as the next
	TokenQuota = "limits.tokens_per_min"   // prompt and output
	Budget     = "budget"                  // $/h
)

// resource is one row of a sheet: to add one, add a row.
type resource struct {
	name, title, unit string
	// demand of a load.
	demand func(p *Pool, l Load) float64
	// whole is a limit of the whole pool, 0 if there is none; nil for resources of replicas.
	whole func(p *Pool) float64
	role  capacity.Role
}

var resources = []resource{
	{
		name: capacity.Requests, title: "requests/s", unit: "1/s",
		demand: func(_ *Pool, l Load) float64 { return l.Requests },
	},
	{
		name: capacity.Prefill, title: "prompt tokens/s to prefill", unit: "tokens/s", role: capacity.PrefillRole,
		demand: func(_ *Pool, l Load) float64 { return l.Prompt - l.Cached },
	},
	{
		name: capacity.Decode, title: "output tokens/s", unit: "tokens/s", role: capacity.DecodeRole,
		demand: func(_ *Pool, l Load) float64 { return l.Output },
	},
	{
		name: capacity.KV, title: "active KV tokens", unit: "tokens", role: capacity.DecodeRole,
		demand: func(p *Pool, l Load) float64 { return l.KV(p.Rates.PrefillTokensPerS, p.ITL.Seconds()) },
	},
	{
		name: capacity.Slots, title: "requests at once", unit: "requests", role: capacity.DecodeRole,
		demand: func(p *Pool, l Load) float64 { return l.Running(p.Rates.PrefillTokensPerS, p.ITL.Seconds()) },
	},
	{
		name: RateLimit, title: "requests/min, limit", unit: "1/min",
		demand: func(_ *Pool, l Load) float64 { return 60 * l.Requests },
		whole:  func(p *Pool) float64 { return p.Limits.RequestsPerMin },
	},
	{
		name: TokenQuota, title: "tokens/min, quota", unit: "tokens/min",
		demand: func(_ *Pool, l Load) float64 { return 60 * (l.Prompt + l.Output) },
		whole:  func(p *Pool) float64 { return p.Limits.TokensPerMin },
	},
}

// Pool is a pool and its present state.
type Pool struct {
	capacity.Pool
	Replicas int // now; in a disaggregated pool the decode replicas
	Prefill  int // prefill replicas of a disaggregated pool
	// Reported is the KV tokens that a replica carries, as the newest decision sized it: shared tokens count for each
	// request. 0 without a decision.
	Reported float64
	Lead     time.Duration // warm-up time that decisions use; 0 means the configured warm-up
	// WaitingPerReplica is the allowed number of waiting requests for each replica.
	WaitingPerReplica float64
}

// each is the capacity of one replica for a resource of replicas; 0 if unknown.
func (p *Pool) each(r *resource) float64 {
	if r.name == capacity.Slots {
		return float64(p.MaxNumSeqs)
	}
	per, _ := p.PerReplica(r.name, p.Reported)
	return per
}

// withReserves is n with the reserves of a role, at least its minimum; 0 for a role that the pool does not have.
func (p *Pool) withReserves(n number, role capacity.Role) number {
	if role == capacity.PrefillRole && !p.Disaggregated {
		return 0
	}
	return max(n+number(p.ReservesOf(role).Total()), number(p.BoundsOf(role).Min))
}

// replicas are those of a role, without lost ones.
func (p *Pool) replicas(role capacity.Role, lost int) int {
	n := p.Replicas
	if p.Disaggregated && role == capacity.PrefillRole {
		n = p.Prefill
	}
	return max(n-lost, 0)
}
