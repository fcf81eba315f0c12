package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/features"
)

// totals sums up the demand of a pool in the period: the pool first, then classes by name.
func (b *builder) totals(pool string) []Total {
	byClass := map[string]*Total{}
	of := func(class string) *Total {
		t := byClass[class]
		if t == nil {
			nan := Number(math.NaN())
			t = &Total{Class: class, Requests: nan, PromptTokens: nan, CachedTokens: nan, OutputTokens: nan}
			byClass[class] = t
		}
		return t
	}
	first, end := b.bounds()
	for k, values := range b.observed {
		if k.Pool != pool {
			continue
		}
		sum := sumOf(values[min(first, len(values)):min(end, len(values))])
		switch t := of(k.Class); k.dimension {
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
	for _, t := range byClass {
		t.PromptTokens.add(float64(t.CachedTokens))
	}
	out := make([]Total, 0, len(byClass))
	for _, t := range byClass {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(x, y Total) int {
		return cmp.Or(boolFirst(x.Class == features.TotalClass, y.Class == features.TotalClass), strings.Compare(x.Class, y.Class))
	})
	return out
}

// sumOf adds up minutes of rates per second, skipping unknown ones.
func sumOf(values []float64) Number {
	sum := Number(math.NaN())
	for _, perSecond := range values {
		sum.add(perSecond * features.Minute.Seconds())
	}
	return sum
}

// add adds v if it is known; a sum is known if one of its parts is.
func (n *Number) add(v float64) {
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
	sum.add(float64(t.PromptTokens))
	sum.add(float64(t.OutputTokens))
	return float64(sum)
}

func share(part, whole float64) float64 {
	if !(whole > 0) {
		return math.NaN()
	}
	return part / whole
}

// total is the pool's total; nil if unknown.
func (p *Pool) total() *Total {
	if len(p.Totals) == 0 || p.Totals[0].Class != features.TotalClass {
		return nil
	}
	return &p.Totals[0]
}
