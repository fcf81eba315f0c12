package plan

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// Scenario is a named change.
type Scenario struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Change
}

func changed(f func(*Change)) Change {
	c := Same
	f(&c)
	return c
}

// The places of the scenarios that every list has.
const baselineIndex, launchIndex = 0, 1

// Scenarios are the baseline, the launch, its worst case, and what else may happen.
func (in *Input) Scenarios() []Scenario {
	launch := in.Launch
	worst := launch
	worst.Rate, worst.CacheHit, worst.Retry = launch.Rate*1.5, launch.CacheHit/2, max(launch.Retry, 0.15)
	all := []Scenario{
		{"baseline", "as it is", Same},
		{"launch", "the launch as stated", launch},
		{"worst", "worst case: 1.5 times the launch's rate, half the cache hits, 15 % more attempts", worst},
		{"silent", "requests on plan, prompts twice as long, no cache hits", changed(func(c *Change) { c.Prompt, c.CacheHit = 2, 0 })},
		{"cache_miss", "no cache hits", changed(func(c *Change) { c.CacheHit = 0 })},
		{"long_prompts", "prompts twice as long", changed(func(c *Change) { c.Prompt = 2 })},
		{"long_outputs", "outputs 60 % longer", changed(func(c *Change) { c.Output = 1.6 })},
		{"retries", "15 % more attempts by retries", changed(func(c *Change) { c.Retry = 0.15 })},
		{"replica_lost", "a replica (of each role) is lost", changed(func(c *Change) { c.Lost = 1 })},
		{"failover", "another region fails over: twice the traffic", changed(func(c *Change) { c.Rate = 2 })},
	}
	if in.Pool.Limits != (capacity.Limits{}) || in.Pool.BudgetHourUSD > 0 {
		all = append(all, Scenario{"limits_halved", "rate limits, quota and budget at half", changed(func(c *Change) { c.Limits = 0.5 })})
	}
	return all
}

// Outcome is the result of a scenario.
type Outcome struct {
	Scenario
	// First is the resource that runs out first with the present replicas; "budget" if only that is too low for the
	// replicas needed, "" if nothing runs out.
	First string `json:"first,omitempty"`
	// Share is how much of the change has come when the first resource runs out, 0 if it is out already.
	Share number   `json:"share"`
	When  *float64 `json:"when_seconds"` // on the ramp; null if unknown
	// Over is the share of minutes in which a resource is out.
	Over number `json:"over_share"`
	// TooLate: it runs out before a new replica is ready.
	TooLate bool `json:"too_late"`

	// Replicas is the number needed at the 95th percentile of the minutes, reserves included; null if no resource of
	// theirs has a known demand and capacity.
	Replicas number `json:"replicas"`
	Prefill  number `json:"prefill_replicas,omitempty"` // the same for the prefill replicas of a disaggregated pool
	// Blocked is the key whose bound is below the needed replicas, or the limit of the pool that more replicas do not raise.
	Blocked string `json:"blocked_by,omitempty"`

	HourUSD number `json:"usd_per_hour"`
	Uses    []Use  `json:"resources"`
}

// Use is one resource in a scenario.
type Use struct {
	Resource string `json:"resource"`
	Title    string `json:"title"`
	Unit     string `json:"unit"`
	Demand   number `json:"demand"` // 95th percentile of the minutes
	Capacity number `json:"capacity"`
	Headroom number `json:"headroom"` // free share of the capacity; negative when short
	Risk     Risk   `json:"risk"`
}

// missing reports whether it is not known if a resource suffices. Limits of requests per second and at once are
// optional, and the other rows follow from those of replicas.
func (u Use) missing() bool {
	return u.Risk == Unknown && (u.Resource == capacity.KV || u.Resource == capacity.Prefill || u.Resource == capacity.Decode)
}

// Risk of a resource.
type Risk string

// The risks, by how much of the capacity is used.
const (
	Okay        Risk = "okay"      // at most 80 %
	Tight       Risk = "tight"     // above 80 %
	Shortfall   Risk = "shortfall" // above 100 %
	OutOfMemory Risk = "memory"    // a shortfall of KV cache: requests are preempted or rejected
	Unknown     Risk = "unknown"   // the demand or the capacity is not known
)

// bySeverity are the risks, the lowest first.
var bySeverity = []Risk{Okay, Unknown, Tight, Shortfall, OutOfMemory}

// tightShare is the share of the capacity above which a resource is tight.
const tightShare = 0.8

func risk(name string, demand, have float64) Risk {
	switch {
	case math.IsNaN(demand + have):
		return Unknown
	case demand > have && name == capacity.KV:
		return OutOfMemory
	case demand > have:
		return Shortfall
	case demand > tightShare*have:
		return Tight
	}
	return Okay
}

// evaluation is the computation of one scenario.
type evaluation struct {
	*Input
	Outcome
	loads   []Load       // of each minute, changed
	short   map[int]bool // minutes in which a resource is out
	use     float64      // highest use of a resource of replicas
	busiest int          // its minute; -1 if no use is known
}

func (in *Input) evaluate(s Scenario) Outcome {
	e := evaluation{Input: in, Outcome: Outcome{Scenario: s}, short: map[int]bool{}, busiest: -1}
	e.Share, e.Over, e.Replicas, e.HourUSD = value.Unknown, value.Unknown, value.Unknown, value.Unknown
	if in.Pool.Disaggregated {
		e.Prefill = value.Unknown
	}
	for _, l := range in.Traffic.Minutes {
		e.loads = append(e.loads, s.apply(l))
	}
	for i := range resources {
		e.resource(&resources[i])
	}
	e.Replicas = e.Pool.withReserves(e.Replicas, capacity.AnyRole)
	e.Prefill = e.Pool.withReserves(e.Prefill, capacity.PrefillRole)
	e.queue()
	e.cost()
	e.when()
	return e.Outcome
}

func (e *evaluation) resource(r *resource) {
	have, ok := e.capacity(r)
	if !ok {
		return
	}
	demand, at := e.percentile(r)
	e.Uses = append(e.Uses, use(r.name, r.title, r.unit, demand, have))
	if math.IsNaN(demand + have) {
		return
	}
	if r.whole == nil {
		needed := &e.Replicas
		if e.Pool.Disaggregated && r.role == capacity.PrefillRole {
			needed = &e.Prefill
		}
		if n := number(alerting.ReplicasFor(demand, e.Pool.each(r))); !(n <= *needed) {
			*needed = n
		}
		if u := demand / max(have, math.SmallestNonzeroFloat64); u > e.use || e.busiest < 0 {
			e.use, e.busiest = u, at
		}
	}
	for i, l := range e.loads {
		if r.demand(&e.Pool, l) > have {
			e.short[i] = true
		}
	}
	if demand <= have {
		return
	}
	if r.whole != nil {
		e.Blocked = cmp.Or(e.Blocked, r.name)
	}
	if share := number(e.shareAt(r, at, have)); e.First == "" || share < e.Share {
		e.Share, e.First = share, r.name
	}
}

// sizingPercentile is the share of minutes that a plan covers.
const sizingPercentile = 0.95

// percentile is that of demand over the minutes with known demand, and its minute; NaN without any. O(n log n).
func (e *evaluation) percentile(r *resource) (p95 float64, at int) {
	var order []int
	values := make([]float64, len(e.loads))
	for i, l := range e.loads {
		if values[i] = r.demand(&e.Pool, l); !math.IsNaN(values[i]) {
			order = append(order, i)
		}
	}
	if order == nil {
		return math.NaN(), 0
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	at = order[int(math.Ceil(sizingPercentile*float64(len(order))))-1]
	return values[at], at
}

// capacity is what the pool can carry under the change; ok is false without such a limit. NaN is unknown.
func (e *evaluation) capacity(r *resource) (have float64, ok bool) {
	if r.whole != nil {
		have = r.whole(&e.Pool)
		return have * e.Limits, have > 0
	}
	if each := e.Pool.each(r); each > 0 {
		return each * float64(e.Pool.replicas(r.role, e.Lost)), true
	}
	return math.NaN(), true
}

func use(name, title, unit string, demand, have float64) Use {
	return Use{
		Resource: name, Title: title, Unit: unit, Risk: risk(name, demand, have),
		Demand: number(demand), Capacity: number(have), Headroom: 1 - number(value.Share(demand, have)),
	}
}

// shareAt is the share of the change at which demand for r in the minute exceeds have, in steps of 0.001.
func (e *evaluation) shareAt(r *resource, minute int, have float64) float64 {
	const steps = 1000
	if e.atOnce() {
		return 0
	}
	return float64(sort.Search(steps, func(step int) bool {
		return r.demand(&e.Pool, e.partly(float64(step)/steps).apply(e.Traffic.Minutes[minute])) > have
	})) / steps
}

// queue is the number of requests waiting after a warm-up that starts at saturation: arrivals above the service rate
// for the lead time. A fluid queue: bursts within a minute come on top.
func (e *evaluation) queue() {
	demand, have := math.NaN(), e.Pool.WaitingPerReplica*float64(e.Pool.replicas(capacity.DecodeRole, e.Lost))
	if e.busiest >= 0 {
		demand = e.loads[e.busiest].Requests * max(1-1/e.use, 0) * e.Pool.Lead.Seconds()
	}
	e.Uses = append(e.Uses, use(Queue, "requests waiting when a new replica is ready", "requests", demand, have))
}

// cost sets the price of the needed replicas, and which bound is too low for them: the budget, or else those of
// replicas. A limit of the whole pool is named only if these suffice.
func (e *evaluation) cost() {
	hour := e.Pool.ReplicaHourUSD()
	if hour > 0 {
		e.HourUSD = number(hour) * (e.Replicas + e.Prefill)
	}
	switch most, key := e.Pool.Limit(); {
	case e.Replicas > number(most):
		e.Blocked = key
	case e.Prefill > number(e.Pool.BoundsOf(capacity.PrefillRole).Max):
		e.Blocked = "disaggregated.prefill_replicas.max"
	}
	if hour <= 0 || e.Pool.BudgetHourUSD <= 0 {
		return
	}
	u := use(Budget, "$/h for the replicas it takes", "$/h", float64(e.HourUSD), e.Pool.BudgetHourUSD*e.Limits)
	e.Uses = append(e.Uses, u)
	if u.Risk == Shortfall {
		e.Blocked = "budget_hour_usd"
		if e.First == "" {
			e.First, e.Share = Budget, 1
		}
	}
}

// when sets when the first resource runs out, and the share of minutes in which one is out.
func (e *evaluation) when() {
	if len(e.loads) > 1 {
		e.Over = number(float64(len(e.short)) / float64(len(e.loads)))
	}
	if e.First == "" {
		return
	}
	seconds := float64(e.Share) * e.Ramp.Seconds()
	if e.atOnce() {
		seconds = 0
	}
	e.When, e.TooLate = &seconds, seconds < e.Pool.Lead.Seconds()
}
