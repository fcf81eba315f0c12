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

// Transfer is the resource of sending KV cache from prefill to decode replicas, in tokens per second of one sender.
const Transfer = "transfer"

// RoleOf is the role that serves a dimension in a disaggregated pool. A prompt occupies its prefill replica only while
// it is computed and sent, so the KV cache counts for decode.
func RoleOf(dimension string) Role {
	switch dimension {
	case Prefill, Transfer:
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

// Sent lowers the prefill rate of p to the rate at which a prefill replica sends KV cache, if that is the lower one,
// and reports whether it did. All tokens of a prompt are sent; computed is the share that is not in the replica's
// cache.
func (p *Pool) Sent(computed float64) bool {
	if !p.Disaggregated || !(p.TransferTokensPerS > 0) || !(computed > 0) {
		return false
	}
	rate := p.TransferTokensPerS * min(computed, 1)
	if capacity := p.prefill(); capacity > 0 && rate >= capacity {
		return false
	}
	p.Rates.PrefillTokensPerS, p.Rates.Sustained = rate, true
	return true
}

// Disaggregated configures separate replicas for prefill. The pool's replicas are then those for decode.
type Disaggregated struct {
	PrefillReplicas Replicas `yaml:"prefill_replicas"`
	// PrefillReserves are the reserves of prefill replicas; nil means the same as Config.Reserves.
	PrefillReserves *Reserves `yaml:"prefill_reserves"`
	Transfer        string    `yaml:"transfer"` // KV cache that one prefill replica sends per second, a size such as 40GB; "" is no limit
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
