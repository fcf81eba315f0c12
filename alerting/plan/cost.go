package plan

import (
	"slices"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Cost is what the pool costs with the replicas there are, at its mean traffic.
type Cost struct {
	Date    string `json:"prices_date,omitempty"`
	Region  string `json:"prices_region,omitempty"`
	GPUHour number `json:"usd_per_gpu_hour"`
	Hour    number `json:"usd_per_hour"`
	// Parts say what an hour is paid for; they add up to Hour.
	Parts []CostPart `json:"parts"`
	capacity.UnitPrices[number]

	// Who pays: the shares of each list add up to Hour.
	Classes  []Share `json:"classes,omitempty"`
	Features []Share `json:"features,omitempty"`
	Tenants  []Share `json:"tenants,omitempty"`
	Models   []Share `json:"models,omitempty"`
}

// CostPart is a part of the cost of an hour.
type CostPart struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Hour  number `json:"usd_per_hour"`
}

// Share is what one class or tenant pays of an hour's cost.
type Share struct {
	Name     string `json:"name"`
	Requests number `json:"share_of_requests"`
	Tokens   number `json:"share_of_tokens"`
	KV       number `json:"share_of_kv_seconds"`
	Cost     number `json:"share_of_cost"`
	Hour     number `json:"usd_per_hour"`
	capacity.UnitPrices[number]
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
	hour := each * float64(p.Replicas)
	if p.Disaggregated {
		hour += each * float64(p.Prefill)
	}
	mean := t.Mean()
	weights, all := p.weights(mean), p.work(Class{Load: mean, Calls: t.Calls})
	c := &Cost{
		Date: p.Prices.Date, Region: p.Prices.Region, GPUHour: number(p.GPUHourUSD), Hour: number(hour),
		Parts:      p.parts(mean, min(weights.Charge(p.work(Class{Load: t.Wasted}), all, 1).Total(), 1)),
		UnitPrices: capacity.PricesOf[number](weights.Charge(all, all, hour), all),
	}
	for _, x := range []struct {
		to   *[]Share
		from []Class
	}{{&c.Classes, t.Classes}, {&c.Features, t.Features}, {&c.Tenants, t.Tenants}, {&c.Models, t.Models}} {
		*x.to = p.shares(x.from, all, weights, hour)
	}
	return c
}

// parts divides the cost of an hour by what it is paid for, at a load of which a share is wasted: work, as far as it uses
// the binding resource of a role; reserves, as far as replicas are idle; and what is idle beyond them.
func (p *Pool) parts(l Load, wasted float64) (parts []CostPart) {
	add := func(name, title string, usd float64) {
		if usd == 0 {
			return
		}
		if i := slices.IndexFunc(parts, func(c CostPart) bool { return c.Name == name }); i >= 0 {
			parts[i].Hour += number(usd)
			return
		}
		parts = append(parts, CostPart{name, title, number(usd)})
	}
	roles := []capacity.Role{capacity.AnyRole}
	if p.Disaggregated {
		roles = append(roles, capacity.PrefillRole)
	}
	for _, role := range roles {
		idle := p.ReplicaHourUSD() * float64(p.replicas(role, 0))
		used := min(p.used(role, l), 1)
		work := used * idle
		add("served", "requests that were served", work*(1-wasted))
		add("wasted", "attempts that failed", work*wasted)
		idle -= work
		for _, r := range p.ReservesOf(role).Each() {
			kept := min(p.ReplicaHourUSD()*float64(r.Replicas), idle)
			add("reserve_"+r.Name, "idle reserve, kept "+r.For, kept)
			idle -= kept
		}
		if used > 0 {
			add("headroom", "idle beyond demand and reserves", idle)
		} else {
			add("unknown", "demand and headroom: the capacity is not known", idle)
		}
	}
	return parts
}

// work is what a class uses in an hour.
func (p *Pool) work(c Class) capacity.Work {
	const hour = 3600
	calls, l := c.of(c.Load), c.Load.Times(hour)
	w := capacity.Work{Calls: hour * calls.Calls, Served: hour * calls.Served, Prompt: l.Prompt, Fresh: l.Prompt - l.Cached, Output: l.Output}
	w.KVPrompt, w.KVOutput = l.kvParts(p.prefillRate(), p.itl())
	return w
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
// its use. By request count a document of 50,000 tokens would pay as much as a greeting.
func (p *Pool) shares(classes []Class, all capacity.Work, weights capacity.CostWeights, hour float64) (out []Share) {
	if len(classes) == 0 {
		return nil
	}
	payers := make([]capacity.Payer, len(classes))
	for i, c := range classes {
		payers[i] = capacity.Payer{Name: c.Name, Work: p.work(c)}
	}
	of := func(part, all float64) number {
		if all == 0 {
			return 0
		}
		return number(part / all)
	}
	for _, x := range weights.Bill(payers, all, hour, sharesShown) {
		out = append(out, Share{
			Name: x.Name, Requests: of(x.Work.Calls, all.Calls), Tokens: of(x.Work.Fresh+x.Work.Output, all.Fresh+all.Output),
			KV: of(x.Work.KVPrompt+x.Work.KVOutput, all.KVPrompt+all.KVOutput), Cost: of(x.Charge.Total(), hour), Hour: number(x.Charge.Total()),
			UnitPrices: capacity.PricesOf[number](x.Charge, x.Work),
		})
	}
	return out
}

// weights are the shares of a pool's cost that are paid for each resource: by how much of it l uses, in each role of a
// disaggregated pool by itself, for as much as its replicas are of all. All alike where no capacity is known.
func (p *Pool) weights(l Load) capacity.CostWeights {
	paid := [...]string{capacity.Prefill, capacity.Decode, capacity.KV}
	var weights [len(paid)]float64
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
	return capacity.CostWeights{Prefill: weights[0], Decode: weights[1], KV: weights[2]}
}

func resourceByName(name string) *resource {
	for i := range resources {
		if resources[i].name == name {
			return &resources[i]
		}
	}
	return nil
}
