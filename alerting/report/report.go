package report

import (
	"encoding/json"
	"math"
	"time"
)

// Number is a value that may be unknown: NaN, which JSON shows as null.
type Number float64

// MarshalJSON gives null for what is not a finite number.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// Report is what a period's forecasts and decisions were worth. Pools are ordered by name; there is none when nothing
// was stored.
type Report struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Summary []string  `json:"summary"` // one sentence each
	Pools   []Pool    `json:"pools"`
}

// Pool is the report on one pool.
type Pool struct {
	Pool       string     `json:"pool"`
	Data       Data       `json:"data"`
	Totals     []Total    `json:"totals"`   // the pool ("*") first, then classes
	Accuracy   []Accuracy `json:"accuracy"` // the pool ("*") first, then classes; by dimension and horizon
	Saturation Saturation `json:"saturation"`
	Decisions  Decisions  `json:"decisions"`
}

// Data says how much of the period is known.
type Data struct {
	Minutes  int `json:"minutes"`  // in the period
	Observed int `json:"observed"` // whose demand is known, in at least one dimension
	Decided  int `json:"decided"`  // for which a decision stood
}

// Total is the demand of one class in the period, what came too late for its minute included. A count that is not known
// for a single minute is null; minutes that are not known count nothing.
type Total struct {
	Class        string    `json:"class"`
	Requests     Number    `json:"requests"`
	PromptTokens Number    `json:"prompt_tokens"`
	CachedTokens Number    `json:"cached_tokens"` // of PromptTokens
	OutputTokens Number    `json:"output_tokens"`
	Late         LateTotal `json:"late"`
}

// LateTotal is the part of a Total that came after features.revise, and is in no minute and no score.
type LateTotal struct {
	Records        float64 `json:"records"`
	Requests       float64 `json:"requests"`
	PromptTokens   float64 `json:"prompt_tokens"`
	CachedTokens   float64 `json:"cached_tokens"`
	OutputTokens   float64 `json:"output_tokens"`
	KVTokenSeconds float64 `json:"kv_token_seconds"` // of occupancy that is in no minute
	Share          Number  `json:"share"`            // of the prompt and output tokens of the Total
}

// Accuracy scores the forecasts of one class and dimension at one horizon.
type Accuracy struct {
	Class     string `json:"class"` // "*" is the pool
	Dimension string `json:"dimension"`
	Unit      string `json:"unit"`
	Horizon   string `json:"horizon"` // minutes ahead, or forecaster.HorizonWindowMax

	Outcomes int    `json:"outcomes"` // forecasts whose outcome is known
	Missing  int    `json:"missing"`  // forecasts whose outcome is not
	Mean     Number `json:"mean"`     // demand

	WAPE     Number `json:"wape"`      // Σ|median − outcome| / Σ outcome
	MASELag1 Number `json:"mase_lag1"` // the median's mean absolute error over the mean absolute change in a minute
	MASEDay  Number `json:"mase_day"`  // over that in a day
	Bias     Number `json:"bias"`      // Σ(median − outcome) / Σ outcome: positive is too high
	Skill    Number `json:"skill"`     // share of the last value's absolute error that is gone; negative is worse
	Pinball  Number `json:"pinball"`   // mean over forecaster.ScoredLevels, in Unit
	CRPS     Number `json:"crps"`      // in Unit

	Q80 Covered `json:"q80"`
	Q90 Covered `json:"q90"`
	Q95 Covered `json:"q95"`
	Q99 Covered `json:"q99"`

	Baselines []Against `json:"baselines"`
	PIT       []int     `json:"pit"` // outcomes by the level that the forecast gave them, in ten bins
}

// Covered is the share of outcomes at or below a quantile, with its 95 % Wilson interval for the effective number of
// outcomes: those of overlapping horizons depend on each other and count for less.
type Covered struct {
	Share     Number `json:"share"`
	Low       Number `json:"low"`
	High      Number `json:"high"`
	Effective Number `json:"effective_n"`
}

// Against compares forecasts with a baseline that has the quantiles of its own past errors; see forecaster.Comparison.
type Against struct {
	Baseline string `json:"baseline"`
	Outcomes int    `json:"outcomes"` // that both forecast
	Skill    Number `json:"skill"`    // share of the baseline's pinball that is gone; negative is worse
	DM       Number `json:"dm"`       // Diebold–Mariano statistic, negative when the forecasts are better
	P        Number `json:"p"`        // two-sided
}

// Saturation says how announcements and saturations met. See the package comment for what each count means.
type Saturation struct {
	Probability      float64 `json:"probability"`       // from which a decision announces
	KnownMinutes     int     `json:"known_minutes"`     // in which demand and capacity are known
	SaturatedMinutes int     `json:"saturated_minutes"` // of those

	InTime  int `json:"in_time"`
	Late    int `json:"late"`
	Missed  int `json:"missed"`
	Averted int `json:"averted"`
	False   int `json:"false"`
	Open    int `json:"open"`

	// LeadMinutes is the median time from an announcement to the crossing it announced, averted ones included.
	LeadMinutes Number    `json:"lead_minutes"`
	Episodes    []Episode `json:"episodes"`
}

// Outcome says whether an episode was announced.
type Outcome string

// The outcomes of an episode.
const (
	InTime Outcome = "in_time"
	Late   Outcome = "late"
	Missed Outcome = "missed"
)

// Episode is one saturation that came.
type Episode struct {
	Start       time.Time `json:"start"`
	Minutes     int       `json:"minutes"`     // from its first to its last saturated minute
	Resource    string    `json:"resource"`    // at its peak
	Utilisation Number    `json:"utilisation"` // at its peak, of the capacity that was ready
	Outcome     Outcome   `json:"outcome"`
	LeadMinutes Number    `json:"lead_minutes"` // from its announcement; unknown when missed
}

// Decisions adds up what was asked for.
type Decisions struct {
	Mode     string `json:"mode"` // of the newest decision
	Ticks    int    `json:"ticks"`
	Stale    int    `json:"stale"`   // ticks held for want of fresh telemetry
	Clamped  int    `json:"clamped"` // ticks on which a constraint bound
	ScaleOut int    `json:"scale_out"`
	ScaleIn  int    `json:"scale_in"`
	Hold     int    `json:"hold"`
	Events   int    `json:"events"` // pre-scale events: advice that changed

	ReadyReplicaHours   float64 `json:"ready_replica_hours"`
	DesiredReplicaHours float64 `json:"desired_replica_hours"`
	PeakReady           int     `json:"peak_ready"`
	PeakDesired         int     `json:"peak_desired"`
}
