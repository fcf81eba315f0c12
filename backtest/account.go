package backtest

import "time"

// Account is what a run of a pool cost and gave, since its start or between two instants.
type Account struct {
	Minutes, Saturated int
	Asked, Met         float64 // weight of what was asked for, and of what was served within the objectives
	GPUHours           float64 // warming up included
	Actions            int     // changes of the number of replicas asked for
	Reversed           int     // those of them that took back what had been asked for less than a warm-up before
}

// Since is the account from b on, of the same pool.
func (a Account) Since(b Account) Account {
	return Account{
		Minutes: a.Minutes - b.Minutes, Saturated: a.Saturated - b.Saturated, Asked: a.Asked - b.Asked, Met: a.Met - b.Met,
		GPUHours: a.GPUHours - b.GPUHours, Actions: a.Actions - b.Actions, Reversed: a.Reversed - b.Reversed,
	}
}

// SaturatedShare is the share of minutes that were saturated; NaN without a minute.
func (a *Account) SaturatedShare() float64 { return share(float64(a.Saturated), float64(a.Minutes)) }

// orders are the replicas that are asked for, and how often their number changed.
type orders struct {
	target            int
	asked             []time.Time   // when the newest of them were asked for, ascending
	warmup            time.Duration // giving up a replica sooner takes the ask back
	actions, reversed int
}

// set asks for n replicas; of fewer the newest go.
func (o *orders) set(n int, now time.Time) {
	if n == o.target {
		return
	}
	o.actions++
	for range n - o.target {
		o.asked = append(o.asked, now)
	}
	if last := len(o.asked) - 1; n < o.target && last >= 0 {
		if now.Sub(o.asked[last]) < o.warmup {
			o.reversed++
		}
		o.asked = o.asked[:max(0, last+1-(o.target-n))]
	}
	o.target = n
}

// Result is how one setting of one policy did.
type Result struct {
	Policy         string `json:"policy"`
	Knob           string `json:"knob"`
	SaturatedShare Number `json:"saturated_share"` // of minutes
	SLOAttainment  Number `json:"slo_attainment"`  // share of requests within the objectives
	GPUHours       Number `json:"gpu_hours"`       // warming up included
	ScaleActions   int    `json:"scale_actions"`
	// ReversedShare is the share of the actions that gave up a replica which had been asked for less than the warm-up's 90th
	// percentile before; null without an action.
	ReversedShare Number `json:"reversed_share"`

	SaturatedMinutes int    `json:"saturated_minutes"`
	ActionsPerDay    Number `json:"actions_per_day"`
	Default          bool   `json:"default"` // the setting that the documentation of the policy's original has
}

// reversedShare is the share of the actions that took an ask back; NaN without an action.
func (a *Account) reversedShare() float64 { return share(float64(a.Reversed), float64(a.Actions)) }

// result is the account as a row of the summary.
func (a *Account) result(policy, knob string) Result {
	return Result{
		Policy: policy, Knob: knob, SaturatedShare: Number(a.SaturatedShare()), SLOAttainment: Number(share(a.Met, a.Asked)),
		GPUHours: Number(a.GPUHours), ScaleActions: a.Actions, SaturatedMinutes: a.Saturated,
		ReversedShare: Number(a.reversedShare()),
		ActionsPerDay: Number(share(float64(a.Actions), float64(a.Minutes)/1440)),
	}
}
