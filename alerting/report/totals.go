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
			values := p.demand[series{class, dimension}]
			return sumOf(values[min(p.first, len(values)):])
		}
		t := Total{Class: class, Requests: sum(features.DimRequests), PromptTokens: sum(features.DimPrefill), CachedTokens: sum(features.DimCached), OutputTokens: sum(features.DimDecode)}
		add(&t.PromptTokens, t.CachedTokens)
		if class == features.TotalClass {
			out = slices.Insert(out, 0, t)
		} else {
			out = append(out, t)
		}
	}
	return out
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
