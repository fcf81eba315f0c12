package capacity

import (
	"cmp"
	"math"
	"slices"
)

// Work is the use of a pool by requests: a sum over some time, or a rate a second.
type Work struct {
	Calls                 float64 // requests, each once however often it was tried
	Served                float64 // of Calls; NaN when unknown
	Prompt, Fresh, Output float64 // tokens of all attempts; Fresh is the part of Prompt that was not cached
	KVPrompt, KVOutput    float64 // KV token-seconds that prompts and outputs hold
}

// fields of w, to add and compare.
func (w *Work) fields() [7]*float64 {
	return [...]*float64{&w.Calls, &w.Served, &w.Prompt, &w.Fresh, &w.Output, &w.KVPrompt, &w.KVOutput}
}

// join applies op to each field of both.
func (w Work) join(o Work, op func(a, b float64) float64) Work {
	others := o.fields()
	for i, f := range w.fields() {
		*f = op(*f, *others[i])
	}
	return w
}

// Plus is the sum of both.
func (w Work) Plus(o Work) Work { return w.join(o, func(a, b float64) float64 { return a + b }) }

// Times is k times the work.
func (w Work) Times(k float64) Work { return w.join(w, func(a, _ float64) float64 { return k * a }) }

// rest is w minus parts, at least zero.
func (w Work) rest(parts Work) Work {
	return w.join(parts, func(a, b float64) float64 { return max(a-b, 0) })
}

// CostWeights are the shares of a cost for computed prompt tokens, for output tokens, and for KV token-seconds.
type CostWeights struct{ Prefill, Decode, KV float64 }

// Charge is the price of prompts and of outputs.
type Charge struct{ Prompt, Output float64 }

// Total is both together.
func (c Charge) Total() float64 { return c.Prompt + c.Output }

// Charge is the part's share of the cost of all. It is proportional to the use of each resource, not to the number of
// requests. A prompt pays for its computation, an output for its tokens, and each for the KV cache that it holds. The
// charges of parts that sum to all sum to the cost.
func (w CostWeights) Charge(part, all Work, cost float64) Charge {
	var c Charge
	kv, used := all.KVPrompt+all.KVOutput, 0.
	for _, x := range []struct {
		weight, of, all float64
		to              *float64
	}{
		{w.Prefill, part.Fresh, all.Fresh, &c.Prompt}, {w.Decode, part.Output, all.Output, &c.Output},
		{w.KV, part.KVPrompt, kv, &c.Prompt}, {w.KV, part.KVOutput, kv, &c.Output},
	} {
		if x.all > 0 {
			*x.to += x.weight * x.of / x.all * cost
		}
	}
	for _, x := range [][2]float64{{w.Prefill, all.Fresh}, {w.Decode, all.Output}, {w.KV, kv}} {
		if x[1] > 0 {
			used += x[0] // the cost of unused resources is divided like the rest
		}
	}
	if used > 0 {
		return Charge{c.Prompt / used, c.Output / used}
	}
	if all.Calls > 0 {
		return Charge{Prompt: part.Calls / all.Calls * cost} // no resource is known
	}
	return Charge{}
}

// rounding is the tolerated rounding error of the payers' sum, as a share of all requests and tokens.
const rounding = 1e-3

// Payer is who pays a part of a cost.
type Payer struct {
	Name   string
	Work   Work
	Charge Charge
}

// Bill divides the cost of all among the payers of the limit largest charges, largest first, and "others": the other
// payers and work without a payer. The charges sum to the cost. It is nil without work.
func (w CostWeights) Bill(payers []Payer, all Work, cost float64, limit int) []Payer {
	var sum Work
	for _, p := range payers {
		sum = sum.Plus(p.Work)
	}
	rest := all.rest(sum)
	if rest.Calls <= rounding*all.Calls && rest.Prompt+rest.Output <= rounding*(all.Prompt+all.Output) {
		rest = Work{}
	}
	all = rest.Plus(sum)
	if w.Charge(all, all, 1) == (Charge{}) {
		return nil
	}
	total := func(p Payer) float64 { return w.Charge(p.Work, all, cost).Total() }
	payers = slices.Clone(payers)
	slices.SortStableFunc(payers, func(a, b Payer) int { return cmp.Compare(total(b), total(a)) })
	for _, p := range payers[min(len(payers), limit):] {
		rest = rest.Plus(p.Work)
	}
	payers = payers[:min(len(payers), limit)]
	if rest != (Work{}) {
		payers = append(payers, Payer{Name: "others", Work: rest})
	}
	for i := range payers {
		payers[i].Charge = w.Charge(payers[i].Work, all, cost)
	}
	return payers
}

// UnitPrices are the prices of a unit of work in dollars; NaN without work or when unknown.
type UnitPrices[N ~float64] struct {
	Request      N `json:"usd_per_request"`
	Served       N `json:"usd_per_served_request"`
	PromptTokens N `json:"usd_per_1k_prompt_tokens"`
	OutputTokens N `json:"usd_per_1k_output_tokens"`
}

// PricesOf are the unit prices of work that costs c.
func PricesOf[N ~float64](c Charge, w Work) UnitPrices[N] {
	per := func(cost, units float64) N {
		if !(units > 0) {
			return N(math.NaN())
		}
		return N(cost / units)
	}
	return UnitPrices[N]{per(c.Total(), w.Calls), per(c.Total(), w.Served), 1000 * per(c.Prompt, w.Prompt), 1000 * per(c.Output, w.Output)}
}
