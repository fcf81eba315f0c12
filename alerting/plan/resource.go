package plan

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// The resources of a sheet that are none of one replica's.
const (
	Queue      = "queue"                   // requests that wait while a replica warms up
	RateLimit  = "limits.requests_per_min" // of the whole pool, like the next named by their keys
	TokenQuota = "limits.tokens_per_min"   // prompt and output
	Budget     = "budget"                  // $/h
)

// resource is one row of a sheet: to add one, add a row.
type resource struct {
	name, title, unit string
	// demand of a load; NaN where it cannot be told.
	demand func(p *Pool, l Load) float64
	// each is what one replica carries, 0 unknown; nil for what replicas do not add to.
	each func(p *Pool) float64
	// whole is a limit of the whole pool, 0 none; nil for what replicas carry.
	whole func(p *Pool) float64
	role  capacity.Role
}

var resources = []resource{
	{
		name: capacity.Requests, title: "requests/s", unit: "1/s",
		demand: func(_ *Pool, l Load) float64 { return l.Requests },
		each:   func(p *Pool) float64 { return p.each(capacity.Requests) },
	},
	{
		name: capacity.Prefill, title: "prompt tokens/s to prefill", unit: "tokens/s", role: capacity.PrefillRole,
		demand: func(_ *Pool, l Load) float64 { return l.Prompt - l.Cached },
		each:   func(p *Pool) float64 { return p.each(capacity.Prefill) },
	},
	{
		name: capacity.Transfer, title: "KV tokens/s to transfer", unit: "tokens/s", role: capacity.PrefillRole,
		demand: func(_ *Pool, l Load) float64 { return l.Prompt },
		each:   func(p *Pool) float64 { return p.each(capacity.Transfer) },
	},
	{
		name: capacity.Decode, title: "output tokens/s", unit: "tokens/s", role: capacity.DecodeRole,
		demand: func(_ *Pool, l Load) float64 { return l.Output },
		each:   func(p *Pool) float64 { return p.each(capacity.Decode) },
	},
	{
		name: capacity.KV, title: "active KV tokens", unit: "tokens", role: capacity.DecodeRole,
		demand: func(p *Pool, l Load) float64 { return l.KV(p.prefillRate(), p.itl()) },
		each:   func(p *Pool) float64 { return p.each(capacity.KV) },
	},
	{
		name: capacity.Slots, title: "requests at once", unit: "requests", role: capacity.DecodeRole,
		demand: func(p *Pool, l Load) float64 { return l.Running(p.prefillRate(), p.itl()) },
		each:   func(p *Pool) float64 { return float64(p.Rates.MaxNumSeqs) },
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

// carriedBy says whether the replicas of a role of a disaggregated pool carry r: those that decode carry what no role is named for.
func (r *resource) carriedBy(role capacity.Role) bool {
	return (r.role == capacity.PrefillRole) == (role == capacity.PrefillRole)
}

// Pool is the pool that a sheet is of, and how it stands.
type Pool struct {
	capacity.Pool
	Replicas int           // there are now; in a disaggregated pool the decode replicas
	Prefill  int           // prefill replicas of a disaggregated pool
	Reported int           // KV cache of a replica in tokens as engines report it; 0 when they do not
	Lead     time.Duration // from asking to ready, as decisions have it; 0 follows from the configured warm-up
	// WaitingPerReplica is how many requests may wait for each.
	WaitingPerReplica float64
}

func (p *Pool) each(dimension string) float64 {
	per, ok := p.PerReplica(dimension, float64(p.Reported))
	if !ok {
		return 0
	}
	return per
}

// prefillRate is the rate at which one prompt is computed; 0 unknown.
func (p *Pool) prefillRate() float64 { return p.Rates.PrefillTokensPerS }

func (p *Pool) itl() float64 { return p.Rates.ITL.Seconds() }

// kept is how many replicas of a role n that demand takes come to: with its reserves, and at least as many as there must be; none
// of a role that the pool does not have.
func (p *Pool) kept(n int, role capacity.Role) int {
	if role == capacity.PrefillRole && !p.Disaggregated {
		return 0
	}
	return max(n+p.ReservesOf(role).Total(), p.BoundsOf(role).Min)
}

// replicas that carry a resource, of which lost are gone.
func (p *Pool) replicas(role capacity.Role, lost int) int {
	n := p.Replicas
	if p.Disaggregated && role == capacity.PrefillRole {
		n = p.Prefill
	}
	return max(n-lost, 0)
}

// ceilReplicas is how many replicas of each carry demand.
func ceilReplicas(demand, each float64) int {
	return int(min(math.Ceil(demand/each-1e-9), maxReplicas))
}

// maxReplicas bounds a computed number of replicas.
const maxReplicas = 1_000_000
