package alerting

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Action is what a decision requests from the autoscaler.
type Action string

// The actions. Hold is also the action if the evidence is stale or too little.
const (
	ScaleOut Action = "scale_out"
	ScaleIn  Action = "scale_in"
	Hold     Action = "hold"
)

// Mode says whether autoscalers should follow decisions.
type Mode string

// The modes. Advisory is the default of a first installation.
const (
	Advisory Mode = "advisory"
	Active   Mode = "active"
)

// QuantileSource is the source of the decision quantile.
type QuantileSource string

// The sources of a quantile.
const (
	QuantileStated   QuantileSource = "stated"  // in the configuration
	QuantileFromCost QuantileSource = "cost"    // newsvendor: shortage cost over shortage plus surplus cost
	QuantileDefault  QuantileSource = "default" // neither is known
)

// Decision is the result of Decide for one pool at one tick, with its evidence. The log stores it and the sinks render
// it. The same inputs give the same bytes.
type Decision struct {
	Pool       string    `json:"pool" cbor:"1,keyasint"`
	Tick       time.Time `json:"tick" cbor:"2,keyasint"`
	Sequence   uint64    `json:"sequence" cbor:"3,keyasint"`   // sequence of the newest message applied
	Generation int64     `json:"generation" cbor:"4,keyasint"` // the Unix minute of a pool's first decision, plus 1 per publication
	Publish    bool      `json:"publish" cbor:"5,keyasint"`    // this tick changes or renews the published advice

	Mode     Mode      `json:"mode" cbor:"6,keyasint"`
	Action   Action    `json:"action" cbor:"7,keyasint"`
	Ready    int       `json:"ready" cbor:"8,keyasint"`
	Pending  int       `json:"pending" cbor:"9,keyasint"`
	Desired  int       `json:"desired" cbor:"10,keyasint"`
	Floor    int       `json:"floor" cbor:"11,keyasint"` // the reactive floor
	NeededBy time.Time `json:"needed_by" cbor:"12,keyasint"`
	Expires  time.Time `json:"expires_at" cbor:"13,keyasint"`

	Binding string `json:"binding_resource" cbor:"14,keyasint"`
	// Probability is that of saturation within the lead window without scaling; invalid if Binding is empty.
	Probability float64               `json:"probability" cbor:"15,keyasint"`
	ETA         forecaster.ETA        `json:"eta" cbor:"16,keyasint"`
	Lead        time.Duration         `json:"lead" cbor:"17,keyasint"`
	Quantile    float64               `json:"quantile" cbor:"18,keyasint"`
	Confidence  forecaster.Confidence `json:"confidence" cbor:"19,keyasint"`
	Stale       bool                  `json:"stale" cbor:"20,keyasint"`

	Resources   []ResourceEvidence  `json:"resources" cbor:"21,keyasint"`
	Drivers     []forecaster.Driver `json:"drivers" cbor:"22,keyasint"`
	Constraints []Constraint        `json:"constraints" cbor:"50,keyasint"` // key 23 has texts in older logs
	Warnings    []string            `json:"warnings" cbor:"24,keyasint"`
	Reason      string              `json:"reason" cbor:"25,keyasint"` // one sentence for a person
	Model       string              `json:"model" cbor:"26,keyasint"`  // of the forecast of the binding resource: network, or last value

	Needed       int               `json:"needed" cbor:"27,keyasint"`   // before the constraints
	Reserves     capacity.Reserves `json:"reserves" cbor:"28,keyasint"` // those of prefill replicas are in ByRole
	QuantileFrom QuantileSource    `json:"quantile_from" cbor:"29,keyasint"`
	Limit        int               `json:"limit" cbor:"31,keyasint"`    // largest number of replicas that the pool's bounds allow
	AskedAt      time.Time         `json:"asked_at" cbor:"30,keyasint"` // newest request for more replicas; zero if never

	ByRole *Roles `json:"desired_by_role,omitempty" cbor:"34,keyasint,omitempty"` // of a disaggregated pool
	// Events are those of the calendar, in the forecast of Binding.
	Events []forecaster.EventEffect `json:"events,omitempty" cbor:"36,keyasint,omitempty"`

	Admission []AdmissionLimit `json:"admission_limits,omitempty" cbor:"37,keyasint,omitempty"` // when saturation cannot be averted

	Basis *Basis `json:"basis,omitempty" cbor:"40,keyasint,omitempty"` // nil if none was given

	KeepQuantile float64 `json:"keep_quantile,omitempty" cbor:"42,keyasint,omitempty"` // of demand, that a smaller pool must hold

	// Prompts are the resources of a disaggregated pool's prefill replicas; Resources are those of its decode replicas.
	Prompts []ResourceEvidence `json:"prefill_resources,omitempty" cbor:"43,keyasint,omitempty"`

	// Limits are those of the whole pool, which more replicas do not raise: PerReplica is the limit per second, and
	// Probability that of reaching it within the lead time and Config.Hold.
	Limits []ResourceEvidence `json:"-" cbor:"45,keyasint,omitempty"`

	// WarnFrom is the threshold of warnings: a probability of saturation within forecaster.WarningWindow.
	WarnFrom float64 `json:"warn_from,omitempty" cbor:"44,keyasint,omitempty"`

	// Objectives are the latencies of the newest minutes and their objectives, as far as both are known. Breach is nil
	// while the latencies are within them.
	Objectives []Objective `json:"objectives,omitempty" cbor:"48,keyasint,omitempty"`
	Breach     *Breach     `json:"breach,omitempty" cbor:"49,keyasint,omitempty"`

	Unreported int `json:"-" cbor:"47,keyasint,omitempty"` // of Pending: requested, but not in any report yet

	SupplyAssumed bool      `json:"supply_assumed" cbor:"32,keyasint"` // no replica reports: Ready and Pending are assumed
	FromZero      bool      `json:"-" cbor:"71,keyasint,omitempty"`    // none is ready since 0 were desired, nor late
	Lost          int       `json:"-" cbor:"72,keyasint,omitempty"`    // replicas that no longer report
	LostAt        time.Time `json:"-" cbor:"73,keyasint,omitzero"`     // first tick without one of them

	// Withheld is why autoscalers do not get Desired in any mode; "" if they do.
	Withheld string `json:"withheld,omitempty" cbor:"70,keyasint,omitempty"`
}

// ResourceEvidence is the evidence of a decision on one resource.
type ResourceEvidence struct {
	Dimension    string         `json:"resource" cbor:"1,keyasint"`
	PerReplica   float64        `json:"replica_capacity" cbor:"2,keyasint"` // in the resource's own unit, like the demands
	Demand       float64        `json:"demand" cbor:"3,keyasint"`
	NeedQuantile float64        `json:"demand_quantile" cbor:"4,keyasint"` // demand at the decision quantile in the lead window
	NeedReplicas int            `json:"needed_replicas" cbor:"5,keyasint"` // for demand_quantile, before reserves and bounds
	Probability  float64        `json:"saturation_probability" cbor:"6,keyasint"`
	ETA          forecaster.ETA `json:"-" cbor:"7,keyasint"`
	Ahead        float64        `json:"warning_probability" cbor:"9,keyasint,omitempty"` // of saturation within the lead time and 15 minutes
	Retries      *Retried       `json:"retries,omitempty" cbor:"10,keyasint,omitempty"`  // what they add to the demands
}

// Constraint is a bound that changed a number of replicas.
type Constraint struct {
	_ struct{} `cbor:",toarray"`

	Key    string // of the configuration; retriesKey for the bound on replicas for retries
	Bound  int    // in replicas
	Wanted int    // replicas
}

// The keys of constraints that texts need.
const (
	budgetKey  = "budget_hour_usd"
	retriesKey = "retries"
)

// String is such as "replicas.max 16: 19 wanted".
func (c Constraint) String() string {
	if c.Key == budgetKey {
		return fmt.Sprintf("%s, enough for %d: %d wanted", c.Key, c.Bound, c.Wanted)
	}
	return fmt.Sprintf("%s %d: %d wanted", c.Key, c.Bound, c.Wanted)
}

// Ahead is the probability that a resource saturates within forecaster.WarningWindow, for warnings. It is without the
// prefill replicas of a disaggregated pool, because their number is not reported.
func (d *Decision) Ahead() (probability float64) {
	for i := range d.Resources {
		probability = max(probability, d.Resources[i].Ahead)
	}
	return probability
}

// EventID is the idempotency key of the published advice: the same pool and generation is the same event.
func (d *Decision) EventID() string { return d.Pool + "-" + strconv.FormatInt(d.Generation, 10) }

// Basis is the assumptions of a decision about its pool. Reports compare them with what happened. Zero is unknown.
type Basis struct {
	GPUsPerReplica int     `json:"gpus_per_replica,omitempty" cbor:"1,keyasint,omitempty"`
	ReplicaHourUSD float64 `json:"replica_hour_usd,omitempty" cbor:"2,keyasint,omitempty"`
	Least          int     `json:"least,omitempty" cbor:"5,keyasint,omitempty"` // replicas.min

	Warmup WarmupBasis `json:"warmup" cbor:"6,keyasint"`

	Contradicts []capacity.Contradiction `json:"contradicts,omitempty" cbor:"9,keyasint,omitempty"` // of observed and stated rates
}

// WarmupBasis is the stated and the used warm-up lag: median and 90th percentile in seconds.
type WarmupBasis struct {
	_ struct{} `cbor:",toarray"`

	StatedP50 float64 `json:"stated_p50_seconds"`
	StatedP90 float64 `json:"stated_p90_seconds"`
	P50       float64 `json:"p50_seconds"`
	P90       float64 `json:"p90_seconds"`
	Seen      int     `json:"seen"` // all lags observed; the newest 12 are used
}

// NewBasis is the basis from the pool's configuration, the used warm-up lag and the learned rates.
func NewBasis(stated *capacity.Pool, warmup *capacity.Warmup, contradicts []capacity.Contradiction) *Basis {
	return &Basis{
		GPUsPerReplica: stated.GPU.PerReplica, ReplicaHourUSD: stated.ReplicaHourUSD(), Least: stated.Replicas.Min,
		Warmup: WarmupBasis{
			StatedP50: stated.Warmup.Quantile(.5).Seconds(), StatedP90: stated.Warmup.Quantile(.9).Seconds(),
			P50: warmup.Quantile(.5).Seconds(), P90: warmup.Quantile(.9).Seconds(), Seen: warmup.Seen,
		},
		Contradicts: slices.Clone(contradicts),
	}
}
