package alerting

import (
	"cmp"
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// AdmissionLimit is what one class may be let in, so that the classes above it keep their objective.
type AdmissionLimit struct {
	Class      string  `json:"class" cbor:"1,keyasint"`        // features.OverflowClass for those not listed
	TokensPerS float64 `json:"tokens_per_s" cbor:"2,keyasint"` // prompt tokens to compute and output tokens
	Share      float64 `json:"share" cbor:"3,keyasint"`        // of what the class would ask for
}

// maxAdmissionLimits bounds the classes that have a limit of their own: the heaviest. The others share one.
const maxAdmissionLimits = 32

// asked is what a class will ask for: of the resource that runs out, and in tokens per second.
type asked struct {
	class      string
	demand     float64
	tokensPerS float64
}

// admission is per-class limits for a saturation that cannot be averted: that is nearer than the lead, or that a bound of
// the pool keeps from being averted; nil otherwise. What is ready now is what there is to share.
func (p *plan) admission(d *Decision, cfg Config) []AdmissionLimit {
	b := p.binding()
	if b == nil || p.blind != sighted || d.Probability < cfg.AlertProbability {
		return nil
	}
	late := d.ETA.P50 != forecaster.Never && d.ETA.P50 < d.Lead
	if !late && d.Needed <= d.Limit {
		return nil
	}
	n := minutes(p.lead)
	classes := map[string]*asked{}
	var list []*asked
	for i := range p.in.Forecast.Classes {
		f := &p.in.Forecast.Classes[i]
		most, ok := largest(f, 0.5, n)
		if !ok {
			continue
		}
		a := classes[f.Class]
		if a == nil {
			a = &asked{class: f.Class}
			classes[f.Class] = a
			list = append(list, a)
		}
		if f.Dimension == b.evidence.Dimension {
			a.demand = most
		}
		if f.Dimension == features.DimPrefill || f.Dimension == features.DimDecode {
			a.tokensPerS += most
		}
	}
	return share(heaviest(list), b.evidence.PerReplica*float64(p.supply.Ready), cfg.Priorities)
}

// heaviest are the classes by demand, those beyond maxAdmissionLimits as one.
func heaviest(list []*asked) (out []asked) {
	slices.SortStableFunc(list, func(a, b *asked) int { return cmp.Or(cmp.Compare(b.demand, a.demand), cmp.Compare(a.class, b.class)) })
	for i, a := range list {
		switch {
		case i < maxAdmissionLimits:
			out = append(out, *a)
		case i == maxAdmissionLimits:
			out = append(out, asked{features.OverflowClass, a.demand, a.tokensPerS})
		default:
			rest := &out[maxAdmissionLimits]
			rest.demand += a.demand
			rest.tokensPerS += a.tokensPerS
		}
	}
	return out
}

// share hands capacity to the classes in the order of priorities, those not named last and together. Within the rank at
// which it runs out, all get the same share of what they ask for; what gets all it asks for has no limit. O(n log n).
func share(classes []asked, capacity float64, priorities []string) []AdmissionLimit {
	rank := func(class string) int {
		if i := slices.Index(priorities, class); i >= 0 {
			return i
		}
		return len(priorities)
	}
	slices.SortStableFunc(classes, func(a, b asked) int { return cmp.Compare(rank(a.class), rank(b.class)) })
	var limits []AdmissionLimit
	for from := 0; from < len(classes); {
		to, sum := from, 0.0
		for to < len(classes) && rank(classes[to].class) == rank(classes[from].class) {
			sum += classes[to].demand
			to++
		}
		if sum > capacity {
			part := max(capacity, 0) / sum
			for _, a := range classes[from:to] {
				if a.demand > 0 {
					limits = append(limits, AdmissionLimit{a.class, a.tokensPerS * part, part})
				}
			}
		}
		capacity -= math.Min(sum, capacity)
		from = to
	}
	return limits
}
