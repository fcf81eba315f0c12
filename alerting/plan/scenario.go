package plan

import (
	"cmp"
	"math"
	"slices"
	"time"

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

// Scenarios are the baseline, the launch, its worst case, and single what-ifs. Scenarios that do not apply to the pool,
// or repeat another, are left out.
func (in *Input) Scenarios() []Scenario {
	launch, p := in.Launch, &in.Pool
	worst := launch
	worst.Rate, worst.CacheHit, worst.Retry = launch.Rate*1.5, launch.CacheHit/2, max(launch.Retry, 0.15)
	cached := slices.ContainsFunc(in.Traffic.Minutes, func(l Load) bool { return l.Cached > 0 })
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
	if p.Limits != (capacity.Limits{}) || p.BudgetHourUSD > 0 {
		all = append(all, Scenario{"limits_halved", "rate limits, quota and budget at half", changed(func(c *Change) { c.Limits = 0.5 })})
	}
	seen := map[Change]bool{}
	return slices.DeleteFunc(all, func(s Scenario) bool {
		if !cached {
			s.CacheHit = 1
		}
		repeats := seen[s.Change] && s.Name != "launch"
		seen[s.Change] = true
		return repeats
	})
}

// Outcome is the result of a scenario.
type Outcome struct {
	Scenario
	// First is the resource that runs out first with the present replicas; "" if none does.
	First string `json:"first,omitempty"`
	// Share of the change at which First runs out, 0 if it is out already. When is the time on the ramp; nil if
	// unknown.
	Share number   `json:"share"`
	When  *float64 `json:"when_seconds"`
	// Over is the share of minutes in which a resource is out.
	Over number `json:"over_share"`
	// TooLate: it runs out before a new replica is ready.
	TooLate bool `json:"too_late"`

	Replicas int    `json:"replicas"`                   // needed at the 95th percentile of the minutes, reserves included
	Prefill  int    `json:"prefill_replicas,omitempty"` // of a disaggregated pool, with their reserves
	Blocked  string `json:"blocked_by,omitempty"`       // the key whose bound is below Replicas or Prefill, or the limit that replicas do not raise

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

const tightFrom = 0.8

func risk(name string, demand, capacityOf float64) Risk {
	switch {
	case math.IsNaN(demand + capacityOf):
		return Unknown
	case demand > capacityOf && name == capacity.KV:
		return OutOfMemory
	case demand > capacityOf:
		return Shortfall
	case demand > tightFrom*capacityOf:
		return Tight
	}
	return Okay
}

// evaluation is the computation of one scenario.
type evaluation struct {
	pool    *Pool
	traffic *Traffic
	c       Change
	loads   []Load // of each minute, changed
}

// sizingPercentile is the share of minutes that a plan covers.
const sizingPercentile = 0.95

// percentile of demand over the minutes with known demand, and its minute; NaN without any. O(n log n).
func (e *evaluation) percentile(r *resource) (p95 float64, at int) {
	var order []int
	values := make([]float64, len(e.loads))
	for i, l := range e.loads {
		if values[i] = r.demand(e.pool, l); !math.IsNaN(values[i]) {
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
		have = r.whole(e.pool)
		return have * e.c.Limits, have > 0
	}
	if each := e.pool.each(r); each > 0 {
		return each * float64(e.pool.replicas(r.role, e.c.Lost)), true
	}
	return math.NaN(), true
}

func (e *evaluation) run(s Scenario, ramp, lead time.Duration) Outcome {
	e.c = s.Change
	e.loads = e.loads[:0]
	for _, l := range e.traffic.Minutes {
		e.loads = append(e.loads, e.c.apply(l))
	}
	o := Outcome{Scenario: s, Share: value.Unknown, Over: value.Unknown, HourUSD: value.Unknown}
	first := math.Inf(1)
	worst, busiest := 0.0, -1 // highest use of replicas, and its minute
	over := map[int]bool{}    // minutes
	blocked := ""
	for i := range resources {
		r := &resources[i]
		have, ok := e.capacity(r)
		if !ok {
			continue
		}
		demand, at := e.percentile(r)
		o.Uses = append(o.Uses, use(r.name, r.title, r.unit, demand, have))
		if math.IsNaN(demand + have) {
			continue
		}
		if r.whole == nil {
			needed := &o.Replicas
			if e.pool.Disaggregated && r.role == capacity.PrefillRole {
				needed = &o.Prefill
			}
			*needed = max(*needed, alerting.ReplicasFor(demand, e.pool.each(r)))
			if u := demand / max(have, math.SmallestNonzeroFloat64); u > worst {
				worst, busiest = u, at
			}
		}
		for j, l := range e.loads {
			if r.demand(e.pool, l) > have {
				over[j] = true
			}
		}
		if demand <= have {
			continue
		}
		if r.whole != nil {
			blocked = cmp.Or(blocked, r.name)
		}
		if share := e.shareAt(r, at, have); share < first {
			first, o.First = share, r.name
		}
	}
	o.Replicas, o.Prefill = e.pool.withReserves(o.Replicas, capacity.AnyRole), e.pool.withReserves(o.Prefill, capacity.PrefillRole)
	if o.Prefill > e.pool.BoundsOf(capacity.PrefillRole).Max {
		o.Blocked = "disaggregated.prefill_replicas.max"
	}
	if limit, key := e.pool.Limit(); o.Replicas > limit {
		o.Blocked = key
	}
	e.queue(&o, worst, busiest, lead)
	e.budget(&o, &first)
	o.Blocked = cmp.Or(o.Blocked, blocked)
	e.when(&o, first, len(over), ramp, lead)
	return o
}

func use(name, title, unit string, demand, have float64) Use {
	u := Use{Resource: name, Title: title, Unit: unit, Demand: number(demand), Capacity: value.Unknown, Headroom: value.Unknown, Risk: risk(name, demand, have)}
	if have > 0 {
		u.Capacity, u.Headroom = number(have), number(1-demand/have)
	}
	return u
}

// shareAt is the share of the change at which demand for r in the minute reaches have: by bisection, to 0.001.
func (e *evaluation) shareAt(r *resource, minute int, have float64) float64 {
	demand := func(s float64) float64 {
		return r.demand(e.pool, e.c.partly(s).apply(e.traffic.Minutes[minute]))
	}
	if demand(0) > have || e.c.Lost > 0 || e.c.Limits < 1 {
		return 0
	}
	low, high := 0.0, 1.0
	for high-low > 1e-3 {
		if middle := (low + high) / 2; demand(middle) > have {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// queue is the number of requests waiting after a warm-up that starts at saturation: arrivals above the service rate
// for the lead time. A fluid queue: bursts within a minute come on top.
func (e *evaluation) queue(o *Outcome, worst float64, at int, lead time.Duration) {
	demand, have := math.NaN(), e.pool.WaitingPerReplica*float64(e.pool.replicas(capacity.DecodeRole, e.c.Lost))
	if at >= 0 {
		demand = 0
		if worst > 1 {
			demand = e.loads[at].Requests * (1 - 1/worst) * lead.Seconds()
		}
	}
	o.Uses = append(o.Uses, use(Queue, "requests waiting when a new replica is ready", "requests", demand, have))
}

// budget compares the price of the needed replicas with the budget.
func (e *evaluation) budget(o *Outcome, first *float64) {
	hour := e.pool.ReplicaHourUSD()
	if hour <= 0 {
		return
	}
	cost := hour * float64(o.Replicas+o.Prefill)
	o.HourUSD = number(cost)
	if e.pool.BudgetHourUSD <= 0 {
		return
	}
	have := e.pool.BudgetHourUSD * e.c.Limits
	o.Uses = append(o.Uses, use(Budget, "$/h for the replicas it takes", "$/h", cost, have))
	if cost > have {
		o.Blocked = "budget_hour_usd"
		if o.First == "" {
			o.First, *first = Budget, 1
		}
	}
}

// when sets when the first resource runs out, and the share of minutes in which one is out.
func (e *evaluation) when(o *Outcome, first float64, short int, ramp, lead time.Duration) {
	if len(e.loads) > 1 {
		o.Over = number(float64(short) / float64(len(e.loads)))
	}
	if math.IsInf(first, 1) {
		return
	}
	seconds := first * ramp.Seconds()
	if e.c.Lost > 0 || e.c.Limits < 1 {
		seconds = 0
	}
	o.Share, o.When, o.TooLate = number(first), &seconds, seconds < lead.Seconds()
}
