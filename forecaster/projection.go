package forecaster

import (
	"math"
	"time"
)

// Supply is the capacity of a pool over time: replicas that are ready, and those on the way.
type Supply struct {
	Ready   int
	Pending []time.Time // when each pending replica was asked for, ascending
}

// ETA is a distribution of the time from the origin to saturation. A zero duration means "now"; Never means that the
// share of paths that saturate within the horizon is below that quantile.
type ETA struct {
	P10, P50, P90 time.Duration
}

// Never is an ETA beyond the horizon.
const Never time.Duration = -1

// Span is three quantiles of a quantity that may be negative.
type Span struct {
	P10, P50, P90 float64
}

// Chance is how likely and how soon something runs out.
type Chance struct {
	Probability float64 `json:"probability" cbor:"1,keyasint"` // within the lead window
	ETA         ETA     `json:"eta" cbor:"2,keyasint"`
	Ahead       float64 `json:"ahead" cbor:"3,keyasint,omitempty"` // probability within WarningWindow
}

// ResourceProjection says when one resource of a pool runs out.
type ResourceProjection struct {
	Dimension   string
	PerReplica  float64          // safe capacity of one replica, in the dimension's unit
	Demand      float64          // newest known demand
	Utilisation float64          // demand over the capacity that is ready now; NaN when there is none
	Probability [Horizon]float64 // P(demand exceeds capacity in some minute ≤ h), non-decreasing
	ETA         ETA
	Headroom    Span // of the smallest (capacity − demand)/capacity within the lead window; negative when short, NaN without a replica
	// AfterFailure is what is left when the replicas kept for failures fail; nil where none are kept.
	AfterFailure *Remainder
}

// Remainder is how likely and how soon a resource runs out on the replicas that a failure leaves, and their headroom.
type Remainder struct {
	Chance
	Headroom Span
}

// Driver names who is behind a projected rise.
type Driver struct {
	Class  string
	Tenant string  // the one that most of the rise of the class's tokens is due to, else its heaviest; "" when unknown
	Cause  string  // rate, mix, prompt_length, output_length, cache, retries; "" when nothing changed by more than chance, or too little is known
	Factor float64 // newest over an hour ago of that cause (mix: share of the pool's requests now; cache: hit ratio now; retries: share of attempts now)
	Share  float64 // of the pool's demand for the binding resource

	Since time.Time `cbor:",omitzero"` // when its demand rose to what it is, within the last hour or so; zero when no one minute stands out

	// Shares of the class's tokens in the last hour or so; the true ones lie within share ± margin. Zero without a name.
	TenantShare, TenantMargin   float64
	Feature                     string // as Tenant
	FeatureShare, FeatureMargin float64

	// Shares of what the class's tokens rose by within the last half hour; 0 when they did not rise, or nobody has half of it.
	TenantRise, FeatureRise float64
}

// Projection is what a pool's forecast means for its capacity.
type Projection struct {
	Pool        string
	Origin      time.Time
	Lead        time.Duration // the warm-up quantile used: nothing nearer can be averted by scaling
	Supply      Supply
	Reserve     int // of the replicas, kept for failures
	Resources   []ResourceProjection
	Binding     string  // dimension that saturates first or is nearest to it; "" when no resource has a capacity
	Probability float64 // of the binding resource saturating within Lead + hold
	ETA         ETA
	Drivers     []Driver
	Growth      []GrowthPart // of the binding resource; see Forecaster.Growth
	Confidence  Confidence
	Stale       bool
	Warnings    []string
	// Prompts is the same of the replicas that only compute prompts, in a disaggregated pool; nil in another.
	Prompts *Projection
}

// Left is how many of the ready replicas are left when those kept for failures fail.
func (p *Projection) Left() int { return max(p.Supply.Ready-p.Reserve, 0) }

// UseAfterFailure is the newest demand for r over the capacity of Left; NaN where none is left.
func (p *Projection) UseAfterFailure(r *ResourceProjection) float64 {
	if p.Left() == 0 {
		return math.NaN()
	}
	return r.Demand / (r.PerReplica * float64(p.Left()))
}
