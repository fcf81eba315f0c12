package alerting

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Action is what a decision asks of the autoscaler.
type Action string

// The actions. Hold is also the answer to stale or thin evidence.
const (
	ScaleOut Action = "scale_out"
	ScaleIn  Action = "scale_in"
	Hold     Action = "hold"
)

// Mode says whether anyone is meant to act on a decision.
type Mode string

// The modes. Advisory is the default of a first installation.
const (
	Advisory Mode = "advisory"
	Active   Mode = "active"
)

// QuantileSource says why a decision provides for the quantile it does.
type QuantileSource string

// The sources of a quantile.
const (
	QuantileStated   QuantileSource = "stated"  // in the configuration
	QuantileFromCost QuantileSource = "cost"    // newsvendor: shortage cost over shortage plus surplus cost
	QuantileDefault  QuantileSource = "default" // neither is known
)

// Decision is what Decide concluded for one pool at one tick, with the evidence it was made from. It is a value: the
// journal stores it, the sinks render it, and the same inputs make the same bytes again.
type Decision struct {
	Pool       string    `json:"pool" cbor:"1,keyasint"`
	Tick       time.Time `json:"tick" cbor:"2,keyasint"`
	Sequence   uint64    `json:"sequence" cbor:"3,keyasint"`   // sequence of the newest message applied
	Generation int64     `json:"generation" cbor:"4,keyasint"` // the Unix minute of a pool's first decision, then one more per publication
	Publish    bool      `json:"publish" cbor:"5,keyasint"`    // this tick changes or renews the published advice

	Mode     Mode      `json:"mode" cbor:"6,keyasint"`
	Action   Action    `json:"action" cbor:"7,keyasint"`
	Ready    int       `json:"ready" cbor:"8,keyasint"`
	Pending  int       `json:"pending" cbor:"9,keyasint"`
	Desired  int       `json:"desired" cbor:"10,keyasint"`
	Floor    int       `json:"floor" cbor:"11,keyasint"` // the reactive floor
	NeededBy time.Time `json:"needed_by" cbor:"12,keyasint"`
	Expires  time.Time `json:"expires_at" cbor:"13,keyasint"`

	Binding     string                `json:"binding_resource" cbor:"14,keyasint"`
	Probability float64               `json:"probability" cbor:"15,keyasint"` // meaningless where Binding is empty: see Risk
	ETA         forecaster.ETA        `json:"eta" cbor:"16,keyasint"`
	Lead        time.Duration         `json:"lead" cbor:"17,keyasint"`
	Quantile    float64               `json:"quantile" cbor:"18,keyasint"`
	Confidence  forecaster.Confidence `json:"confidence" cbor:"19,keyasint"`
	Stale       bool                  `json:"stale" cbor:"20,keyasint"`

	Resources   []ResourceEvidence  `json:"resources" cbor:"21,keyasint"`
	Drivers     []forecaster.Driver `json:"drivers" cbor:"22,keyasint"`
	Constraints []string            `json:"constraints" cbor:"23,keyasint"`
	Warnings    []string            `json:"warnings" cbor:"24,keyasint"`
	Reason      string              `json:"reason" cbor:"25,keyasint"` // one sentence for a person
	Model       string              `json:"model" cbor:"26,keyasint"`  // what the forecast of the binding resource is from: network, or last value

	Needed       int               `json:"needed" cbor:"27,keyasint"`   // what evidence asks for, before the constraints
	Reserves     capacity.Reserves `json:"reserves" cbor:"28,keyasint"` // of prefill replicas see Roles
	QuantileFrom QuantileSource    `json:"quantile_from" cbor:"29,keyasint"`
	Limit        int               `json:"limit" cbor:"31,keyasint"`    // the most replicas that the pool's bounds allow
	AskedAt      time.Time         `json:"asked_at" cbor:"30,keyasint"` // when more replicas were last asked for; zero when never

	ActionsPerDay int                      `json:"actions_per_day" cbor:"33,keyasint,omitempty"`           // how often more or less was asked for in the last day
	ByRole        *Roles                   `json:"desired_by_role,omitempty" cbor:"34,keyasint,omitempty"` // of a disaggregated pool
	Growth        []forecaster.GrowthPart  `json:"growth,omitempty" cbor:"35,keyasint,omitempty"`          // why demand for Binding differs from an hour ago, in its unit; the parts add up
	Events        []forecaster.EventEffect `json:"events,omitempty" cbor:"36,keyasint,omitempty"`          // of the calendar, that the forecast of Binding counts on

	Admission []AdmissionLimit `json:"admission_limits,omitempty" cbor:"37,keyasint,omitempty"` // when saturation cannot be averted
	Queue     *QueuePlan       `json:"queue,omitempty" cbor:"38,keyasint,omitempty"`            // nil when the objective for the first token or the calls are not known

	Diagnosis Bottleneck `json:"diagnosis,omitempty" cbor:"39,keyasint,omitempty"` // what latencies say binds; "" when they do not tell

	Basis *Basis `json:"basis,omitempty" cbor:"40,keyasint,omitempty"` // what was taken for granted; nil where none was given

	Path []PathPoint `json:"path,omitempty" cbor:"41,keyasint,omitempty"` // of Binding; none where it is not known

	KeepQuantile float64 `json:"keep_quantile,omitempty" cbor:"42,keyasint,omitempty"` // of demand, that a smaller pool must hold

	// Prompts is what is known of each resource of a disaggregated pool's prefill replicas; Resources are of those that decode.
	Prompts []ResourceEvidence `json:"prefill_resources,omitempty" cbor:"43,keyasint,omitempty"`

	// WarnFrom is the probability of saturation within forecaster.WarningWindow from which on the pool is warned; 0 where that
	// is not learned. FalsePerWeek is how many warnings a week are expected to come to nothing at it, 0 where that is not learned.
	WarnFrom     float64 `json:"warn_from,omitempty" cbor:"44,keyasint,omitempty"`
	FalsePerWeek float64 `json:"false_warnings_per_week,omitempty" cbor:"45,keyasint,omitempty"`

	Symptoms *Symptoms `json:"-" cbor:"46,keyasint,omitempty"` // of Diagnosis; nil without one

	// Waiting is how many requests waited in the pool's queues at the tick, as its ready replicas reported; nil when unknown.
	Waiting *float64 `json:"waiting,omitempty" cbor:"60,keyasint,omitempty"`

	// Objectives are the latencies of the newest minutes beside those that the pool promises, as far as both are known. Breach is
	// nil while they are within them.
	Objectives []Objective `json:"objectives,omitempty" cbor:"48,keyasint,omitempty"`
	Breach     *Breach     `json:"breach,omitempty" cbor:"49,keyasint,omitempty"`

	Unreported int `json:"-" cbor:"47,keyasint,omitempty"` // of Pending: asked for, and not seen in any report yet

	SupplyAssumed bool `json:"supply_assumed" cbor:"32,keyasint"` // no replica reports: Ready and Pending are what is believed

	// Withheld says why autoscalers are not told Desired, whatever the mode; "" when they are.
	Withheld string `json:"withheld,omitempty" cbor:"70,keyasint,omitempty"`
}

// ResourceEvidence is the part of a projection that a decision rests on, per resource.
type ResourceEvidence struct {
	Dimension    string         `json:"dimension" cbor:"1,keyasint"`
	PerReplica   float64        `json:"per_replica" cbor:"2,keyasint"`
	Demand       float64        `json:"demand" cbor:"3,keyasint"`
	NeedQuantile float64        `json:"need" cbor:"4,keyasint"`          // demand at the decision quantile, its largest minute in the lead window
	NeedReplicas int            `json:"need_replicas" cbor:"5,keyasint"` // what that takes, before reserves and clamps
	Probability  float64        `json:"probability" cbor:"6,keyasint"`
	ETA          forecaster.ETA `json:"eta" cbor:"7,keyasint"`
	// AfterFailure is how likely and how soon it runs out without the replicas kept for failures. nil where none are kept.
	AfterFailure *forecaster.Chance `json:"after_failure,omitempty" cbor:"8,keyasint,omitempty"`
	// Ahead is the probability within forecaster.WarningWindow: what warnings go by.
	Ahead float64 `json:"ahead,omitempty" cbor:"9,keyasint,omitempty"`
	// Retries is what calls that are tried again add to Demand and NeedQuantile; nil where they add nothing.
	Retries *Retried `json:"retries,omitempty" cbor:"10,keyasint,omitempty"`
}

// Ahead is the probability that some resource runs out, of either role, within forecaster.WarningWindow: what warnings go by.
func (d *Decision) Ahead() (probability float64) {
	probability = d.OwnAhead()
	if prefill := d.Prefilling(); prefill != nil {
		probability = max(probability, prefill.OwnAhead())
	}
	return probability
}

// OwnAhead is Ahead without a disaggregated pool's prefill replicas, of which nobody knows how many there were.
func (d *Decision) OwnAhead() (probability float64) {
	for i := range d.Resources {
		probability = max(probability, d.Resources[i].Ahead)
	}
	return probability
}

// EventID is the idempotency key of the published advice: the same pool and generation is the same event.
func (d *Decision) EventID() string { return eventID(d.Pool, d.Generation) }

// Risk is the probability that a resource saturates within the lead window if nothing is done; NaN where none was projected,
// because no capacity is known.
func (d *Decision) Risk() float64 {
	if d.Binding == "" && d.Probability == 0 {
		return math.NaN()
	}
	return d.Probability
}
