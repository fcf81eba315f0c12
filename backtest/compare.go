package backtest

import (
	"math"
	"slices"
)

// Targets are the shares of saturated minutes for comparing policies.
var Targets = []float64{.01, .005}

// outcome is the result of one setting of one policy in the tuning part and in the scored part of the trace.
type outcome struct {
	set            Setting
	tuning, scored Account
}

// Comparison compares Forewarm with the best rival and the oracle at one share of saturated minutes. Costs are
// GPU-hours of the scored part, read from each policy's curve over its first knob. The other knobs are those of least
// cost at the target in the tuning part.
type Comparison struct {
	SaturatedShare float64 `json:"saturated_share"`
	// Costs has all policies, in the order of the catalog.
	Costs []Cost `json:"costs"`

	BestRival string `json:"best_rival"`
	// GapClosed is (rival − Forewarm) / (rival − oracle): 1 equals the oracle, 0 the best rival.
	GapClosed Number `json:"gap_closed"`
	// SaturationRatio is Forewarm's saturated minutes over the fewest of a rival with the same GPU-hours.
	SaturationRatio Number `json:"saturation_ratio"`
}

// Cost is one policy in a Comparison.
type Cost struct {
	Policy   string `json:"policy"`
	GPUHours Number `json:"gpu_hours"` // at the target; null if no setting reaches it
	// Tuned is the setting of least cost at the target in the tuning part, and its result in the scored part.
	Tuned       string `json:"tuned"`
	Carried     Number `json:"carried_saturated_share"`
	CarriedCost Number `json:"carried_gpu_hours"`
	// Actions of that setting in the scored part, and the share that reversed an order.
	Actions       int    `json:"carried_scale_actions"`
	ReversedShare Number `json:"carried_reversed_share"`
}

// field is the policies of a run with their outcomes.
type field struct {
	specs    []PolicySpec
	outcomes [][]outcome // one slice per policy in specs
}

// compare compares all policies at one target.
func (f *field) compare(target float64) Comparison {
	c := Comparison{SaturatedShare: target, GapClosed: Number(math.NaN()), SaturationRatio: Number(math.NaN())}
	best, oracle, own := math.Inf(1), math.Inf(1), math.Inf(1)
	var curves []curve
	for i, spec := range f.specs {
		chosen := tune(f.outcomes[i], target)
		scored := newCurve(points(chosen, func(o *outcome) *Account { return &o.scored }))
		curves = append(curves, scored)
		hours := scored.hoursAt(target)
		carried := carry(chosen, target)
		c.Costs = append(c.Costs, Cost{
			Policy: spec.Name, GPUHours: Number(hours), Tuned: spec.knob(carried.set),
			Carried: Number(carried.scored.SaturatedShare()), CarriedCost: Number(carried.scored.GPUHours),
			Actions: carried.scored.Actions, ReversedShare: Number(carried.scored.reversedShare()),
		})
		switch spec.Name {
		case ForewarmPolicy:
			own = hours
		case OraclePolicy:
			oracle = hours
		}
		if spec.rival() && hours < best {
			best, c.BestRival = hours, spec.Name
		}
	}
	if !math.IsInf(best+own+oracle, 1) {
		c.GapClosed = Number((best - own) / (best - oracle))
	}
	fewest := math.Inf(1)
	for i, spec := range f.specs {
		if spec.rival() {
			fewest = min(fewest, curves[i].saturatedAt(own))
		}
	}
	c.SaturationRatio = Number(target / fewest)
	return c
}

// tune returns the outcomes over the first knob, with the other knobs at least cost for the target in the tuning part.
// If none reaches the target, it takes the nearest.
func tune(all []outcome, target float64) []outcome {
	var best []outcome
	least := [2]float64{math.Inf(1), math.Inf(1)}
	for _, group := range groups(all) {
		c := newCurve(points(group, func(o *outcome) *Account { return &o.tuning }))
		rank := [2]float64{c.hoursAt(target), c[0].saturated}
		if best == nil || slices.Compare(rank[:], least[:]) < 0 {
			best, least = group, rank
		}
	}
	return best
}

// groups groups outcomes that differ only in the first knob.
func groups(all []outcome) (gs [][]outcome) {
next:
	for _, o := range all {
		for i := range gs {
			if slices.Equal(gs[i][0].set[1:], o.set[1:]) {
				gs[i] = append(gs[i], o)
				continue next
			}
		}
		gs = append(gs, []outcome{o})
	}
	return gs
}

// carry returns the outcome of the cheapest setting within the target in the tuning part, or else of the least
// saturated one.
func carry(group []outcome, target float64) *outcome {
	best := &group[0]
	rank := func(o *outcome) [2]float64 {
		s := o.tuning.SaturatedShare()
		if s <= target {
			return [2]float64{0, o.tuning.GPUHours}
		}
		return [2]float64{s, o.tuning.GPUHours}
	}
	for i := range group {
		a, b := rank(&group[i]), rank(best)
		if slices.Compare(a[:], b[:]) < 0 {
			best = &group[i]
		}
	}
	return best
}

func points(all []outcome, of func(*outcome) *Account) []point {
	var ps []point
	for i := range all {
		ps = append(ps, of(&all[i]).point())
	}
	return ps
}
