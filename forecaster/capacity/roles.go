package capacity

import "time"

// Role is what the replicas of a disaggregated pool are for.
type Role string

// The roles. In a pool that is not disaggregated every replica does all.
const (
	AnyRole     Role = ""
	PrefillRole Role = "prefill" // computes prompts and sends their KV cache on
	DecodeRole  Role = "decode"  // holds the cache and generates
)

// Transfer is the resource of sending KV cache from prefill to decode replicas, in tokens per second of one sender.
const Transfer = "transfer"

// RoleOf is the role whose replicas carry a dimension when the pool is disaggregated: a prompt occupies its prefill replica
// only while it is computed and sent, so the cache that is held counts for decode.
func RoleOf(dimension string) Role {
	switch dimension {
	case Prefill, Transfer:
		return PrefillRole
	case Decode, KV, Slots:
		return DecodeRole
	}
	return AnyRole
}

// ReservesOf are those of the replicas of a role.
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

// Sent lowers the rate at which a prefill replica of p is taken to compute prompts to that at which it sends their KV cache on,
// where that is what binds: all tokens of a prompt are sent, and computed is the share of them that is not served from its
// cache. It says whether it did.
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

// Disaggregated is a pool whose prompts are computed on replicas of their own. The pool's replicas are then those that
// decode.
type Disaggregated struct {
	PrefillReplicas Replicas `yaml:"prefill_replicas"`
	// PrefillReserves are kept beside what prompts take; nil keeps as many as Config.Reserves says, of each role.
	PrefillReserves *Reserves `yaml:"prefill_reserves"`
	Transfer        string    `yaml:"transfer"` // KV cache that one prefill replica sends per second, a size such as 40GB; "" is no limit
}

// Limits are of the whole pool and no replica lifts them. Zero is none.
type Limits struct {
	RequestsPerMin float64 `yaml:"requests_per_min"`
	TokensPerMin   float64 `yaml:"tokens_per_min"` // prompt and output
}

// Prices say when and where the pool's prices were taken.
type Prices struct {
	Date   string `yaml:"date"` // YYYY-MM-DD
	Region string `yaml:"region"`
}

// Age of the prices at a time; ok is false when either is not known.
func (p Prices) Age(at time.Time) (age time.Duration, ok bool) {
	date, err := time.Parse(time.DateOnly, p.Date)
	if err != nil || at.IsZero() {
		return 0, false
	}
	return at.Sub(date), true
}

// prefillReserves are those stated, or as many as are kept of the other replicas.
func (c *Config) prefillReserves() Reserves {
	if r := c.Disaggregated.PrefillReserves; r != nil {
		return *r
	}
	return c.Reserves
}
