package plan

import "github.com/forewarm/forewarm/forecaster/capacity"

// Cost is the cost of the present replicas, at the pool's mean traffic.
type Cost struct {
	Date    string `json:"prices_date,omitempty"`
	Region  string `json:"prices_region,omitempty"`
	GPUHour number `json:"usd_per_gpu_hour"`
	Hour    number `json:"usd_per_hour"`
	capacity.UnitPrices[number]

	Classes []Share `json:"classes,omitempty"` // shares of Hour, by class; they add up to it
	Tenants []Share `json:"tenants,omitempty"` // the same by tenant
}

// Share is the part of an hour's cost of one class or tenant.
type Share struct {
	Name string `json:"name"`
	Cost number `json:"share_of_cost"`
	Hour number `json:"usd_per_hour"`
	capacity.UnitPrices[number]
}

// sharesShown bounds the listed classes and tenants; the rest are summed up.
const sharesShown = 20

// costOf returns nil without a price.
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

// work is the resources that a class uses in an hour.
func (p *Pool) work(c Class) capacity.Work {
	const hour = 3600
	calls, l := c.of(c.Load), c.Load.Times(hour)
	w := capacity.Work{Calls: hour * calls.Calls, Served: hour * calls.Served, Prompt: l.Prompt, Fresh: l.Prompt - l.Cached, Output: l.Output}
	w.KVPrompt, w.KVOutput = l.kvParts(p.prefillRate(), p.itl())
	return w
}

// shares divides an hour's cost among classes. Each resource (prefill tokens, output tokens, KV-seconds) is charged by
// its weight, and each class in proportion to its use. By request count a document of 50,000 tokens would cost as much
// as a greeting.
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

// weights are the shares of a pool's cost for each resource: in proportion to its use by l. In a disaggregated pool
// each role has the share of its replicas. Equal if no capacity is known.
func (p *Pool) weights(l Load) capacity.CostWeights {
	paid := [...]string{capacity.Prefill, capacity.Decode, capacity.KV}
	var weights [len(paid)]float64
	all := p.Replicas
	if p.Disaggregated {
		all += p.Prefill
	}
	sum, known := map[bool]float64{}, 0. // by whether the role is prefill
	isPrefill := func(r *resource) bool { return p.Disaggregated && r.servedBy(capacity.PrefillRole) }
	for i, name := range paid {
		r := resourceByName(name)
		if have := r.each(p) * float64(p.replicas(r.role, 0)); have > 0 {
			weights[i] = r.demand(p, l) / have
			sum[isPrefill(r)] += weights[i]
		}
	}
	for i, name := range paid {
		if r := resourceByName(name); sum[isPrefill(r)] > 0 {
			weights[i] *= float64(p.replicas(r.role, 0)) / float64(all) / sum[isPrefill(r)]
			known += weights[i]
		}
	}
	for i := range weights {
		if known > 0 {
			weights[i] /= known // a role without a known capacity is charged to the other
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
