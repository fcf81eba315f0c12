package alerting

import (
	"cmp"
	"slices"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// AdmissionLimit is the rate limit of one class that lets the classes above it keep their objective.
type AdmissionLimit struct {
	Class      string  `json:"class" cbor:"1,keyasint"`
	TokensPerS float64 `json:"tokens_per_s" cbor:"2,keyasint"` // prompt tokens to compute and output tokens
	Share      float64 `json:"share" cbor:"3,keyasint"`        // of the class's demand at the decision quantile
}

// classDemand is the demand of a class for the binding resource, and in tokens per second.
type classDemand struct {
	class      string
	demand     float64
	tokensPerS float64
}

// admission returns limits per class if a saturation cannot be averted: it comes before the lead time, or a bound of
// the pool blocks scaling; nil otherwise, and if the pool starts from zero, so that requests wait. If both roles of a
// disaggregated pool are short, the lower limit counts. The classes share the ready capacity. Their demand is taken at the
// decision quantile: at the median, important classes would exceed their part half of the time.
func (p *draft) admission() []AdmissionLimit {
	if p.forecastState != usable || p.FromZero {
		return nil
	}
	limits := p.admitted(&p.Decision, &p.own)
	if v := p.Prefilling(); v != nil {
		limits = lowerLimits(limits, p.admitted(v, &p.prefill))
	}
	return limits
}

// lowerLimits merges two lists, in the order of a and then b. A class in both gets the lower limit.
func lowerLimits(a, b []AdmissionLimit) []AdmissionLimit {
	for _, l := range b {
		if i := slices.IndexFunc(a, func(x AdmissionLimit) bool { return x.Class == l.Class }); i < 0 {
			a = append(a, l)
		} else if l.Share < a[i].Share {
			a[i] = l
		}
	}
	return a
}

// admitted is admission for the ready replicas of d's role.
func (p *draft) admitted(d *Decision, s *side) []AdmissionLimit {
	b := s.binding(d.Binding)
	if b == nil || b.evidence.Probability < p.cfg.AlertProbability || !d.late(b.evidence.ETA) && d.Needed <= d.Limit {
		return nil
	}
	var list []classDemand
	for i := range p.in.Forecast.Classes { // ordered by class
		f := &p.in.Forecast.Classes[i]
		if n := len(list); n == 0 || list[n-1].class != f.Class {
			list = append(list, classDemand{class: f.Class})
		}
		a, demand := &list[len(list)-1], largest(f, p.Quantile, forecaster.WindowMinutes(p.Lead))
		if f.Dimension == b.evidence.Dimension {
			a.demand = demand
		}
		if f.Dimension == features.DimPrefill || f.Dimension == features.DimDecode {
			a.tokensPerS += demand
		}
	}
	return shareCapacity(list, b.evidence.PerReplica*float64(s.supply.Ready), p.cfg.Priorities)
}

// shareCapacity gives capacity to the classes in the order of priorities; classes without a priority come last,
// together. If capacity does not suffice for a rank, all its classes get the same share of their demand. Classes that
// get all of it have no limit. O(n log n).
func shareCapacity(classes []classDemand, capacity float64, priorities []string) []AdmissionLimit {
	rank := func(class string) int {
		if i := slices.Index(priorities, class); i >= 0 {
			return i
		}
		return len(priorities)
	}
	slices.SortStableFunc(classes, func(a, b classDemand) int {
		return cmp.Or(cmp.Compare(rank(a.class), rank(b.class)), cmp.Compare(b.demand, a.demand))
	})
	var limits []AdmissionLimit
	for from := 0; from < len(classes); {
		to, sum := from, 0.0
		for to < len(classes) && rank(classes[to].class) == rank(classes[from].class) {
			sum += classes[to].demand
			to++
		}
		if sum > capacity {
			part := capacity / sum
			for _, a := range classes[from:to] {
				if a.demand > 0 {
					limits = append(limits, AdmissionLimit{a.class, a.tokensPerS * part, part})
				}
			}
		}
		capacity = max(capacity-sum, 0)
		from = to
	}
	return limits
}
