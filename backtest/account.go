package backtest

import "time"

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
func (a *Account) SaturatedShare() float64 { return share(float64(a.Saturated), float64(a.Minutes)) }

// orders are the desired replicas, and how often their number changed.
type orders struct {
	target            int
	orderedAt         []time.Time   // order times of the newest replicas, ascending
	warmup            time.Duration // a removal within it reverses the order
	actions, reversed int
}

// set asks for n replicas; it removes the newest.
func (o *orders) set(n int, now time.Time) {
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
func (a *Account) reversedShare() float64 { return share(float64(a.Reversed), float64(a.Actions)) }

// result converts the account to a row of the summary.
func (a *Account) result(policy, knob string) Result {
	return Result{
		Policy: policy, Knob: knob, SaturatedShare: Number(a.SaturatedShare()), SLOAttainment: Number(share(a.Met, a.Asked)),
		GPUHours: Number(a.GPUHours), ScaleActions: a.Actions, SaturatedMinutes: a.Saturated,
		ReversedShare: Number(a.reversedShare()),
		ActionsPerDay: Number(share(float64(a.Actions), float64(a.Minutes)/1440)),
	}
}
