package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/features"
	rates "github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// Cost divides the cost of replicas. See the package comment for each definition.
type Cost struct {
	rates.UnitPrices[Number]

	// The shares add up to Provision.Paid.
	Classes []CostShare `json:"classes"`
}

// CostShare is the share of a class.
type CostShare struct {
	Name  string `json:"name"`
	Share Number `json:"share"`
	Amount
	rates.UnitPrices[Number]
}

// payersShown bounds the listed classes of a pool; the others are summed up.
const payersShown = 20

// amount converts replica-minutes.
func (v *Provision) amount(replicaMinutes float64) Amount {
	hours := Number(replicaMinutes / 60)
	a := Amount{ReplicaHours: hours, GPUHours: value.Unknown, USD: hours * v.ReplicaHourUSD}
	if v.GPUsPerReplica > 0 {
		a.GPUHours = hours * Number(v.GPUsPerReplica)
	}
	return a
}

// costs divides what was paid in the minutes with known demand, capacity and replicas.
func (b *builder) costs(pool string, v *Provision) (c Cost) {
	var weights rates.CostWeights // replica-minutes that each resource alone needed
	known := make([]bool, b.end)
	b.eachMinute(pool, b.first, func(t *tick, minute int) {
		if b.load(pool, t, minute).needed() == unknownNeed {
			return
		}
		known[minute] = true
		for _, x := range t.capacities {
			if use := zeroIfUnknown(b.loadOf(pool, x.dimension, minute)) / x.perReplica; x.perReplica > 0 {
				switch x.dimension {
				case features.DimPrefill:
					weights.Prefill += use
				case features.DimDecode:
					weights.Decode += use
				case features.DimKV:
					weights.KV += use
				}
			}
		}
	})

	paid := 60 * zeroIfUnknown(float64(v.Paid.ReplicaHours)) // replica-minutes
	usd := float64(v.amount(paid).USD)
	whole := b.work(features.Key{Pool: pool, Class: features.TotalClass}, known)
	var classes []rates.Payer
	for _, k := range slices.SortedFunc(maps.Keys(b.observed), func(x, y seriesKey) int { return x.Compare(y.Key) }) {
		if k.Pool != pool || k.Class == features.TotalClass || k.dimension != features.DimRequests {
			continue
		}
		classes = append(classes, rates.Payer{Name: k.Class, Work: b.work(k.Key, known)})
	}
	c.UnitPrices = rates.PricesOf[Number](weights.Charge(whole, whole, usd), whole)
	c.Classes = v.shares(classes, whole, weights, paid)
	return c
}

// work is the use of a class in the known minutes, failed attempts included.
func (b *builder) work(key features.Key, known []bool) rates.Work {
	sum := func(dimension string) float64 {
		values, ok := b.observed[seriesKey{key, dimension}]
		if !ok {
			return math.NaN()
		}
		total := 0.
		for m, v := range values[:min(len(values), len(known))] {
			if known[m] {
				total += zeroIfUnknown(v) * features.Minute.Seconds()
			}
		}
		return total
	}
	counted := func(dimension string) float64 { return zeroIfUnknown(sum(dimension)) }
	prompt, output := counted(features.DimWastedPrefill), counted(features.DimWastedDecode)
	w := rates.Work{Fresh: counted(features.DimPrefill) + prompt, Output: counted(features.DimDecode) + output, KVPrompt: counted(features.DimKV)}
	if wasted := prompt + output; wasted > 0 && w.Fresh+w.Output > wasted {
		w.KVPrompt *= (w.Fresh + w.Output) / (w.Fresh + w.Output - wasted)
	}
	w.Prompt = w.Fresh + counted(features.DimCached)
	// A request holds its prompt and on average half of its output.
	if held := w.Prompt + w.Output/2; held > 0 {
		w.KVPrompt, w.KVOutput = w.KVPrompt*w.Prompt/held, w.KVPrompt*w.Output/2/held
	}
	w.Calls, w.Served = counted(features.DimRequests), sum(features.DimServed)
	return w
}

// shares are the parts of replica-minutes of the payers and others.
func (v *Provision) shares(payers []rates.Payer, whole rates.Work, weights rates.CostWeights, paid float64) []CostShare {
	out := []CostShare{}
	for _, x := range weights.Bill(payers, whole, paid, payersShown) {
		price := float64(v.ReplicaHourUSD) / 60
		out = append(out, CostShare{x.Name, Number(value.Share(x.Charge.Total(), paid)), v.amount(x.Charge.Total()),
			rates.PricesOf[Number](rates.Charge{Prompt: x.Charge.Prompt * price, Output: x.Charge.Output * price}, x.Work)})
	}
	return out
}

// classShare is the share of a class; unknown if it is among the others.
func (c *Cost) classShare(class string) CostShare {
	if i := slices.IndexFunc(c.Classes, func(x CostShare) bool { return x.Name == class }); i >= 0 {
		return c.Classes[i]
	}
	nan := value.Unknown
	return CostShare{Share: nan, UnitPrices: rates.UnitPrices[Number]{Request: nan, Served: nan, PromptTokens: nan, OutputTokens: nan}}
}

// totals sums up the demand of a pool in the period: the pool first, then classes by name.
func (b *builder) totals(pool string) []Total {
	byClass := map[string]*Total{}
	for k, values := range b.observed {
		if k.Pool != pool {
			continue
		}
		sum := sumOf(values[min(b.first, len(values)):min(b.end, len(values))])
		t := byClass[k.Class]
		if t == nil {
			nan := value.Unknown
			t = &Total{Class: k.Class, Requests: nan, PromptTokens: nan, CachedTokens: nan, OutputTokens: nan}
			byClass[k.Class] = t
		}
		switch k.dimension {
		case features.DimRequests:
			t.Requests = sum
		case features.DimPrefill:
			t.PromptTokens = sum // without cached tokens, which are added below
		case features.DimCached:
			t.CachedTokens = sum
		case features.DimDecode:
			t.OutputTokens = sum
		}
	}
	out := make([]Total, 0, len(byClass))
	for _, t := range byClass {
		add(&t.PromptTokens, float64(t.CachedTokens))
		out = append(out, *t)
	}
	slices.SortFunc(out, func(x, y Total) int {
		return cmp.Or(boolFirst(x.Class == features.TotalClass, y.Class == features.TotalClass), strings.Compare(x.Class, y.Class))
	})
	return out
}

// sumOf adds up minutes of rates per second, skipping unknown ones.
func sumOf(values []float64) Number {
	sum := value.Unknown
	for _, perSecond := range values {
		add(&sum, perSecond*features.Minute.Seconds())
	}
	return sum
}

// add adds v if it is known; a sum is known if one of its parts is.
func add(n *Number, v float64) {
	switch {
	case math.IsNaN(v):
	case math.IsNaN(float64(*n)):
		*n = Number(v)
	default:
		*n += Number(v)
	}
}

// tokens is the sum of known token counts.
func (t *Total) tokens() float64 {
	sum := Number(0)
	add(&sum, float64(t.PromptTokens))
	add(&sum, float64(t.OutputTokens))
	return float64(sum)
}
