package forecaster

import "time"

// Supply is the replicas of a pool: ready now, and pending.
type Supply struct {
	Ready   int
	Pending []time.Time // when each was requested, ascending
}

// ETA is a distribution of the time from the origin to saturation. Zero means now; Never means that fewer paths than
// that quantile saturate within the horizon.
type ETA struct {
	P10, P50, P90 time.Duration
}

// Never is an ETA beyond the horizon.
const Never time.Duration = -1

// Span is three quantiles of a quantity that may be negative.
type Span struct {
	P10, P50, P90 float64
}

// Chance is the risk that something runs out.
type Chance struct {
	Probability float64 `json:"probability" cbor:"1,keyasint"` // within the lead window
	ETA         ETA     `json:"eta" cbor:"2,keyasint"`
	Ahead       float64 `json:"ahead" cbor:"3,keyasint,omitempty"` // probability within WarningWindow
}

// ResourceProjection is the saturation risk of one resource of a pool.
type ResourceProjection struct {
	Dimension   string
	PerReplica  float64          // safe capacity of one replica, in the dimension's unit
	Demand      float64          // newest known demand
	Utilisation float64          // demand over ready capacity; NaN without a ready replica
	Probability [Horizon]float64 // P(demand exceeds capacity in some minute ≤ h), non-decreasing
	ETA         ETA
	Headroom    Span // of the smallest (capacity − demand)/capacity within the lead window; negative when short, NaN without a replica
	// AfterFailure is the projection without the reserve for failures; nil without a reserve.
	AfterFailure *Remainder
}

// Remainder is the risk and headroom with the replicas that remain after a failure.
type Remainder struct {
	Chance
	Headroom Span
}

// Driver is a class behind a projected rise.
type Driver struct {
	Class  string
	Tenant string  // with most of the rise of the class's tokens, else the heaviest; "" if unknown
	Cause  string  // rate, mix, prompt_length, output_length, cache, retries; "" if no change is significant, or too little is known
	Factor float64 // newest over an hour ago of that cause (mix: share of the pool's requests now; cache: hit ratio now; retries: share of attempts now)
	Share  float64 // of the pool's demand for the binding resource

	CacheHit, CacheLoss float64 // share of prompt tokens that were cached, and what it lost in the hour; 0 if unknown

	// Shares of the class's tokens in about the last hour, exact within ± margin. Zero without a name.
	TenantShare, TenantMargin   float64
	Feature                     string // as Tenant
	FeatureShare, FeatureMargin float64

	// Shares of the rise of the class's tokens within the last half hour; 0 without a rise, or below one half.
	TenantRise, FeatureRise float64
}

// Projection is the saturation risk of a pool.
type Projection struct {
	Pool        string
	Origin      time.Time
	Lead        time.Duration // see LeadTime
	Supply      Supply
	Reserve     int // replicas kept for failures
	Resources   []ResourceProjection
	Binding     string  // dimension with the highest risk, or the least headroom; "" if no resource has a capacity
	Probability float64 // that the binding resource saturates within the lead window
	ETA         ETA
	Drivers     []Driver
	Confidence  Confidence
	Stale       bool
	Warnings    []string
	// Prompts is the projection of the prefill replicas of a disaggregated pool; nil in other pools.
	Prompts *Projection
}
