package plan

import (
	"slices"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Cost is what the pool costs with the replicas there are, at its mean traffic.
type Cost struct {
	Date        string `json:"prices_date,omitempty"`
	Region      string `json:"prices_region,omitempty"`
	GPUHour     number `json:"usd_per_gpu_hour"`
	Hour        number `json:"usd_per_hour"`
	PerThousand number `json:"usd_per_1k_requests"`
	PerServed   number `json:"usd_per_served_request"` // failed ones pay nothing and are paid for
	Reserve     number `json:"usd_per_hour_reserve"`   // of replicas kept for failure, failover, rollout and bursts, of each role
	Headroom    number `json:"usd_per_hour_headroom"`  // of capacity beyond demand and reserve, at the binding resource of each role
	Failed      number `json:"usd_per_hour_failed"`    // of attempts that failed or were repeated

	Classes []Share `json:"classes,omitempty"`
	Tenants []Share `json:"tenants,omitempty"`
}

// Share is what one class or tenant pays of an hour's cost.
type Share struct {
	Name     string `json:"name"`
	Requests number `json:"share_of_requests"`
	Tokens   number `json:"share_of_tokens"`
	KV       number `json:"share_of_kv_seconds"`
	Cost     number `json:"share_of_cost"`
	Hour     number `json:"usd_per_hour"`
}

// sharesShown bounds the classes and tenants listed; the rest are added up.
const sharesShown = 20

// costOf is nil without a price.
func costOf(in *Input) *Cost {
	p, t := &in.Pool, &in.Traffic
	each := p.ReplicaHourUSD()
	if each <= 0 {
		return nil
	}
	hour, roles := each*float64(p.Replicas), []capacity.Role{capacity.AnyRole}
	if p.Disaggregated {
		hour, roles = hour+each*float64(p.Prefill), append(roles, capacity.PrefillRole)
	}
	mean := t.Mean()
	c := &Cost{
		Date: p.Prices.Date, Region: p.Prices.Region, GPUHour: number(p.GPUHourUSD), Hour: number(hour), PerThousand: unknown, PerServed: unknown,
		Headroom: unknown,
		Failed:   number(hour * min(t.Failed+t.Retried, 1)),
	}
	if perHour := mean.Requests * 3600; perHour > 0 {
		c.PerThousand = number(hour / perHour * 1000)
		if served := perHour * (1 - t.Failed); served > 0 {
			c.PerServed = number(hour / served)
		}
	}
	idle, known := 0., true
	for _, role := range roles {
		have := p.replicas(role, 0)
		reserve := each * float64(min(p.ReservesOf(role).Total(), have))
		used := p.used(role, mean)
		c.Reserve += number(reserve)
		idle, known = idle+max(each*float64(have)*(1-used)-reserve, 0), known && used > 0
	}
	if known {
		c.Headroom = number(idle)
	}
	c.Classes = shares(p, t.Classes, hour)
	c.Tenants = shares(p, t.Tenants, hour)
	return c
}

// used is the share of the replicas of a role that l uses, of the resource of which it uses most; 0 where no capacity is known.
func (p *Pool) used(role capacity.Role, l Load) (share float64) {
	for i := range resources {
		r := &resources[i]
		if r.each == nil || p.Disaggregated && !r.carriedBy(role) {
			continue
		}
		if have := r.each(p) * float64(p.replicas(r.role, 0)); have > 0 {
			share = max(share, r.demand(p, l)/have)
		}
	}
	return share
}

// shares divides an hour's cost among classes: each resource (tokens to prefill, tokens to generate, KV-seconds) weighs as
// much as the pool uses of it, in a disaggregated pool within what the role costs that carries it, and is paid for in proportion to
// its use. By request count a document of 50,000 tokens would
// pay as much as a greeting.
func shares(p *Pool, classes []Class, hour float64) []Share {
	if len(classes) == 0 {
		return nil
	}
	var total Load
	for _, c := range classes {
		total = total.Plus(c.Load)
	}
	weights := p.weights(total)
	part := func(of, all float64) float64 {
		if all == 0 {
			return 0
		}
		return of / all
	}
	var out []Share
	for _, c := range classes {
		s := Share{
			Name: c.Name, Requests: number(part(c.Load.Requests, total.Requests)),
			Tokens: number(part(c.Load.Prompt-c.Load.Cached+c.Load.Output, total.Prompt-total.Cached+total.Output)),
			KV:     number(part(c.Load.KV(p.prefillRate(), p.itl()), total.KV(p.prefillRate(), p.itl()))),
		}
		for i, name := range paid {
			r := resourceByName(name)
			s.Cost += number(weights[i] * part(r.demand(p, c.Load), r.demand(p, total)))
		}
		s.Hour = s.Cost * number(hour)
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Share) int {
		switch {
		case a.Cost > b.Cost:
			return -1
		case a.Cost < b.Cost:
			return 1
		}
		return 0
	})
	if len(out) > sharesShown {
		rest := Share{Name: "others"}
		for _, s := range out[sharesShown-1:] {
			rest.Requests += s.Requests
			rest.Tokens += s.Tokens
			rest.KV += s.KV
			rest.Cost += s.Cost
			rest.Hour += s.Hour
		}
		out = append(out[:sharesShown-1:sharesShown-1], rest)
	}
	return out
}

// paid are the resources that classes pay for.
var paid = []string{capacity.Prefill, capacity.Decode, capacity.KV}

// weights are the shares of a pool's cost that are paid for each of paid: by how much of it l uses, in each role of a disaggregated
// pool by itself, for as much as its replicas are of all. All alike where no capacity is known.
func (p *Pool) weights(l Load) []float64 {
	weights := make([]float64, len(paid))
	all := p.Replicas
	if p.Disaggregated {
		all += p.Prefill
	}
	sum, known := map[bool]float64{}, 0. // by whether it is of prefill replicas
	apart := func(r *resource) bool { return p.Disaggregated && r.carriedBy(capacity.PrefillRole) }
	for i, name := range paid {
		r := resourceByName(name)
		if have := r.each(p) * float64(p.replicas(r.role, 0)); have > 0 {
			weights[i] = r.demand(p, l) / have
			sum[apart(r)] += weights[i]
		}
	}
	for i, name := range paid {
		if r := resourceByName(name); sum[apart(r)] > 0 {
			weights[i] *= float64(p.replicas(r.role, 0)) / float64(all) / sum[apart(r)]
			known += weights[i]
		}
	}
	for i := range weights {
		if known > 0 {
			weights[i] /= known // a role without a known capacity is paid for as the other
		} else {
			weights[i] = 1 / float64(len(weights))
		}
	}
	return weights
}

func resourceByName(name string) *resource {
	for i := range resources {
		if resources[i].name == name {
			return &resources[i]
		}
	}
	return nil
}
