// Package capacity computes the capacity of a replica: KV-cache bytes per token from a model's config.json, tokens per
// replica, service rates, and the lag between the request for a replica and its readiness.
//
// Pure: no clock, no I/O beyond the bytes it is given. Units: bytes, tokens, tokens per second; memory sizes are binary
// (GiB = 2³⁰ bytes). Bounds: warm-up observations are kept in a fixed window.
package capacity

import (
	"cmp"
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

// Pool is the capacity of one pool: its checked configuration with defaults, and what follows from it.
type Pool struct {
	Config
	Zone     *time.Location // of daily and weekly seasons; nil is UTC
	KVTokens float64        // KV cache of one replica in tokens, before KVTarget; 0 is unknown
	Rates    Rates
	Warmup   Warmup

	Disaggregated bool // prompts are computed on replicas of their own; Replicas are those that decode
	Fit           *Fit // of the model on a replica; nil without a model

	notGiven string // the rate that the benchmark does not have, so that it is the stated one; "" if it has both
}

// Files are the contents of the files that a Config names; nil without a name.
type Files struct {
	Model []byte // model_config
	Curve []byte // curve_file
}

// New is [NewFrom] for a pool without other files than its model's config.json, which may be nil.
func New(c Config, modelJSON []byte) (Pool, error) { return NewFrom(c, Files{Model: modelJSON}) }

// NewFrom builds a pool. Errors name the key, its value, the bound and the fix.
func NewFrom(c Config, files Files) (Pool, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return Pool{}, err
	}
	zone, err := time.LoadLocation(c.Timezone)
	if err != nil || zone == time.Local { // "Local" would make forecasts depend on the machine
		return Pool{}, c.errorf("timezone", "%q is no IANA time zone; write one such as UTC or Europe/Berlin", c.Timezone)
	}
	p := Pool{
		Config: c, Zone: zone, KVTokens: float64(c.KVCapacityTokens),
		Rates:         Rates{PrefillTokensPerS: c.PrefillTokensPerS, DecodeTokensPerS: c.decode(), Source: Stated},
		Warmup:        NewWarmup(c.Warmup.P50, c.Warmup.P90),
		Disaggregated: c.Disaggregated.PrefillReplicas.Max > 0,
	}
	if err := p.readModel(files.Model); err != nil {
		return Pool{}, err
	}
	return p, p.readCurve(files.Curve)
}

// readCurve reads service rates from a benchmark. They are measured, so they replace the stated ones.
func (p *Pool) readCurve(data []byte) error {
	if data == nil {
		return nil
	}
	curve, err := ParseCurve(data)
	if err != nil {
		return p.errorf("curve_file", "%s: %w", p.CurveFile, err)
	}
	prefill, decode, err := curve.Goodput(SLO{p.SLO.TTFT, p.itlObjective()})
	if err != nil {
		return p.errorf("curve_file", "%s: %w; measure a lower load, or set slo to what a replica can hold", p.CurveFile, err)
	}
	p.Rates.Source = Given
	if prefill == 0 {
		p.notGiven = Prefill
	} else if decode == 0 {
		p.notGiven = Decode
	}
	p.Rates.PrefillTokensPerS = cmp.Or(prefill/p.PrefillTarget, p.Rates.PrefillTokensPerS) // all of a measured rate is capacity
	p.Rates.DecodeTokensPerS = cmp.Or(decode, p.Rates.DecodeTokensPerS)
	return nil
}

// itlObjective is the objective of the time per output token: slo.itl, or else itl.
func (c *Config) itlObjective() time.Duration { return cmp.Or(c.SLO.ITL, c.ITL) }

// decode is the stated decode rate, and at most max_num_seqs/itl; 0 when neither is known.
func (c *Config) decode() float64 {
	slots := float64(c.MaxNumSeqs) / c.ITL.Seconds()
	if slots == 0 || c.DecodeTokensPerS == 0 {
		return max(slots, c.DecodeTokensPerS)
	}
	return min(slots, c.DecodeTokensPerS)
}

// readModel computes the size of the cache from the model's config.json, which may be nil.
func (p *Pool) readModel(modelJSON []byte) error {
	gpu, err := p.memory()
	if err != nil {
		return err
	}
	if modelJSON == nil {
		if gpu.Memory > 0 && p.KVCapacityTokens == 0 {
			return p.errorf("model_config", "not set, so the memory of a GPU says nothing of tokens; set the path of the model's config.json, or kv_capacity_tokens")
		}
		return nil
	}
	model, err := ParseModel(modelJSON)
	if err != nil {
		return p.errorf("model_config", "%s: %w", p.ModelConfig, err)
	}
	element, err := model.element(p.KVDType)
	if err != nil {
		return p.errorf("kv_dtype", "%w", err)
	}
	if gpu.Memory == 0 {
		return nil
	}
	fit, err := p.fit(model, element, gpu)
	switch {
	case p.KVTokens > 0: // the stated cache is sufficient
	case err != nil:
		return p.errorf("gpu", "%w", err)
	default:
		p.KVTokens = fit.Tokens
	}
	p.Fit = fit
	return nil
}

// PerReplica is the safe capacity of one replica in the dimension's unit; ok is false when it is unknown or the
// dimension is no resource. reportedKV is the KV cache in tokens that the engines report; if positive it replaces the
// configuration.
func (p *Pool) PerReplica(dimension string, reportedKV float64) (safe float64, ok bool) {
	switch dimension {
	case KV:
		tokens := p.KVTokens
		if reportedKV > 0 && !math.IsInf(reportedKV, 0) {
			tokens = reportedKV
		}
		safe = tokens * p.KVTarget
	case Prefill: // near the full rate queues are unbounded
		safe = p.PrefillTarget * p.Rates.PrefillTokensPerS
	case Decode:
		safe = p.Rates.DecodeTokensPerS
	case Requests:
		safe = p.MaxRequestsPerS
	}
	return safe, safe > 0
}

// Bounds of the quantile that is computed from cost. Below, a pool would be too small most of the time. Above, the
// forecast's tail is extrapolated and not checked against outcomes.
const (
	minCostQuantile = 0.5
	maxCostQuantile = 0.99
)

// CostQuantile is the quantile of demand with the lowest expected cost, the newsvendor's critical ratio
// τ = Cu/(Cu + Co) (Arrow, Harris and Marschak 1951, doi:10.2307/1906813), with Cu the cost of a minute short of a
// replica and Co the price of a replica's minute, within 0.5…0.99. ok is false when either cost is unknown.
func (p *Pool) CostQuantile() (tau float64, ok bool) {
	over := p.ReplicaHourUSD() / time.Hour.Minutes()
	under := p.SLOViolationMinuteUSD
	if !(over > 0) || !(under > 0) {
		return 0, false
	}
	return min(max(under/(under+over), minCostQuantile), maxCostQuantile), true
}

// Limit is the largest allowed number of replicas, and the key that sets it.
func (p *Pool) Limit() (replicas int, key string) {
	replicas, key = p.Replicas.Max, "replicas.max"
	if n, ok := p.Budget(); ok && n < replicas {
		replicas, key = max(n, p.Replicas.Min), "budget_hour_usd"
	}
	return replicas, key
}

// Budget is the number of replicas of all roles that the budget pays for; ok is false without a budget or a price.
func (p *Pool) Budget() (replicas int, ok bool) {
	hour := p.ReplicaHourUSD()
	if !(hour > 0) || !(p.BudgetHourUSD > 0) {
		return 0, false
	}
	return int(min(p.BudgetHourUSD/hour+1e-9, maxReplicas)), true
}

// ReplicaHourUSD is the price of a replica for an hour; 0 unknown.
func (p *Pool) ReplicaHourUSD() float64 { return p.GPUHourUSD * float64(p.GPU.PerReplica) }

func (c Config) errorf(key, format string, args ...any) error {
	return fmt.Errorf("pools[%s].%s: "+format, append([]any{c.Name, key}, args...)...)
}
