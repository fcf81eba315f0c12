package capacity

import (
	"fmt"
	"strings"
	"time"
)

// Config is the capacity block of one pool in the configuration. [New] checks it.
type Config struct {
	Name string `yaml:"name"`

	Mode     string `yaml:"mode"`     // advisory or active; "" means decision.mode
	Timezone string `yaml:"timezone"` // IANA name of the users' time zone; "" means UTC

	ModelConfig      string  `yaml:"model_config"` // path of the model's config.json; the caller reads it
	KVDType          string  `yaml:"kv_dtype"`     // dtype of the KV cache; "" follows the model
	GPU              GPU     `yaml:"gpu"`
	KVCapacityTokens int     `yaml:"kv_capacity_tokens"` // per replica; overrides what model_config and gpu give
	KVTarget         float64 `yaml:"kv_target"`          // safe share of the KV cache; 0 means 0.85
	ContextTokens    int     `yaml:"context_tokens"`     // of a running request, for windowed layers; 0 counts these in full

	PrefillTokensPerS float64       `yaml:"prefill_tokens_per_s"` // per replica that does only prefill; 0 is unknown
	PrefillTarget     float64       `yaml:"prefill_target"`       // share of that rate to plan with; 0 means 0.7
	DecodeTokensPerS  float64       `yaml:"decode_tokens_per_s"`  // per replica at the latency objective; 0 is unknown
	MaxRequestsPerS   float64       `yaml:"max_requests_per_s"`   // per replica; 0 is no limit
	MaxNumSeqs        int           `yaml:"max_num_seqs"`         // per replica; with itl it bounds decode
	Rates             Source        `yaml:"rates"`                // stated or learned decide if they differ; "": see [Pool.Trust]
	ITL               time.Duration `yaml:"itl"`                  // time per output token; 0 means 25ms
	SLO               SLO           `yaml:"slo"`                  // latency objectives
	CurveFile         string        `yaml:"curve_file"`           // path of a benchmark of one replica; the caller reads it

	Limits        Limits        `yaml:"limits"`        // of the whole pool
	Disaggregated Disaggregated `yaml:"disaggregated"` // prefill on replicas of its own

	Warmup   Lag      `yaml:"warmup"`
	Replicas Replicas `yaml:"replicas"`
	Reserves Reserves `yaml:"reserves"`

	GPUHourUSD            float64 `yaml:"gpu_hour_usd"`             // price of one GPU for an hour; 0 is unknown
	SLOViolationMinuteUSD float64 `yaml:"slo_violation_minute_usd"` // cost of a minute short of one replica; 0 is unknown
	BudgetHourUSD         float64 `yaml:"budget_hour_usd"`          // most the pool may cost per hour, by GPUHourUSD; 0 is unlimited
	Quantile              float64 `yaml:"quantile"`                 // of demand to provide for; 0 computes it from cost
}

// GPU describes the GPUs of one replica. Sizes are written like 80GiB.
type GPU struct {
	Type        string  `yaml:"type"`        // a name of gpuGiB; gives the memory
	Memory      string  `yaml:"memory"`      // of one GPU; wins over type
	PerReplica  int     `yaml:"per_replica"` // GPUs over which the model is divided; 0 means 1
	Utilization float64 `yaml:"utilization"` // share the engine may use; 0 means 0.9
	Weights     string  `yaml:"weights"`     // of the checkpoint's files
	Workspace   string  `yaml:"workspace"`   // on each GPU, for activations, buffers and adapters; "" means 3GiB
}

// Lag is a warm-up lag by two of its percentiles; zeros mean 6 and 12 minutes.
type Lag struct {
	P50 time.Duration `yaml:"p50"`
	P90 time.Duration `yaml:"p90"`
}

// Replicas bounds the size of a pool.
type Replicas struct {
	Min     int `yaml:"min"`     // 0 lets the pool go to zero
	Max     int `yaml:"max"`     // required
	Initial int `yaml:"initial"` // assumed until a replica reports; 0 means max(min, 1)
}

// Reserves are replicas kept in addition to those that demand needs, by purpose.
type Reserves struct {
	Failure     int `yaml:"failure" json:"failure,omitempty" cbor:"1,keyasint"`                   // N+1 and the like
	Failover    int `yaml:"failover" json:"failover,omitempty" cbor:"4,keyasint"`                 // for the traffic of a failed region
	Rollout     int `yaml:"rollout" json:"rollout,omitempty" cbor:"2,keyasint"`                   // taken by an update in progress
	Maintenance int `yaml:"maintenance" json:"maintenance,omitempty" cbor:"5,keyasint,omitempty"` // taken by planned work on nodes
	Warm        int `yaml:"warm" json:"warm,omitempty" cbor:"3,keyasint"`                         // ready for a burst that cannot be forecast
}

// Reserve is one of the reserves.
type Reserve struct {
	Name     string // the key in the configuration
	For      string // the purpose, for people
	Replicas int
}

// Each lists the reserves in the order in which idle replicas are counted against them.
func (r Reserves) Each() []Reserve {
	return []Reserve{
		{"failure", "for failures", r.Failure}, {"failover", "for failover", r.Failover}, {"rollout", "for rollouts", r.Rollout},
		{"maintenance", "for maintenance", r.Maintenance}, {"warm", "warm for bursts", r.Warm},
	}
}

// Total is the sum of the reserves.
func (r Reserves) Total() (sum int) {
	for _, x := range r.Each() {
		sum += x.Replicas
	}
	return sum
}

// String lists the reserves that are kept, such as "1 for failures, 2 for maintenance".
func (r Reserves) String() string {
	var parts []string
	for _, x := range r.Each() {
		if x.Replicas != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.Replicas, x.For))
		}
	}
	return strings.Join(parts, ", ")
}

// Role is the role of replicas in a disaggregated pool.
type Role string

// The roles. In a pool that is not disaggregated every replica has both.
const (
	AnyRole     Role = ""
	PrefillRole Role = "prefill" // computes prompts and sends their KV cache on
	DecodeRole  Role = "decode"  // holds the cache and generates
)

// RoleOf is the role that serves a dimension in a disaggregated pool. A prompt occupies its prefill replica only while
// it is computed, so the KV cache counts for decode.
func RoleOf(dimension string) Role {
	switch dimension {
	case Prefill:
		return PrefillRole
	case Decode, KV, Slots:
		return DecodeRole
	}
	return AnyRole
}

// ReservesOf are the reserves of a role.
func (p *Pool) ReservesOf(role Role) Reserves {
	if kept := p.Config.Disaggregated.PrefillReserves; p.Disaggregated && role == PrefillRole && kept != nil {
		return *kept
	}
	return p.Reserves
}

// BoundsOf bounds the replicas of a role.
func (p *Pool) BoundsOf(role Role) Replicas {
	if p.Disaggregated && role == PrefillRole {
		return p.Config.Disaggregated.PrefillReplicas
	}
	return p.Replicas
}

// Disaggregated configures separate replicas for prefill. The pool's replicas are then those for decode.
type Disaggregated struct {
	PrefillReplicas Replicas `yaml:"prefill_replicas"`
	// PrefillReserves are the reserves of prefill replicas; nil means the same as Config.Reserves.
	PrefillReserves *Reserves `yaml:"prefill_reserves"`
}

// Limits are limits of the whole pool, which more replicas do not raise. Zero is none.
type Limits struct {
	RequestsPerMin float64 `yaml:"requests_per_min"`
	TokensPerMin   float64 `yaml:"tokens_per_min"` // prompt and output
}

// SLO is the latency objective of requests, for 90 % of them; zero durations are no objective.
type SLO struct {
	TTFT time.Duration `yaml:"ttft"` // from arrival to the first token
	ITL  time.Duration `yaml:"itl"`  // from one output token to the next
}
