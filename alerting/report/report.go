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
	Zone    Zone      `json:"timezone"` // of the times in Markdown, page and mail; times here are UTC
	Summary []string  `json:"summary"`  // one sentence each: traffic, saturation, warnings, forecasts, cost
	Pools   []Pool    `json:"pools"`
}

// Pool is the report on one pool.
type Pool struct {
	Pool           string       `json:"pool"`
	Data           Data         `json:"data"`
	Totals         []Total      `json:"totals"`          // the pool ("*") first, then classes
	RequestsBefore Number       `json:"requests_before"` // of the pool, in the same span before the period
	Accuracy       []Accuracy   `json:"accuracy"`        // the pool ("*") first, then classes; by dimension and horizon
	Saturation     Saturation   `json:"saturation"`
	Decisions      Decisions    `json:"decisions"`
	Cost           Cost         `json:"cost"`
	Assumptions    []Assumption `json:"assumptions"` // of the newest decision
	// OtherSettings are filled by who can run the period again; OtherSettingsNote says how they were obtained, or why there
	// are none.
	OtherSettings     []OtherSetting `json:"other_settings,omitempty"`
	OtherSettingsNote string         `json:"other_settings_note,omitempty"`

	Timeline *Timeline `json:"timeline"` // null when neither capacity nor forecasts are known
}

// Data says how much of the period is known.
type Data struct {
	Minutes  int `json:"minutes"`  // in the period
	Observed int `json:"observed"` // whose demand is known, in at least one dimension
	Decided  int `json:"decided"`  // in which a decision was in force

	Gaps     []Gap `json:"gaps"` // the longest runs of minutes without known demand, by time
	GapCount int   `json:"gap_count"`

	ClassesLeftOut int `json:"classes_left_out"` // light ones, beyond the bound of a report; they are in the pool's totals
}

// Gap is a run of minutes of which no demand is known.
type Gap struct {
	Start   time.Time `json:"start"`
	Minutes int       `json:"minutes"`
}

// Total is the demand of one class in the period, late records included. A count that is not known for a single minute is
// null; minutes that are not known count nothing.
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

	WAPE  Number `json:"wape"`  // Σ|median − outcome| / Σ outcome
	Bias  Number `json:"bias"`  // Σ(median − outcome) / Σ outcome: positive is too high
	Skill Number `json:"skill"` // share of the last value's absolute error that is gone; negative is worse

	Q50 Covered `json:"q50"`
	Q80 Covered `json:"q80"`
	Q90 Covered `json:"q90"`
	Q95 Covered `json:"q95"`
	Q99 Covered `json:"q99"`
}

// Covered is the share of outcomes at or below a quantile, with its 95 % Wilson interval for the effective number of
// outcomes: those of overlapping horizons depend on each other and count for less.
type Covered struct {
	Share     Number `json:"share"`
	Low       Number `json:"low"`
	High      Number `json:"high"`
	Effective Number `json:"effective_n"`
}

// Saturation says which saturations were warned of. See the package comment for what each count means.
type Saturation struct {
	Probability      float64 `json:"probability"`       // from which a decision is a warning, where the decision has no threshold of its own
	KnownMinutes     int     `json:"known_minutes"`     // in which demand and capacity are known
	SaturatedMinutes int     `json:"saturated_minutes"` // of those, in which the load was above the planned capacity
	WarnedMinutes    int     `json:"warned_minutes"`    // in which a decision warned: one that always does is never late, and says nothing

	InTime  int `json:"in_time"`
	Late    int `json:"late"`
	Missed  int `json:"missed"`
	Averted int `json:"averted"`
	False   int `json:"false"`
	Open    int `json:"open"`

	// LeadMinutes is the median time from a warning to the saturation it warned of, averted ones included.
	LeadMinutes Number    `json:"lead_minutes"`
	Episodes    []Episode `json:"episodes"`
}

// Outcome says whether an episode was warned of.
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
	Utilisation Number    `json:"utilisation"` // at its peak, of the capacity that was ready
	Forecast    Number    `json:"forecast"`    // of Utilisation: the median load, Timeline.Ahead minutes before, over the same capacity
	Outcome     Outcome   `json:"outcome"`
	LeadMinutes Number    `json:"lead_minutes"`    // from its warning; unknown when missed
	Cause       string    `json:"cause,omitempty"` // a sentence; missing when nothing is known
}

// Decisions adds up what was asked for.
type Decisions struct {
	Mode    string `json:"mode"` // of the newest decision
	Ticks   int    `json:"ticks"`
	Stale   int    `json:"stale"`   // decisions without fresh telemetry
	Clamped int    `json:"clamped"` // decisions that a limit held back
	Events  int    `json:"events"`  // pre-scale events: advice that changed

	PeakReady   int `json:"peak_ready"`
	PeakDesired int `json:"peak_desired"`

	Actions   int       `json:"actions"`    // changes of the replicas asked for
	TakenBack int       `json:"taken_back"` // of Actions, those that undo the one before within an hour
	Asks      Asks      `json:"asks"`
	Provision Provision `json:"provision"`
}

// Asks follows every replica that was asked for beyond those that were there or on the way.
type Asks struct {
	Replicas  int `json:"replicas"`
	Ready     int `json:"ready"`     // came
	Withdrawn int `json:"withdrawn"` // no longer asked for before they came
	Ignored   int `json:"ignored"`   // still asked for and not ready after twice the lead time and an hour at least: nobody obeyed
	Waiting   int `json:"waiting"`   // none of these, at the end of the period

	EventToReady Spread `json:"event_to_ready"` // minutes, of those that came

	InTime   int `json:"in_time"`  // ready when demand first took them
	Late     int `json:"late"`     // demand took them before they were ready
	Unneeded int `json:"unneeded"` // given up, or still there at the end, without demand having taken them
	Unknown  int `json:"unknown"`  // likewise, but in some minute demand is not known
}

// Spread is quantiles of what was counted for each ask, unknown without any.
type Spread struct {
	Count int    `json:"count"`
	P50   Number `json:"p50"`
	P90   Number `json:"p90"`
}

// Provision compares what was there with what demand took. See the package comment for each definition.
type Provision struct {
	KnownMinutes   int    `json:"known_minutes"`              // in which demand, capacity and replicas are known; all but Ready and Pending are over these
	AssumedMinutes int    `json:"assumed_minutes"`            // of those, in which no replica reported: replicas are what was believed
	LagMinutes     Number `json:"lag_minutes"`                // warm-up lag of Hindsight
	GPUsPerReplica int    `json:"gpus_per_replica,omitempty"` // of the newest decision; missing when the log does not have it
	ReplicaHourUSD Number `json:"replica_hour_usd"`           // of the newest decision
	ShortMinuteUSD Number `json:"short_minute_usd"`           // of a minute short of one replica, where that is configured

	Ready   Amount `json:"ready"`
	Pending Amount `json:"pending"` // warming up
	Needed  Amount `json:"needed"`  // what demand took
	Over    Amount `json:"over"`    // ready beyond demand and reserves, and beyond the least size of the pool
	Under   Amount `json:"under"`   // missing where demand took more than was ready

	Paid      Amount `json:"paid"`      // ready and pending
	Static    Amount `json:"static"`    // a fixed number of replicas that is enough for the peak
	Hindsight Amount `json:"hindsight"` // the least that would have been paid by one who knew demand
	ShortUSD  Number `json:"short_usd"` // replica-minutes of Under × ShortMinuteUSD
}

// Amount is replica-hours, what they are in GPU-hours where the GPUs of a replica are known, and what they cost where
// prices are.
type Amount struct {
	ReplicaHours Number `json:"replica_hours"`
	GPUHours     Number `json:"gpu_hours"`
	USD          Number `json:"usd"`
}

// Assumption is a number that decisions rest on: stated in the configuration, learned from telemetry, and used.
type Assumption struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Stated  Number `json:"stated"`
	Learned Number `json:"learned"`
	Used    Number `json:"used"`
}

// OtherSetting is what the period would have cost with another value of a setting, all else as configured. Both figures of
// a kind come from the same run of the recorded demand.
type OtherSetting struct {
	Setting             string `json:"setting"` // key in the configuration, such as decision.cooldown
	Now                 string `json:"now"`
	Other               string `json:"other"`
	GPUHoursNow         Number `json:"gpu_hours_now"` // replica-hours where the GPUs of a replica are not known
	GPUHours            Number `json:"gpu_hours"`
	SaturatedMinutesNow int    `json:"saturated_minutes_now"`
	SaturatedMinutes    int    `json:"saturated_minutes"`
}
