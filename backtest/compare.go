package backtest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/internal/value"
)

// Account is the cost and service of a pool, since its start or between two times.
type Account struct {
	Minutes, Saturated int
	Asked, Met         float64 // weight of the requests, and of those served within the objectives
	GPUHours           float64 // including warm-up
	Actions            int     // changes of the desired replicas
	Reversed           int     // actions that removed a replica ordered less than a warm-up before
}

// Since is the account since b, of the same pool.
func (a Account) Since(b Account) Account {
	return Account{
		Minutes: a.Minutes - b.Minutes, Saturated: a.Saturated - b.Saturated, Asked: a.Asked - b.Asked, Met: a.Met - b.Met,
		GPUHours: a.GPUHours - b.GPUHours, Actions: a.Actions - b.Actions, Reversed: a.Reversed - b.Reversed,
	}
}

// SaturatedShare is the share of saturated minutes; NaN without a minute.
func (a *Account) SaturatedShare() float64 {
	return value.Share(float64(a.Saturated), float64(a.Minutes))
}

// replicaOrders are the desired replicas, and how often their number changed.
type replicaOrders struct {
	target            int
	orderedAt         []time.Time   // order times of the newest replicas, ascending
	warmup            time.Duration // a removal within it reverses the order
	actions, reversed int
}

// set asks for n replicas; it removes the newest.
func (o *replicaOrders) set(n int, now time.Time) {
	if n == o.target {
		return
	}
	o.actions++
	for range n - o.target {
		o.orderedAt = append(o.orderedAt, now)
	}
	if last := len(o.orderedAt) - 1; n < o.target && last >= 0 {
		if now.Sub(o.orderedAt[last]) < o.warmup {
			o.reversed++
		}
		o.orderedAt = o.orderedAt[:max(0, last+1-(o.target-n))]
	}
	o.target = n
}

// Result is the result of one setting of one policy.
type Result struct {
	Policy         string `json:"policy"`
	Knob           string `json:"knob"`
	SaturatedShare Number `json:"saturated_share"` // of minutes
	SLOAttainment  Number `json:"slo_attainment"`  // share of requests within the objectives
	GPUHours       Number `json:"gpu_hours"`       // including warm-up
	ScaleActions   int    `json:"scale_actions"`
	// ReversedShare is the share of actions that removed a replica ordered less than the warm-up's 90th percentile
	// before; null without an action.
	ReversedShare Number `json:"reversed_share"`

	SaturatedMinutes int    `json:"saturated_minutes"`
	ActionsPerDay    Number `json:"actions_per_day"`
	Default          bool   `json:"default"` // the default setting in the documentation of the original
}

// reversedShare is the share of actions that reversed an order; NaN without an action.
func (a *Account) reversedShare() float64 {
	return value.Share(float64(a.Reversed), float64(a.Actions))
}

// result converts the account to a row of the summary.
func (a *Account) result(policy, knob string) Result {
	return Result{
		Policy: policy, Knob: knob, SaturatedShare: Number(a.SaturatedShare()), SLOAttainment: Number(value.Share(a.Met, a.Asked)),
		GPUHours: Number(a.GPUHours), ScaleActions: a.Actions, SaturatedMinutes: a.Saturated,
		ReversedShare: Number(a.reversedShare()),
		ActionsPerDay: Number(value.Share(float64(a.Actions), float64(a.Minutes)/1440)),
	}
}

// point is the result of one setting of a policy.
type point struct {
	saturated float64 // share of minutes
	hours     float64 // GPU-hours
}

func (a *Account) point() point { return point{a.SaturatedShare(), a.GPUHours} }

// curve is cost against saturation: the points that are not worse than another in both, by rising saturation and
// falling cost. It is linear between points, because a pool can use each of two settings for part of the time.
type curve []point

func newCurve(points []point) curve {
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.saturated, b.saturated), cmp.Compare(a.hours, b.hours))
	})
	var c curve
	for _, p := range points {
		if len(c) == 0 || p.hours < c[len(c)-1].hours {
			c = append(c, p)
		}
	}
	return c
}

// hoursAt returns the cost of a share of saturated minutes: that of the cheapest setting if all saturate less; +Inf if
// all saturate more.
func (c curve) hoursAt(saturated float64) float64 {
	if len(c) == 0 || c[0].saturated > saturated {
		return math.Inf(1)
	}
	for i := 1; i < len(c); i++ {
		if a, b := c[i-1], c[i]; b.saturated > saturated {
			return a.hours + (b.hours-a.hours)*(saturated-a.saturated)/(b.saturated-a.saturated)
		}
	}
	return c[len(c)-1].hours
}

// saturatedAt returns the share of saturated minutes for a cost: that of the least saturated setting if all cost less;
// +Inf if all cost more.
func (c curve) saturatedAt(hours float64) float64 {
	if len(c) == 0 || c[len(c)-1].hours > hours {
		return math.Inf(1)
	}
	for i := len(c) - 1; i > 0; i-- {
		if a, b := c[i-1], c[i]; a.hours > hours {
			return a.saturated + (b.saturated-a.saturated)*(hours-a.hours)/(b.hours-a.hours)
		}
	}
	return c[0].saturated
}

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
		chosen := bestKnobs(f.outcomes[i], target)
		scored := newCurve(points(chosen, func(o *outcome) *Account { return &o.scored }))
		curves = append(curves, scored)
		hours := scored.hoursAt(target)
		carried := bestTuned(chosen, target)
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

// bestKnobs returns the outcomes over the first knob, with the other knobs at least cost for the target in the tuning
// part. If none reaches the target, it takes the nearest.
func bestKnobs(all []outcome, target float64) []outcome {
	var best []outcome
	least := [2]float64{math.Inf(1), math.Inf(1)}
	for _, group := range byFirstKnob(all) {
		c := newCurve(points(group, func(o *outcome) *Account { return &o.tuning }))
		rank := [2]float64{c.hoursAt(target), c[0].saturated}
		if best == nil || slices.Compare(rank[:], least[:]) < 0 {
			best, least = group, rank
		}
	}
	return best
}

// byFirstKnob groups outcomes that differ only in the first knob.
func byFirstKnob(all []outcome) (gs [][]outcome) {
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

// bestTuned returns the outcome of the cheapest setting within the target in the tuning part, or else of the least
// saturated one.
func bestTuned(group []outcome, target float64) *outcome {
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
