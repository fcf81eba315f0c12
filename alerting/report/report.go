package report

import (
	"context"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// Number may be unknown.
type Number = value.Number

// Report compares a period's forecasts and decisions with outcomes. Pools are ordered by name; empty if nothing was
// stored.
type Report struct {
	From     time.Time      `json:"from"`
	To       time.Time      `json:"to"`
	Timezone string         `json:"timezone"` // of times in Markdown and page; times here are UTC
	Zone     *time.Location `json:"-"`        // Timezone
	// Summary has a sentence each on traffic, saturation, warnings, forecasts and cost, and one that names the pools whose
	// prefill replicas are left out.
	Summary []string `json:"summary"`
	Pools   []Pool   `json:"pools"`
}

// Pool is the report on one pool.
type Pool struct {
	Pool       string     `json:"pool"`
	Data       Data       `json:"data"`
	Totals     []Total    `json:"totals"`   // the pool ("*") first, then classes
	Accuracy   []Accuracy `json:"accuracy"` // the pool ("*") first, then classes; by dimension and horizon
	Saturation Saturation `json:"saturation"`
	Decisions  Decisions  `json:"decisions"`
	// Contradicts are the stated rates that differ from what was observed, by the newest decision.
	Contradicts []capacity.Contradiction `json:"contradicts,omitempty"`
	Timeline    *Timeline                `json:"timeline"` // null if no load or forecast is above 0
}

// Data counts the known minutes of the period.
type Data struct {
	Minutes  int `json:"minutes"`  // in the period
	Observed int `json:"observed"` // with known demand, in at least one dimension
	Decided  int `json:"decided"`  // with a decision in force
}

// Total is the demand of one class in the period. It leaves out records that came after
// features.revise, and unknown minutes. A count without any known minute is null.
type Total struct {
	Class        string `json:"class"`
	Requests     Number `json:"requests"`
	PromptTokens Number `json:"prompt_tokens"`
	CachedTokens Number `json:"cached_tokens"` // of PromptTokens
	OutputTokens Number `json:"output_tokens"`
}

// Accuracy has the scores of forecasts of one class and dimension at one horizon.
type Accuracy struct {
	Class     string `json:"class"` // "*" is the pool
	Dimension string `json:"dimension"`
	Unit      string `json:"unit"`
	Horizon   string `json:"horizon"` // minutes ahead, or forecaster.HorizonWindowMax

	Outcomes int    `json:"outcomes"` // forecasts with a known outcome
	Missing  int    `json:"missing"`  // forecasts with an unknown outcome
	Mean     Number `json:"mean"`     // demand

	WAPE  Number `json:"wape"`  // Σ|median − outcome| / Σ outcome
	Bias  Number `json:"bias"`  // Σ(median − outcome) / Σ outcome: positive is too high
	Skill Number `json:"skill"` // 1 − the absolute error / that of repeating the last value; negative is worse

	Q90 forecaster.Coverage `json:"q90"` // of the upper bound
}

// Saturation counts saturations and warnings. See the package comment for each definition.
type Saturation struct {
	KnownMinutes     int `json:"known_minutes"`     // in which demand and capacity are known
	SaturatedMinutes int `json:"saturated_minutes"` // of those, in which the load was above the planned capacity

	InTime  int `json:"in_time"`
	Late    int `json:"late"`
	Missed  int `json:"missed"`
	Averted int `json:"averted"`
	False   int `json:"false"`
	Open    int `json:"open"`

	// LeadMinutes is the median time from a warning to its saturation, averted ones included.
	LeadMinutes Number    `json:"lead_minutes"`
	Episodes    []Episode `json:"episodes"`
}

// Outcome of an episode.
type Outcome string

// The outcomes of an episode.
const (
	InTime Outcome = "in_time"
	Late   Outcome = "late"
	Missed Outcome = "missed"
)

// Episode is one saturation.
type Episode struct {
	Start       time.Time `json:"start"`
	Minutes     int       `json:"minutes"`     // from its first to its last saturated minute
	Resource    string    `json:"resource"`    // at its peak
	Utilisation Number    `json:"utilisation"` // at its peak, of the capacity that was ready; infinite (null) without a ready replica
	Forecast    Number    `json:"forecast"`    // of Utilisation: the median load forecast 15 minutes before, over the same capacity
	Outcome     Outcome   `json:"outcome"`
	LeadMinutes Number    `json:"lead_minutes"`    // from its warning; unknown when missed
	Cause       string    `json:"cause,omitempty"` // a sentence by the decision in force at its peak; absent if nothing is known
}

// Decisions counts decisions.
type Decisions struct {
	Mode       string `json:"mode"`                  // of the newest decision
	DecodeOnly bool   `json:"decode_only,omitempty"` // the pool has prefill replicas, which replicas, hours and saturations leave out

	Actions   int       `json:"actions"`    // changes of the desired replicas
	TakenBack int       `json:"taken_back"` // those of Actions that undo the one before within an hour
	Provision Provision `json:"provision"`
}

// Provision compares replicas with the need of the load. See the package comment for each definition.
type Provision struct {
	KnownMinutes   int    `json:"known_minutes"`              // with known demand, capacity and replicas; the others are sums over these
	LagMinutes     Number `json:"lag_minutes"`                // warm-up lag of Hindsight, of the newest decision
	GPUsPerReplica int    `json:"gpus_per_replica,omitempty"` // of the newest decision; absent if it has none
	ReplicaHourUSD Number `json:"replica_hour_usd"`           // of the newest decision

	Needed Amount `json:"needed"` // by the load
	Over   Amount `json:"over"`   // ready above need and reserves, and above replicas.min
	Under  Amount `json:"under"`  // missing for the need

	Paid      Amount `json:"paid"`      // ready and pending
	Static    Amount `json:"static"`    // a fixed number of replicas, enough for the peak
	Hindsight Amount `json:"hindsight"` // the least cost with known demand
}

// Amount is replica-hours, the same in GPU-hours if the GPUs of a replica are known, and the cost if prices are.
type Amount struct {
	ReplicaHours Number `json:"replica_hours"`
	GPUHours     Number `json:"gpu_hours"`
	USD          Number `json:"usd"`
}

// History is the stored past. Arguments of fn are valid during the call only; an error of fn ends the walk and is
// returned. Calls come in a fixed order, so the same history gives the same report. Intervals are [from, to).
type History interface {
	// Observed reads the settled demand of every pool, class (features.TotalClass for the pool) and dimension:
	// values[i] is the minute that starts at from + i minutes, NaN if unknown. from and to are whole minutes.
	Observed(ctx context.Context, from, to time.Time, fn func(key features.Key, dimension string, values []float64) error) error
	// Forecasts reads the forecasts issued in the interval by pool, class (the pool's total first), dimension and
	// origin. Minutes that are not stored are NaN.
	Forecasts(ctx context.Context, from, to time.Time, fn func(*forecaster.Forecast) error) error
	// Decisions reads the decisions of the interval by tick, then pool.
	Decisions(ctx context.Context, from, to time.Time, fn func(*alerting.Decision) error) error
}
