package report

import (
	"maps"
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/value"
)

// totals sums up the demand of a pool in the period: the pool first, then classes by name.
func (p *pool) totals() []Total {
	classes := map[string]bool{}
	for k := range p.demand {
		classes[k.class] = true
	}
	out := []Total{}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		sum := func(dimension string) Number {
			total, values := value.Unknown, p.demand[series{class, dimension}]
			for _, perSecond := range values[min(p.first, len(values)):] {
				add(&total, Number(perSecond*features.Minute.Seconds()))
			}
			return total
		}
		t := Total{
			Class: class, Requests: sum(features.DimRequests),
			PromptTokens: sum(features.DimPrefill), CachedTokens: sum(features.DimCached), OutputTokens: sum(features.DimDecode),
		}
		add(&t.PromptTokens, t.CachedTokens)
		place := len(out)
		if class == features.TotalClass {
			place = 0
		}
		out = slices.Insert(out, place, t)
	}
	return out
}

// add adds v if it is known; a sum is known if one of its parts is.
func add(n *Number, v Number) {
	if math.IsNaN(float64(*n)) {
		*n = v
	} else if !math.IsNaN(float64(v)) {
		*n += v
	}
}

// tokens is the sum of the known token counts; unknown if none is.
func (t *Total) tokens() Number {
	sum := t.PromptTokens
	add(&sum, t.OutputTokens)
	return sum
}
