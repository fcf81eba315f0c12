package backtest

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// ClusterConfig describes a simulated pool. Start from [DefaultClusterConfig].
type ClusterConfig struct {
	Pool  string
	Start time.Time // the cluster's clock begins here; zero means DefaultStart

	Initial, Min, Max int          // replicas; the initial ones are ready at Start
	Warmup            capacity.Lag // from asking for a replica to having it; lognormal
	PendingShare      float64      // share of the warm-up spent waiting for a machine, the rest loads weights
	GPUsPerReplica    int

	KVCapacityTokens  int64
	MaxNumSeqs        int     // sequences a replica runs side by side
	PrefillTokensPerS float64 // of one replica, shared among the prompts it is working on
	ITL               ITL

	// A request that waited QueueTimeout is rejected; the client tries again after RetryAfter, MaxAttempts times in all.
	// So it does when MaxQueue requests wait already.
	QueueTimeout, RetryAfter time.Duration
	MaxAttempts, MaxQueue    int
	// Patience is how long after an attempt began its client cancels it, wherever it is by then, and tries again in the
	// same way. Zero is for ever.
	Patience time.Duration
	// ReportArrivals makes the pool write a record of each attempt when it arrives, too.
	ReportArrivals bool

	SLO SLO
}

// ITL is the law of the time per output token, ITL(b, kv) = Base + PerSequence·b + PerThousandKV·kv/1000 for b sequences
// that hold kv tokens: each iteration reads the weights once, and every sequence's cache.
type ITL struct {
	Base, PerSequence, PerThousandKV time.Duration
}

// At is the inter-token latency in seconds.
func (l ITL) At(sequences int, kvTokens float64) float64 {
	return l.Base.Seconds() + l.PerSequence.Seconds()*float64(sequences) + l.PerThousandKV.Seconds()/1000*kvTokens
}

// SLO is what users were promised.
type SLO struct {
	// TTFT bounds the time from the client's first attempt to the first token, beside TTFTStretch times what the prompt
	// takes on an idle replica: a long prompt may take longer.
	TTFT        time.Duration
	TTFTStretch float64
	// ITL bounds the mean time per output token after the first.
	ITL time.Duration
	// Waiting is how many requests may wait per ready replica at the end of a minute that is not counted as queued.
	Waiting float64
}

// DefaultClusterConfig is a pool of replicas like a 30-billion-parameter model on two GPUs, that take about eight
// minutes to warm up.
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

// DecodeTokensPerS is the decode goodput of a replica whose sequences hold context tokens each on average: b/ITL(b,
// b·context) for the largest b within MaxNumSeqs, KVTarget of the cache, and the objective.
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

// Shares of a replica's KV cache and prefill rate to plan with.
const kvTarget, prefillTarget = 0.85, 0.7

// Capacity is what a forecaster should be told of this pool, for sequences that hold context tokens on average.
func (c *ClusterConfig) Capacity(context float64) capacity.Config {
	return capacity.Config{
		Name: c.Pool, KVCapacityTokens: int(c.KVCapacityTokens), KVTarget: kvTarget, GPU: capacity.GPU{PerReplica: c.GPUsPerReplica},
		PrefillTokensPerS: c.PrefillTokensPerS, PrefillTarget: prefillTarget, DecodeTokensPerS: c.DecodeTokensPerS(context), MaxNumSeqs: c.MaxNumSeqs,
		ITL: c.SLO.ITL, Warmup: c.Warmup, Replicas: capacity.Replicas{Min: c.Min, Max: c.Max, Initial: c.Initial},
	}
}

func (c *ClusterConfig) check() error {
	for _, rule := range []struct {
		ok   bool
		mend string
	}{
		{c.KVCapacityTokens > 0, "KVCapacityTokens must be positive"},
		{c.MaxNumSeqs > 0, "MaxNumSeqs must be positive"},
		{c.PrefillTokensPerS > 0 && !math.IsInf(c.PrefillTokensPerS, 0), "PrefillTokensPerS must be positive"},
		{c.ITL.Base > 0 && c.ITL.PerSequence >= 0 && c.ITL.PerThousandKV >= 0, "ITL.Base must be positive and its slopes not negative"},
		{c.Warmup.P50 > 0 && c.Warmup.P90 >= c.Warmup.P50, "Warmup needs 0 < P50 ≤ P90"},
		{c.PendingShare >= 0 && c.PendingShare < 1, "PendingShare must be in [0, 1)"},
		{c.Min >= 0 && c.Min <= c.Initial && c.Initial <= c.Max, "Min ≤ Initial ≤ Max must hold"},
		{c.QueueTimeout > 0 && c.RetryAfter > 0, "QueueTimeout and RetryAfter must be positive"},
		{c.Patience >= 0, "Patience must not be negative"},
		{c.MaxAttempts > 0 && c.MaxQueue > 0, "MaxAttempts and MaxQueue must be positive"},
		{c.GPUsPerReplica > 0, "GPUsPerReplica must be positive"},
	} {
		if !rule.ok {
			return errors.New("simulated pool: " + rule.mend)
		}
	}
	if !c.Start.Equal(c.Start.Truncate(time.Minute)) {
		return fmt.Errorf("simulated pool: Start %s is not a whole minute", c.Start)
	}
	return nil
}
