package backtest

import (
	"math"
	"slices"
)

// Targets are the shares of saturated minutes at which policies are compared.
var Targets = []float64{.01, .005}

// outcome is what one setting of one policy came to, in the part of the trace that settings are chosen on and in the part
// that is scored.
type outcome struct {
	set            Setting
	tuning, scored Account
}

// Comparison sets Forewarm against the best rival and the oracle at one share of saturated minutes. Costs are GPU-hours
// of the scored part, read off each policy's curve over its first knob. The other knobs of every policy are those that
// cost least at the target in the tuning part.
type Comparison struct {
	SaturatedShare float64 `json:"saturated_share"`
	// Costs has every policy, in the order of the catalog.
	Costs []Cost `json:"costs"`

	BestRival string `json:"best_rival"`
	// GapClosed is (rival − Forewarm) / (rival − oracle): 1 is as good as the oracle, 0 as the best rival.
	GapClosed Number `json:"gap_closed"`
	// SaturationRatio is Forewarm's saturated minutes over the fewest that a rival has for the same GPU-hours.
	SaturationRatio Number `json:"saturation_ratio"`
}

// Cost is one policy in a Comparison.
type Cost struct {
	Policy   string `json:"policy"`
	GPUHours Number `json:"gpu_hours"` // at the target; null when no setting saturates as little
	// Tuned is the setting that cost least at the target in the tuning part, and what it came to in the scored part.
	Tuned       string `json:"tuned"`
	Carried     Number `json:"carried_saturated_share"`
	CarriedCost Number `json:"carried_gpu_hours"`
	// Actions of that setting in the scored part, and the share of them that took an ask back.
	Actions       int    `json:"carried_scale_actions"`
	ReversedShare Number `json:"carried_reversed_share"`
}

// field is the policies of a run with their outcomes.
type field struct {
	specs    []PolicySpec
	outcomes [][]outcome // of each of specs
}

// compare reads all policies at one target.
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

// tune is the outcomes over the first knob of the other knobs' values that cost least at the target in the tuning part;
// where none reaches the target, of those that come nearest.
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

// groups are the outcomes that differ in the first knob alone.
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

// carry is the outcome of the setting that was cheapest in the tuning part among those within the target; of the least
// saturated one when none was.
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
