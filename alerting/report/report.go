package report

import (
	"encoding/json"
	"math"
	"time"

	"github.com/forewarm/forewarm/features"
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
	Zone    Zone      `json:"timezone"` // by whose clock people are told; times here are UTC
	Summary []string  `json:"summary"`  // one sentence each
	Pools   []Pool    `json:"pools"`
}

// Pool is the report on one pool.
type Pool struct {
	Pool   string  `json:"pool"`
	Data   Data    `json:"data"`
	Totals []Total `json:"totals"` // the pool ("*") first, then classes
	// Traffic is the shape of demand: the pool first, then classes by name; by dimension.
	Traffic    []features.Traffic `json:"traffic"`
	Accuracy   []Accuracy         `json:"accuracy"` // the pool ("*") first, then classes; by dimension and horizon
	Saturation Saturation         `json:"saturation"`
	Decisions  Decisions          `json:"decisions"`
	Cost       Cost               `json:"cost"`

	LargeErrors []LargeErrors  `json:"large_errors"` // of the pool's forecasts: all of them, by resource
	Errors      []ErrorEpisode `json:"errors"`       // those that are explained, by incident, the largest first
	Drift       []Drift        `json:"drift"`        // of the pool's forecasts at the headline horizon, by dimension
	Assumptions []Assumption   `json:"assumptions"`  // that the newest decision rests on
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
	Decided  int `json:"decided"`  // for which a decision stood

	Gaps       []Gap `json:"gaps"` // the longest runs of minutes without known demand, by time
	GapCount   int   `json:"gap_count"`
	LongestGap int   `json:"longest_gap"` // minutes

	ClassesLeftOut int `json:"classes_left_out"` // light ones, beyond the bound of a report; they are in the pool's totals
}

// Gap is a run of minutes of which no demand is known.
type Gap struct {
	Start   time.Time `json:"start"`
	Minutes int       `json:"minutes"`
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

	Losses    []LevelLoss `json:"losses"`    // pinball at forecaster.ScoredLevels
	Intervals []Interval  `json:"intervals"` // central ones

	Q50 Covered `json:"q50"`
	Q80 Covered `json:"q80"`
	Q90 Covered `json:"q90"`
	Q95 Covered `json:"q95"`
	Q99 Covered `json:"q99"`

	Baselines []Against `json:"baselines"`
	Best      string    `json:"best_baseline,omitempty"` // the one that is hardest to beat; missing when none can be compared
	PIT       []int     `json:"pit"`                     // outcomes by the level that the forecast gave them, in ten bins
}

// Covered is the share of outcomes at or below a quantile, with its 95 % Wilson interval for the effective number of
// outcomes: those of overlapping horizons depend on each other and count for less.
type Covered struct {
	Share     Number `json:"share"`
	Low       Number `json:"low"`
	High      Number `json:"high"`
	Effective Number `json:"effective_n"`
}

// LevelLoss is the mean pinball loss at one level, in the dimension's unit.
type LevelLoss struct {
	Level float64 `json:"level"`
	Loss  Number  `json:"loss"`
}

// Interval is the share of outcomes within a central interval, bounds included: from level (1 − Central)/2 to
// (1 + Central)/2.
type Interval struct {
	Central      float64 `json:"central"`
	Held         Number  `json:"held"`
	Interpolated bool    `json:"interpolated"` // its bounds are none of forecaster.Levels; see the package comment
}

// Against compares forecasts with a baseline that has the quantiles of its own past errors; see forecaster.Comparison.
type Against struct {
	Baseline string `json:"baseline"`
	Outcomes int    `json:"outcomes"` // that both forecast
	Skill    Number `json:"skill"`    // share of the baseline's pinball that is gone; negative is worse
	DM       Number `json:"dm"`       // Diebold–Mariano statistic, negative when the forecasts are better
	P        Number `json:"p"`        // two-sided

	PointSkill Number `json:"point_skill"` // share of the absolute error of what the baseline expects that is gone, by the median
}

// Saturation says how announcements and saturations met. See the package comment for what each count means.
type Saturation struct {
	Probability      float64 `json:"probability"`       // from which a decision announces that does not say from which its pool is warned
	KnownMinutes     int     `json:"known_minutes"`     // in which demand and capacity are known
	SaturatedMinutes int     `json:"saturated_minutes"` // of those
	AnnouncedMinutes int     `json:"announced_minutes"` // in which a decision announced: one that always does is never late, and says nothing

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

	Actions   int       `json:"actions"` // changes of the replicas asked for
	Thrash    Thrash    `json:"thrash"`
	Asks      Asks      `json:"asks"`
	Provision Provision `json:"provision"`
}

// Thrash counts actions that took the one before it back.
type Thrash struct {
	WithinHour int `json:"within_hour"`
	WithinLead int `json:"within_lead"` // the lead time of the earlier one's decision
}

// Asks follows every replica that was asked for beyond those that were there or on the way.
type Asks struct {
	Replicas  int `json:"replicas"`
	Ready     int `json:"ready"`     // came
	Withdrawn int `json:"withdrawn"` // no longer asked for before they came
	Ignored   int `json:"ignored"`   // still asked for and not ready after twice the lead time and an hour at least: nobody obeyed
	Waiting   int `json:"waiting"`   // none of these, at the end of the period

	VisibleToEvent  Spread `json:"visible_to_event"`  // decision lag, minutes: from when the need could be seen to the decision that asked
	EventToReady    Spread `json:"event_to_ready"`    // minutes, of those that came
	EventToCrossing Spread `json:"event_to_crossing"` // minutes, of those that demand took: the lead time that was achieved
	QueueMeanwhile  Spread `json:"queue_meanwhile"`   // most requests waiting in the pool between the event and ready, by ask

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
	Max   Number `json:"max"`
}

// Provision compares what was there with what demand took. See the package comment for each definition.
type Provision struct {
	KnownMinutes   int    `json:"known_minutes"`              // in which demand, capacity and replicas are known; all but Ready and Pending are over these
	AssumedMinutes int    `json:"assumed_minutes"`            // of those, in which no replica reported: replicas are what was believed
	LagMinutes     Number `json:"lag_minutes"`                // warm-up lag of the clairvoyant
	GPUsPerReplica int    `json:"gpus_per_replica,omitempty"` // of the newest decision; missing when the journal does not have it
	ReplicaHourUSD Number `json:"replica_hour_usd"`           // of the newest decision
	ShortMinuteUSD Number `json:"short_minute_usd"`           // of a minute short of one replica, where that is configured

	Ready   Amount `json:"ready"`
	Pending Amount `json:"pending"` // warming up
	Needed  Amount `json:"needed"`  // what demand took
	Over    Amount `json:"over"`    // ready beyond demand and reserves, and beyond the least size of the pool
	Under   Amount `json:"under"`   // missing where demand took more than was ready

	Paid        Amount `json:"paid"`        // ready and pending
	Clairvoyant Amount `json:"clairvoyant"` // the least that would have been paid by one who knew demand
	Regret      Amount `json:"regret"`      // Paid − Clairvoyant; negative when less was paid than demand took
	ShortUSD    Number `json:"short_usd"`   // replica-minutes of Under × ShortMinuteUSD
}

// Amount is replica-hours, what they are in GPU-hours where the GPUs of a replica are known, and what they cost where
// prices are.
type Amount struct {
	ReplicaHours Number `json:"replica_hours"`
	GPUHours     Number `json:"gpu_hours"`
	USD          Number `json:"usd"`
}

// Cause is a reason why utilisation was not as forecast.
type Cause string

// The causes of errors, in the order in which they are reported.
const (
	CauseDemand    Cause = "demand_level"   // more or fewer requests
	CauseMix       Cause = "class_mix"      // other classes than expected
	CausePrompt    Cause = "prompt_length"  // longer or shorter prompts
	CauseOutput    Cause = "output_length"  // longer or shorter answers
	CauseCache     Cause = "cache_hit"      // more or fewer prompt tokens to compute
	CauseHeld      Cause = "holding_time"   // tokens are held longer or shorter than their number says: slower or faster service
	CauseRetries   Cause = "retries"        // attempts at calls that were counted before
	CauseCapacity  Cause = "capacity_model" // a replica carries more or less than was believed
	CauseWarmup    Cause = "warm_up"        // replicas came later or sooner than the warm-up lag said
	CauseTelemetry Cause = "telemetry_loss" // records that were late or lost, when it was forecast or when it came
)

// LargeErrors counts the episodes in which the utilisation of one resource was far from what was forecast of it.
type LargeErrors struct {
	Resource  string `json:"resource"`
	Horizon   string `json:"horizon"`   // minutes ahead; one for all of a pool
	Forecasts int    `json:"forecasts"` // of which all is known that utilisation takes
	Large     Number `json:"large"`     // from which difference of utilisation on one is large
	Episodes  int    `json:"episodes"`
	Minutes   int    `json:"minutes"` // that the forecasts in them stand for that were far off
	Size      Number `json:"size"`    // Σ|difference| over these minutes

	Explained     int    `json:"explained"`      // episodes that Pool.Errors has; the others are smaller
	ExplainedSize Number `json:"explained_size"` // of Size, theirs
}

// ErrorEpisode is a run of minutes in which the utilisation of one resource was far from what was forecast of it, and
// why. Utilisation is load over the capacity of the replicas that were ready; all
// figures are means over the Attributed forecasts.
type ErrorEpisode struct {
	Incident   int       `json:"incident"` // number of the incident: errors of one sign at about the same time; the first is shown, the others are named
	Start      time.Time `json:"start"`
	Minutes    int       `json:"minutes"`    // from the first to the last that its forecasts stand for
	Attributed int       `json:"attributed"` // forecasts that the figures are of
	Resource   string    `json:"resource"`
	Horizon    string    `json:"horizon"` // minutes ahead; one for all of a pool

	Forecast Number        `json:"forecast_utilisation"`
	Actual   Number        `json:"actual_utilisation"`
	Error    Number        `json:"error"`          // Actual − Forecast
	Parts    []ErrorPart   `json:"parts"`          // of Error, by cause, in the order of the causes: they add up to it
	Drivers  []ErrorDriver `json:"drivers"`        // the largest parts by class and cause
	Note     string        `json:"note,omitempty"` // what makes this less than sure; missing when nothing does
}

// ErrorPart is how much of an error a cause explains; negative where utilisation would have been lower for it.
type ErrorPart struct {
	Cause  Cause  `json:"cause"`
	Amount Number `json:"amount"` // of utilisation
}

// ErrorDriver is the part of one class in one cause.
type ErrorDriver struct {
	Class  string `json:"class"`
	Cause  Cause  `json:"cause"`
	Amount Number `json:"amount"`
}

// Drift compares the two halves of the period.
type Drift struct {
	Dimension string `json:"dimension"`
	Horizon   string `json:"horizon"`
	First     Half   `json:"first_half"`
	Second    Half   `json:"second_half"`
}

// Half is what forecasts were worth in half of the period.
type Half struct {
	Outcomes int    `json:"outcomes"`
	WAPE     Number `json:"wape"`
	Bias     Number `json:"bias"`
	Q50      Number `json:"q50"` // shares of outcomes at or below
	Q90      Number `json:"q90"`
	Q99      Number `json:"q99"`
}

// Assumption is a number that decisions rest on, and what is known of it now.
type Assumption struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Stated  Number `json:"stated"`  // in the configuration, or of a benchmark that it names
	Used    Number `json:"used"`    // by the newest decision
	Learned Number `json:"learned"` // from telemetry, as of the newest decision
	Off     Number `json:"off"`     // Stated / Learned − 1, without Stated Used / Learned − 1

	Confirmed *time.Time `json:"confirmed"` // when evidence last came; null when none did in the period
	AgeDays   Number     `json:"age_days"`  // from then, or from the date it bears, to the end of the period
	Note      string     `json:"note,omitempty"`
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
