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
	Class      string  `json:"class" cbor:"1,keyasint"`        // _other for those not listed
	TokensPerS float64 `json:"tokens_per_s" cbor:"2,keyasint"` // prompt tokens to compute and output tokens
	Share      float64 `json:"share" cbor:"3,keyasint"`        // of what the class may ask for, at the quantile that the decision provides for
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
// the pool keeps from being averted; nil otherwise. Where both roles of a disaggregated pool are short, a class has the lower
// limit. What is ready now is what there is to share, and classes count at the
// quantile that decisions provide for: at the median, the more important ones would exceed what is left to them half of the
// time, and the limit of the others would not keep their objective.
func (p *plan) admission(d *Decision, cfg Config) []AdmissionLimit {
	if p.blind != sighted {
		return nil
	}
	limits := p.admitted(d, p.binding(), p.supply.Ready, cfg)
	if v := d.Prefilling(); v != nil {
		limits = lower(limits, p.admitted(v, mostOf(p.prompts, v.Binding), p.promptSupply.Ready, cfg))
	}
	return limits
}

// lower are the limits of both lists, of a class that is in both the lower one, in the order of a and then b.
func lower(a, b []AdmissionLimit) []AdmissionLimit {
	for _, l := range b {
		if i := slices.IndexFunc(a, func(x AdmissionLimit) bool { return x.Class == l.Class }); i < 0 {
			a = append(a, l)
		} else if l.Share < a[i].Share {
			a[i] = l
		}
	}
	return a
}

// admitted is admission for the replicas that d is of, of which so many are ready and b is what binds.
func (p *plan) admitted(d *Decision, b *resource, ready int, cfg Config) []AdmissionLimit {
	if b == nil {
		return nil
	}
	if b.evidence.Probability < cfg.AlertProbability || !d.late(b.evidence.ETA) && d.Needed <= d.Limit {
		return nil
	}
	classes := map[string]*asked{}
	var list []*asked
	margin := p.margin(b)
	for i := range p.in.Forecast.Classes {
		f := &p.in.Forecast.Classes[i]
		most := p.provided(f, margin)
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
	return share(heaviest(list), b.evidence.PerReplica*float64(ready), cfg.Priorities)
}

// margin is the part of its classes' own margins, from the median to the quantile that decisions provide for, by which the
// pool's total exceeds its median: classes are not all high at once. 1 where that is not known.
func (p *plan) margin(b *resource) float64 {
	sum := 0.
	for i := range p.in.Forecast.Classes {
		if f := &p.in.Forecast.Classes[i]; f.Dimension == b.evidence.Dimension {
			sum += p.provided(f, 1) - p.provided(f, 0)
		}
	}
	if !(sum > 0) {
		return 1
	}
	return min((p.provided(b.forecast, 1)-p.provided(b.forecast, 0))/sum, 1)
}

// provided is the most that f asks for in a minute until a replica that is asked for now is ready: the median, and margin of
// what the quantile that decisions provide for is above it. 0 where that is not known.
func (p *plan) provided(f *forecaster.Forecast, margin float64) float64 {
	n := minutes(p.lead)
	middle := largest(f, 0.5, n)
	high := largest(f, p.tau, n)
	return middle + margin*max(high-middle, 0)
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
