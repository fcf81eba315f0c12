package backtest

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/internal/value"
)

// Account is the cost and service of a pool. Service is that of the minutes with known demand.
type Account struct {
	Minutes          int     // all
	Known, Saturated int     // minutes with known demand, and those of them in which requests waited
	Asked, Met       float64 // weight of the requests, and of those that did not wait for a replica
	GPUHours         float64 // including warm-up
	Actions          int     // changes of the desired replicas
	Reversed         int     // actions that removed a replica ordered less than a warm-up before
}

// SaturatedShare is the share of saturated minutes; NaN without a minute of known demand.
func (a *Account) SaturatedShare() float64 {
	return value.Share(float64(a.Saturated), float64(a.Known))
}

// Result is the result of one setting of one policy.
type Result struct {
	Policy         string `json:"policy"`
	Knob           string `json:"knob"`
	SaturatedShare Number `json:"saturated_share"` // of minutes with known demand
	SLOAttainment  Number `json:"slo_attainment"`  // share of requests that did not wait for a replica
	GPUHours       Number `json:"gpu_hours"`       // including warm-up
	ScaleActions   int    `json:"scale_actions"`
	// ReversedShare is the share of actions that removed a replica ordered less than the warm-up's 90th percentile
	// before; null without an action.
	ReversedShare Number `json:"reversed_share"`

	SaturatedMinutes int    `json:"saturated_minutes"`
	ActionsPerDay    Number `json:"actions_per_day"`
	Default          bool   `json:"default"` // the default setting in the documentation of the original
}

// point is the share of saturated minutes and the GPU-hours of one setting of a policy.
type point [2]float64

func (a *Account) point() point { return point{a.SaturatedShare(), a.GPUHours} }

// curve is cost against saturation: the points that are not worse than another in both, by rising saturation and
// falling cost. It is linear between points, because a pool can use each of two settings for part of the time.
type curve []point

func newCurve(points []point) curve {
	slices.SortFunc(points, func(a, b point) int { return slices.Compare(a[:], b[:]) })
	var c curve
	for _, p := range points {
		if len(c) == 0 || p[1] < c[len(c)-1][1] {
			c = append(c, p)
		}
	}
	return c
}

// hoursAt returns the cost of a share of saturated minutes: the least cost if all saturate less; +Inf if all do more.
func (c curve) hoursAt(saturated float64) float64 { return interpolated(c, 0, saturated) }

// saturatedAt returns the share of saturated minutes at a cost: the least if all cost less; +Inf if all cost more.
func (c curve) saturatedAt(hours float64) float64 {
	byHours := slices.Clone(c)
	slices.Reverse(byHours)
	return interpolated(byHours, 1, hours)
}

// interpolated returns the other coordinate of points where one of them, by which they ascend, is x.
func interpolated(points []point, of int, x float64) float64 {
	if len(points) == 0 || points[0][of] > x {
		return math.Inf(1)
	}
	for i := 1; i < len(points); i++ {
		if a, b := points[i-1], points[i]; b[of] > x {
			return a[1-of] + (b[1-of]-a[1-of])*(x-a[of])/(b[of]-a[of])
		}
	}
	return points[len(points)-1][1-of]
}

// Targets are the shares of saturated minutes for comparing policies.
var Targets = []float64{.01, .005}

// Comparison compares Forewarm with the best rival and the oracle at one share of saturated minutes. Costs are
// GPU-hours of the scored part, read from each policy's curve over its first knob. The other knobs are those of least
// cost at the target in the tuning part.
type Comparison struct {
	SaturatedShare Number `json:"saturated_share"`
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
	// Tuned is the result in the scored part of the setting of least cost at the target in the tuning part.
	Tuned Result `json:"tuned"`
}

func compare(policies [][]*contender, target float64) Comparison {
	c := Comparison{SaturatedShare: Number(target), GapClosed: Number(math.NaN()), SaturationRatio: Number(math.NaN())}
	best, oracle, own := math.Inf(1), math.Inf(1), math.Inf(1)
	var rivals []curve
	for _, group := range policies {
		name, chosen := group[0].name, bestKnobs(group, target)
		var points []point
		for i := range chosen {
			points = append(points, chosen[i].pool.account.point())
		}
		scored := newCurve(points)
		hours := scored.hoursAt(target)
		c.Costs = append(c.Costs, Cost{Policy: name, GPUHours: Number(hours), Tuned: bestTuned(chosen, target).row()})
		switch name {
		case ForewarmPolicy:
			own = hours
		case OraclePolicy:
			oracle = hours
		default:
			rivals = append(rivals, scored)
			if hours < best {
				best, c.BestRival = hours, name
			}
		}
	}
	if !math.IsInf(best+own+oracle, 1) {
		c.GapClosed = Number((best - own) / (best - oracle))
	}
	fewest := math.Inf(1)
	for _, rival := range rivals {
		fewest = min(fewest, rival.saturatedAt(own))
	}
	c.SaturationRatio = Number(target / fewest)
	return c
}

// bestKnobs returns the contenders over the first knob, with the other knobs at least cost for the target in the tuning
// part. If none reaches the target, it takes the nearest.
func bestKnobs(all []*contender, target float64) []*contender {
	var best []*contender
	var least point
	for _, group := range byFirstKnob(all) {
		var points []point
		for i := range group {
			points = append(points, group[i].tuning.point())
		}
		c := newCurve(points)
		rank := point{c.hoursAt(target), c[0][0]}
		if best == nil || slices.Compare(rank[:], least[:]) < 0 {
			best, least = group, rank
		}
	}
	return best
}

// byFirstKnob groups contenders that differ only in the first knob.
func byFirstKnob(all []*contender) (groups [][]*contender) {
	for _, o := range all {
		i := slices.IndexFunc(groups, func(g []*contender) bool { return slices.Equal(g[0].set[1:], o.set[1:]) })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], o)
	}
	return groups
}

// bestTuned returns the contender of least cost within the target in the tuning part, or else the least saturated one.
func bestTuned(group []*contender, target float64) *contender {
	return slices.MinFunc(group, func(a, b *contender) int {
		x, y := a.tuning.point(), b.tuning.point()
		for _, p := range []*point{&x, &y} {
			if p[0] <= target {
				p[0] = 0
			}
		}
		return slices.Compare(x[:], y[:])
	})
}
