package alerting

import (
	"cmp"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Basis is the assumptions of a decision about its pool. Reports compare them with what happened. Zero is unknown.
type Basis struct {
	GPUsPerReplica int     `json:"gpus_per_replica,omitempty" cbor:"1,keyasint,omitempty"`
	ReplicaHourUSD float64 `json:"replica_hour_usd,omitempty" cbor:"2,keyasint,omitempty"`
	ShortMinuteUSD float64 `json:"short_minute_usd,omitempty" cbor:"3,keyasint,omitempty"`
	PricesDate     string  `json:"prices_date,omitempty" cbor:"4,keyasint,omitempty"` // YYYY-MM-DD
	Least          int     `json:"least,omitempty" cbor:"5,keyasint,omitempty"`       // replicas.min

	Warmup WarmupBasis              `json:"warmup" cbor:"6,keyasint"`
	Rates  []RateBasis              `json:"rates,omitempty" cbor:"7,keyasint,omitempty"`
	Faults []features.ProducerFault `json:"faults,omitempty" cbor:"8,keyasint,omitempty"` // of the pool's telemetry

	Contradicts []capacity.Contradiction `json:"contradicts,omitempty" cbor:"9,keyasint,omitempty"` // of observed and stated rates
	Notes       []string                 `json:"notes,omitempty" cbor:"10,keyasint,omitempty"`      // unknown rates, and why
}

// WarmupBasis is the stated and the used warm-up lag: median and 90th percentile in seconds.
type WarmupBasis struct {
	_ struct{} `cbor:",toarray"`

	StatedP50 float64 `json:"stated_p50_seconds"`
	StatedP90 float64 `json:"stated_p90_seconds"`
	P50       float64 `json:"p50_seconds"`
	P90       float64 `json:"p90_seconds"`
	Seen      int     `json:"seen"` // lags observed, up to 64
}

// RateBasis is a rate of one replica in tokens per second, or its KV cache in tokens. Decisions use a share of the
// cache and of the prefill rate: kv_target and prefill_target.
type RateBasis struct {
	_ struct{} `cbor:",toarray"`

	Dimension string  `json:"resource"`
	Used      float64 `json:"used,omitempty"`    // by the decision
	Stated    float64 `json:"stated,omitempty"`  // in the configuration or a benchmark
	Learned   float64 `json:"learned,omitempty"` // from telemetry; for KV the median of the reports
	Low       float64 `json:"low,omitempty"`     // 90 % interval of Learned; for KV the smallest and largest report
	High      float64 `json:"high,omitempty"`
}

// NewBasis is the basis from the pool's configuration, the used warm-up lag and the learned rates.
func NewBasis(stated *capacity.Pool, warmup *capacity.Warmup, t *capacity.Trusted, m *features.PoolMinute) *Basis {
	b := &Basis{
		GPUsPerReplica: stated.GPUsPerReplica, ReplicaHourUSD: stated.ReplicaHourUSD(), ShortMinuteUSD: stated.SLOViolationMinuteUSD,
		PricesDate: stated.Prices.Date, Least: stated.Replicas.Min,
		Warmup: WarmupBasis{
			StatedP50: stated.Warmup.Quantile(.5).Seconds(), StatedP90: stated.Warmup.Quantile(.9).Seconds(),
			P50: warmup.Quantile(.5).Seconds(), P90: warmup.Quantile(.9).Seconds(), Seen: warmup.State().Seen,
		},
	}
	add := func(dimension string, used, stated float64, learned capacity.Estimate) {
		if stated = finite(stated); stated > 0 || learned.Value > 0 {
			b.Rates = append(b.Rates, RateBasis{Dimension: dimension, Used: finite(used), Stated: stated,
				Learned: finite(learned.Value), Low: finite(learned.Low), High: finite(learned.High)})
		}
	}
	add(capacity.Prefill, t.Rates.PrefillTokensPerS, stated.Rates.PrefillTokensPerS, t.Prefill.Learned)
	add(capacity.Decode, t.Rates.Decode(), stated.Rates.Decode(), t.Decode.Learned)
	b.Contradicts = slices.Clone(t.Contradictions)
	for i, basis := range [...]*capacity.Basis{&t.Prefill, &t.Decode} {
		if basis.Note != "" {
			b.Notes = append(b.Notes, [...]string{capacity.Prefill, capacity.Decode}[i]+": "+basis.Note)
		}
	}
	reported := finite(m.State.KVCapacityTokens)
	add(capacity.KV, cmp.Or(reported, stated.KVTokens), stated.KVTokens, capacity.Estimate{Value: m.State.KVCapacityTokens, Low: m.State.KVCapacityLeast, High: m.State.KVCapacityMost})
	if n := min(len(m.Faults), maxFaults); n > 0 {
		b.Faults = append(b.Faults, m.Faults[:n]...)
		for i := range b.Faults {
			b.Faults[i].Since = b.Faults[i].Since.UTC().Truncate(time.Second)
		}
	}
	return b
}
