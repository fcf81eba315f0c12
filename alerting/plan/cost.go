package plan

import "github.com/forewarm/forewarm/forecaster/capacity"

// Cost is what the pool costs with the replicas there are, at its mean traffic.
type Cost struct {
	Date    string `json:"prices_date,omitempty"`
	Region  string `json:"prices_region,omitempty"`
	GPUHour number `json:"usd_per_gpu_hour"`
	Hour    number `json:"usd_per_hour"`
	capacity.UnitPrices[number]

	// Who pays: the shares of each list add up to Hour.
	Classes []Share `json:"classes,omitempty"`
	Tenants []Share `json:"tenants,omitempty"`
}

// Share is what one class or tenant pays of an hour's cost.
type Share struct {
	Name string `json:"name"`
	Cost number `json:"share_of_cost"`
	Hour number `json:"usd_per_hour"`
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
	return &Cost{
		Date: p.Prices.Date, Region: p.Prices.Region, GPUHour: number(p.GPUHourUSD), Hour: number(hour),
		UnitPrices: capacity.PricesOf[number](weights.Charge(all, all, hour), all),
		Classes:    p.shares(t.Classes, all, weights, hour), Tenants: p.shares(t.Tenants, all, weights, hour),
	}
}

// work is what a class uses in an hour.
func (p *Pool) work(c Class) capacity.Work {
	const hour = 3600
	calls, l := c.of(c.Load), c.Load.Times(hour)
	w := capacity.Work{Calls: hour * calls.Calls, Served: hour * calls.Served, Prompt: l.Prompt, Fresh: l.Prompt - l.Cached, Output: l.Output}
	w.KVPrompt, w.KVOutput = l.kvParts(p.prefillRate(), p.itl())
	return w
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
	for _, x := range weights.Bill(payers, all, hour, sharesShown) {
		charge := x.Charge.Total()
		out = append(out, Share{Name: x.Name, Cost: number(charge / hour), Hour: number(charge), UnitPrices: capacity.PricesOf[number](x.Charge, x.Work)})
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
