package capacity

import (
	"fmt"
	"math"
	"time"
	_ "time/tzdata" // a pool's time zone must not depend on what the machine has installed
)

// The resources of a replica, named like the dimensions of demand that use them.
const (
	KV       = "kv"       // tokens held in the KV cache
	Prefill  = "prefill"  // prompt tokens per second that are not cached
	Decode   = "decode"   // output tokens per second
	Requests = "requests" // requests per second
	Slots    = "slots"    // requests at once
)

// Context is what binds a request that is longer than its model was made for.
const Context = "context"

// Pool is what one pool can hold and do, checked and with defaults filled in. It is a value.
type Pool struct {
	Name     string
	Zone     *time.Location // whose clock daily and weekly seasons follow; nil is UTC
	KVTokens float64        // KV cache of one replica in tokens, before KVTarget; 0 is unknown
	KVTarget float64
	KVBytes  KVBytes // of one token; zero when no model was given
	Rates    Rates
	Warmup   Warmup

	Replicas Replicas
	Reserves Reserves

	GPUsPerReplica        int
	GPUHourUSD            float64
	SLOViolationMinuteUSD float64
	BudgetHourUSD         float64
	Quantile              float64 // stated; 0 follows from cost
}

// New builds a pool. modelJSON is the content of c.ModelConfig, nil when the pool names none. Errors name the key, its
// value, the bound and the mend.
func New(c Config, modelJSON []byte) (Pool, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return Pool{}, err
	}
	zone, err := c.zone()
	if err != nil {
		return Pool{}, err
	}
	p := Pool{
		Name: c.Name, Zone: zone, KVTarget: c.KVTarget, KVTokens: float64(c.KVCapacityTokens),
		Rates: Rates{
			PrefillTokensPerS: c.PrefillTokensPerS, DecodeTokensPerS: c.DecodeTokensPerS, RequestsPerS: c.MaxRequestsPerS,
			MaxNumSeqs: c.MaxNumSeqs, ITL: c.ITL, Source: Stated,
		},
		Warmup: NewWarmup(c.Warmup.P50, c.Warmup.P90), Replicas: c.Replicas, Reserves: c.Reserves,
		GPUsPerReplica: c.GPU.PerReplica, GPUHourUSD: c.GPUHourUSD, SLOViolationMinuteUSD: c.SLOViolationMinuteUSD,
		BudgetHourUSD: c.BudgetHourUSD, Quantile: c.Quantile,
	}
	if modelJSON == nil {
		if c.GPU.Memory != "" && c.KVCapacityTokens == 0 {
			return Pool{}, c.errorf("model_config", "not set, so gpu.memory says nothing of tokens; set the path of the model's config.json, or kv_capacity_tokens")
		}
		return p, nil
	}
	model, err := ParseModel(modelJSON)
	if err != nil {
		return Pool{}, c.errorf("model_config", "%s: %w", c.ModelConfig, err)
	}
	if p.KVBytes, err = model.BytesPerToken(c.KVDType, c.GPU.PerReplica); err != nil {
		return Pool{}, c.errorf("kv_dtype", "%w", err)
	}
	if p.KVTokens == 0 && c.GPU.Memory != "" {
		if p.KVTokens, err = c.tokens(p.KVBytes); err != nil {
			return Pool{}, err
		}
	}
	return p, nil
}

// zone is the pool's time zone. "Local" is refused, for it would make forecasts depend on the machine.
func (c Config) zone() (*time.Location, error) {
	zone, err := time.LoadLocation(c.Timezone)
	if err != nil || zone == time.Local {
		return nil, c.errorf("timezone", "%q is no IANA time zone; write one such as UTC or Europe/Berlin", c.Timezone)
	}
	return zone, nil
}

// tokens is the KV cache of one replica from the GPU block.
func (c Config) tokens(kv KVBytes) (float64, error) {
	m := Memory{GPUs: c.GPU.PerReplica, Utilization: c.GPU.Utilization, Fragmentation: c.Fragmentation}
	for _, size := range []struct {
		key, text string
		into      *float64
	}{
		{"gpu.memory", c.GPU.Memory, &m.GPUBytes},
		{"gpu.weights", c.GPU.Weights, &m.WeightsBytes},
		{"gpu.workspace", c.GPU.Workspace, &m.WorkspaceBytes},
	} {
		if size.text == "" && size.key == "gpu.workspace" {
			continue
		}
		v, err := ParseSize(size.text)
		if err != nil {
			return 0, c.errorf(size.key, "%w", err)
		}
		*size.into = v
	}
	tokens := TokensPerReplica(m, kv)
	if tokens == 0 {
		return 0, c.errorf("gpu", "weights %s and workspace %q leave no memory of %d × %s at utilization %g for the KV cache; set more GPUs per_replica, smaller weights, or kv_capacity_tokens",
			c.GPU.Weights, c.GPU.Workspace, c.GPU.PerReplica, c.GPU.Memory, c.GPU.Utilization)
	}
	return tokens, nil
}

// PerReplica is the safe capacity of one replica in the dimension's unit; ok is false when it is not known or the
// dimension is no resource. reportedKV is the KV cache in tokens that the engines report, and wins over the
// configuration when positive.
func (p *Pool) PerReplica(dimension string, reportedKV float64) (safe float64, ok bool) {
	switch dimension {
	case KV:
		tokens := p.KVTokens
		if reportedKV > 0 && !math.IsInf(reportedKV, 0) {
			tokens = reportedKV
		}
		safe = tokens * p.KVTarget
	case Prefill:
		safe = p.Rates.PrefillTokensPerS
	case Decode:
		safe = p.Rates.Decode()
	case Requests:
		safe = p.Rates.RequestsPerS
	}
	return safe, safe > 0
}

// Bounds of the quantile that follows from cost. Below, a pool would be short most of the time; above, the forecast's
// tail is extrapolated and no longer checked against outcomes.
const (
	minCostQuantile = 0.5
	maxCostQuantile = 0.99
)

// CostQuantile is the quantile of demand that costs least to provide for, the newsvendor's critical ratio
// τ = Cu/(Cu + Co) (Arrow, Harris and Marschak 1951, doi:10.2307/1906813), with Cu the cost of a minute short of a
// replica and Co the price of a replica's minute, within 0.5…0.99. ok is false when either cost is unknown.
func (p *Pool) CostQuantile() (tau float64, ok bool) {
	over := p.replicaHourUSD() / time.Hour.Minutes()
	under := p.SLOViolationMinuteUSD
	if !(over > 0) || !(under > 0) {
		return 0, false
	}
	return min(max(under/(under+over), minCostQuantile), maxCostQuantile), true
}

// Limit is the most replicas the pool may have, and the key that says so.
func (p *Pool) Limit() (replicas int, key string) {
	replicas, key = p.Replicas.Max, "replicas.max"
	if hour := p.replicaHourUSD(); hour > 0 && p.BudgetHourUSD > 0 {
		if n := int(min(p.BudgetHourUSD/hour+1e-9, maxReplicas)); n < replicas {
			replicas, key = max(n, p.Replicas.Min), "budget_hour_usd"
		}
	}
	return replicas, key
}

func (p *Pool) replicaHourUSD() float64 { return p.GPUHourUSD * float64(p.GPUsPerReplica) }

func (c Config) errorf(key, format string, args ...any) error {
	return fmt.Errorf("pools[%s].%s: "+format, append([]any{c.Name, key}, args...)...)
}
