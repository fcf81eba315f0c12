package backtest

import (
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// ClusterConfig describes a simulated pool. Start from [DefaultClusterConfig].
type ClusterConfig struct {
	Pool  string
	Start time.Time // start of the cluster's clock; zero means DefaultStart

	Initial, Min, Max int          // replicas; the initial ones are ready at Start
	Warmup            capacity.Lag // from the order of a replica until it is ready; lognormal
	PendingShare      float64      // share of the warm-up before a machine is found; the rest loads weights
	GPUsPerReplica    int

	KVCapacityTokens  int64
	MaxNumSeqs        int     // sequences per replica at once
	PrefillTokensPerS float64 // of one replica, shared among its prompts
	ITL               ITL

	// A request is rejected after QueueTimeout, or if MaxQueue requests wait. The client retries after RetryAfter, with
	// up to MaxAttempts attempts.
	QueueTimeout, RetryAfter time.Duration
	MaxAttempts, MaxQueue    int
	// Patience is the time after which the client cancels an attempt in any phase, and retries in the same way. Zero
	// means never.
	Patience time.Duration
	// ReportArrivals makes the pool also write a record when an attempt arrives.
	ReportArrivals bool

	SLO SLO
}

// ITL is the time per output token: ITL(b, kv) = Base + PerSequence·b + PerThousandKV·kv/1000 for b sequences that hold
// kv tokens. Each iteration reads the weights once, and each sequence's cache.
type ITL struct {
	Base, PerSequence, PerThousandKV time.Duration
}

// At returns the inter-token latency in seconds.
func (l ITL) At(sequences int, kvTokens float64) float64 {
	return l.Base.Seconds() + l.PerSequence.Seconds()*float64(sequences) + l.PerThousandKV.Seconds()/1000*kvTokens
}

// SLO holds the service level objectives.
type SLO struct {
	// TTFT bounds the time from the client's first attempt to the first token. TTFTStretch times the prompt's time on
	// an idle replica is added, because a long prompt may take longer.
	TTFT        time.Duration
	TTFTStretch float64
	// ITL bounds the mean time per output token after the first.
	ITL time.Duration
	// Waiting is the largest queue per ready replica at the end of a minute that does not count as queued.
	Waiting float64
}

// DefaultClusterConfig has replicas like a 30-billion-parameter model on two GPUs, with about eight minutes of warm-up.
func DefaultClusterConfig() ClusterConfig {
	return ClusterConfig{
		Pool: "demo", Initial: 4, Min: 1, Max: 24,
		Warmup: capacity.Lag{P50: 8 * time.Minute, P90: 11 * time.Minute}, PendingShare: .2, GPUsPerReplica: 2,
		KVCapacityTokens: 128_000, MaxNumSeqs: 64, PrefillTokensPerS: 7000,
		ITL:          ITL{Base: 14 * time.Millisecond, PerSequence: 150 * time.Microsecond, PerThousandKV: 30 * time.Microsecond},
		QueueTimeout: 30 * time.Second, RetryAfter: 5 * time.Second, MaxAttempts: 3, MaxQueue: 4096,
		SLO: SLO{TTFT: 3 * time.Second, TTFTStretch: 4, ITL: 60 * time.Millisecond, Waiting: 4},
	}
}

// DecodeTokensPerS is the decode goodput of a replica with sequences of context tokens on average: b/ITL(b, b·context)
// for the largest b within MaxNumSeqs, KVTarget of the cache, and the objective.
func (c *ClusterConfig) DecodeTokensPerS(context float64) float64 {
	best := 0.0
	for b := 1; b <= c.MaxNumSeqs; b++ {
		kv := float64(b) * context
		itl := c.ITL.At(b, kv)
		if kv > kvTarget*float64(c.KVCapacityTokens) || itl > c.SLO.ITL.Seconds() {
			break
		}
		best = max(best, float64(b)/itl)
	}
	return best
}

// Planned shares of a replica's KV cache and prefill rate.
const kvTarget, prefillTarget = 0.85, 0.7

// Capacity is this pool's configuration for a forecaster, for sequences of context tokens on average.
func (c *ClusterConfig) Capacity(context float64) capacity.Config {
	return capacity.Config{
		Name: c.Pool, KVCapacityTokens: int(c.KVCapacityTokens), KVTarget: kvTarget, GPU: capacity.GPU{PerReplica: c.GPUsPerReplica},
		PrefillTokensPerS: c.PrefillTokensPerS, PrefillTarget: prefillTarget, DecodeTokensPerS: c.DecodeTokensPerS(context), MaxNumSeqs: c.MaxNumSeqs,
		ITL: c.SLO.ITL, Warmup: c.Warmup, Replicas: capacity.Replicas{Min: c.Min, Max: c.Max, Initial: c.Initial},
	}
}
