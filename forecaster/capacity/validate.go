package capacity

import (
	"cmp"
	"errors"
	"math"
	"time"
)

// maxReplicas bounds replicas.max.
const maxReplicas = 100_000

func (c Config) withDefaults() Config {
	c.KVTarget = cmp.Or(c.KVTarget, 0.85)
	c.GPU.PerReplica = cmp.Or(c.GPU.PerReplica, 1)
	c.GPU.Utilization = cmp.Or(c.GPU.Utilization, 0.9)
	c.ITL = cmp.Or(c.ITL, 25*time.Millisecond)
	if c.Warmup == (Lag{}) {
		c.Warmup = Lag{P50: 6 * time.Minute, P90: 12 * time.Minute}
	}
	c.Replicas.Initial = cmp.Or(c.Replicas.Initial, max(c.Replicas.Min, 1))
	return c
}

// check is every rule that a configuration can break on its own.
func (c Config) check() error {
	if c.Name == "" {
		return errors.New("pools[].name: empty; name the pool as its telemetry does")
	}
	for _, share := range []struct {
		key   string
		value float64
		most  float64
	}{
		{"kv_target", c.KVTarget, 1}, {"gpu.utilization", c.GPU.Utilization, 1},
		{"fragmentation", c.Fragmentation, 0.9}, {"quantile", c.Quantile, 0.999},
	} {
		if !(share.value >= 0 && share.value <= share.most) {
			return c.errorf(share.key, "%g is out of 0…%g; set a share, such as 0.9 for 90 %%", share.value, share.most)
		}
	}
	for _, amount := range []struct {
		key   string
		value float64
	}{
		{"kv_capacity_tokens", float64(c.KVCapacityTokens)}, {"prefill_tokens_per_s", c.PrefillTokensPerS},
		{"decode_tokens_per_s", c.DecodeTokensPerS}, {"max_requests_per_s", c.MaxRequestsPerS},
		{"max_num_seqs", float64(c.MaxNumSeqs)}, {"gpu_hour_usd", c.GPUHourUSD},
		{"slo_violation_minute_usd", c.SLOViolationMinuteUSD}, {"budget_hour_usd", c.BudgetHourUSD},
		{"itl", c.ITL.Seconds()}, {"reserves.failure", float64(c.Reserves.Failure)},
		{"reserves.rollout", float64(c.Reserves.Rollout)}, {"reserves.warm", float64(c.Reserves.Warm)},
		{"replicas.min", float64(c.Replicas.Min)}, {"replicas.initial", float64(c.Replicas.Initial)},
	} {
		if !(amount.value >= 0) || math.IsInf(amount.value, 0) {
			return c.errorf(amount.key, "%g is below 0; set 0 (unset) or more", amount.value)
		}
	}
	if n := c.GPU.PerReplica; n < 1 || n > maxGPUs {
		return c.errorf("gpu.per_replica", "%d is out of 1…%d; set the GPUs of one replica", n, maxGPUs)
	}
	if err := c.checkReplicas(); err != nil {
		return err
	}
	return c.checkWarmup()
}

func (c Config) checkReplicas() error {
	r := c.Replicas
	switch {
	case r.Max == 0:
		return c.errorf("replicas.max", "not set; set the most replicas the pool may have")
	case r.Max < 0 || r.Max > maxReplicas:
		return c.errorf("replicas.max", "%d is out of 1…%d; set the most replicas the pool may have", r.Max, maxReplicas)
	case r.Min > r.Max:
		return c.errorf("replicas.min", "%d is above max (%d); set min ≤ max", r.Min, r.Max)
	case r.Initial < r.Min || r.Initial > r.Max:
		return c.errorf("replicas.initial", "%d is out of min…max (%d…%d); set it between them", r.Initial, r.Min, r.Max)
	case c.Reserves.Total() > r.Max:
		return c.errorf("reserves", "%d replicas in sum are above replicas.max (%d); set smaller reserves or a larger max", c.Reserves.Total(), r.Max)
	}
	return nil
}

func (c Config) checkWarmup() error {
	w := c.Warmup
	switch {
	case w.P50 <= 0:
		return c.errorf("warmup.p50", "%s is not above 0; set the median time from asking for a replica to its first request", w.P50)
	case w.P90 < w.P50:
		return c.errorf("warmup.p90", "%s is below p50 (%s); set p90 ≥ p50", short(w.P90), short(w.P50))
	case w.P90 > time.Hour:
		return c.errorf("warmup.p90", "%s is beyond the forecast horizon (1h); set p90 ≤ 1h", short(w.P90))
	}
	return nil
}
