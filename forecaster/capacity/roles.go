package capacity

import "time"

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
	if p.Disaggregated && role == PrefillRole {
		return p.PrefillReserves
	}
	return p.Reserves
}

// BoundsOf bounds the replicas of a role.
func (p *Pool) BoundsOf(role Role) Replicas {
	if p.Disaggregated && role == PrefillRole {
		return p.PrefillReplicas
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

// Prices are the date and region of the pool's prices.
type Prices struct {
	Date   string `yaml:"date"` // YYYY-MM-DD
	Region string `yaml:"region"`
}

// Age is the age of the prices at a time; ok is false when either is unknown.
func (p Prices) Age(at time.Time) (age time.Duration, ok bool) {
	date, err := time.Parse(time.DateOnly, p.Date)
	if err != nil || at.IsZero() {
		return 0, false
	}
	return at.Sub(date), true
}

// prefillReserves are the stated ones, or those of the decode replicas.
func (c *Config) prefillReserves() Reserves {
	if r := c.Disaggregated.PrefillReserves; r != nil {
		return *r
	}
	return c.Reserves
}
