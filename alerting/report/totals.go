package report

import (
	"maps"
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/value"
)

// totals sums up the demand of a pool in the period, and divides the cost of what was paid: the pool first, then
// classes by name.
func (p *pool) totals(paidUSD Number) []Total {
	classes := map[string]bool{}
	for k := range p.demand {
		classes[k.class] = true
	}
	share := p.costShares()
	out := []Total{}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		sum := func(dimension string) Number {
			values := p.demand[series{class, dimension}]
			return sumOf(values[min(p.first, len(values)):])
		}
		t := Total{Class: class, Requests: sum(features.DimRequests), PromptTokens: sum(features.DimPrefill), CachedTokens: sum(features.DimCached), OutputTokens: sum(features.DimDecode)}
		add(&t.PromptTokens, t.CachedTokens)
		t.CostShare = share(class)
		t.ServedUSD = Number(value.Share(float64(t.CostShare*paidUSD), 60*p.used(series{class, features.DimServed})))
		if class == features.TotalClass {
			out = slices.Insert(out, 0, t)
		} else {
			out = append(out, t)
		}
	}
	return out
}

// used sums up a demand over the minutes with known load.
func (p *pool) used(s series) (sum float64) {
	values := p.demand[s]
	for m := p.first; m < len(values); m++ {
		if !math.IsNaN(p.minutes[m].replicas) {
			sum += zeroIfUnknown(values[m])
		}
	}
	return sum
}

// costShares returns the share of a class in the cost: of each resource its share of the use, and resources in
// proportion to the replica-minutes that each alone takes.
func (p *pool) costShares() func(class string) Number {
	weights := map[string]float64{}
	for m := p.first; m < p.end; m++ {
		if math.IsNaN(p.minutes[m].replicas) {
			continue
		}
		for _, r := range p.minutes[m].tick.resources {
			if r.perReplica > 0 {
				weights[r.dimension] += zeroIfUnknown(p.loadOf(r.dimension, m)) / r.perReplica
			}
		}
	}
	use := func(class, dimension string) float64 {
		wasted := map[string]string{features.DimPrefill: features.DimWastedPrefill, features.DimDecode: features.DimWastedDecode}[dimension]
		return p.used(series{class, dimension}) + p.used(series{class, wasted})
	}
	dimensions := slices.Sorted(maps.Keys(weights)) // sums must not depend on the order of a map
	return func(class string) Number {
		part, all := 0., 0.
		for _, d := range dimensions {
			if whole := use(features.TotalClass, d); whole > 0 {
				part, all = part+weights[d]*use(class, d)/whole, all+weights[d]
			}
		}
		return Number(value.Share(part, all))
	}
}

// sumOf adds up minutes of rates per second, skipping unknown ones.
func sumOf(values []float64) Number {
	sum := value.Unknown
	for _, perSecond := range values {
		add(&sum, Number(perSecond*features.Minute.Seconds()))
	}
	return sum
}

// add adds v if it is known; a sum is known if one of its parts is.
func add(n *Number, v Number) {
	switch {
	case math.IsNaN(float64(v)):
	case math.IsNaN(float64(*n)):
		*n = v
	default:
		*n += v
	}
}

func zeroIfUnknown(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// tokens is the sum of the known token counts; unknown if none is.
func (t *Total) tokens() Number {
	sum := value.Unknown
	add(&sum, t.PromptTokens)
	add(&sum, t.OutputTokens)
	return sum
}
