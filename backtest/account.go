package backtest

// Account is what a run of a pool cost and gave, since its start or between two instants.
type Account struct {
	Minutes, Saturated int
	Asked, Met         float64 // weight of what was asked for, and of what was served without delay
	GPUHours           float64 // warming up included
	Actions            int     // changes of the number of replicas asked for
}

// Since is the account from b on, of the same pool.
func (a Account) Since(b Account) Account {
	return Account{
		Minutes: a.Minutes - b.Minutes, Saturated: a.Saturated - b.Saturated, Asked: a.Asked - b.Asked, Met: a.Met - b.Met,
		GPUHours: a.GPUHours - b.GPUHours, Actions: a.Actions - b.Actions,
	}
}

// SaturatedShare is the share of minutes that were saturated; NaN without a minute.
func (a *Account) SaturatedShare() float64 { return share(float64(a.Saturated), float64(a.Minutes)) }

// Result is how one setting of one policy did.
type Result struct {
	Policy         string `json:"policy"`
	Knob           string `json:"knob"`
	SaturatedShare Number `json:"saturated_share"` // of minutes
	SLOAttainment  Number `json:"slo_attainment"`  // share of requests served without delay
	GPUHours       Number `json:"gpu_hours"`       // warming up included
	ScaleActions   int    `json:"scale_actions"`
}

// result is the account as a row of the summary.
func (a *Account) result(policy, knob string) Result {
	return Result{
		Policy: policy, Knob: knob, SaturatedShare: Number(a.SaturatedShare()), SLOAttainment: Number(share(a.Met, a.Asked)),
		GPUHours: Number(a.GPUHours), ScaleActions: a.Actions,
	}
}
