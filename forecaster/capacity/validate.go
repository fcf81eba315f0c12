package capacity

import (
	"cmp"
	"errors"
	"math"
	"time"
)

const maxReplicas = 100_000

// Shares of a replica's KV cache and prefill rate to plan with.
const (
	defaultKVTarget      = 0.85
	defaultPrefillTarget = 0.7 // above, queues of prompts grow long
)

// defaultWorkspace is what an engine uses of a GPU beside weights and cache: a GiB each for the CUDA context, for
// buffers of collectives and for activations. vLLM printed 1.26 GiB of activations for Llama-3-8B
// (vllm-project/vllm#10511).
const defaultWorkspace = 3 * gib

func (c Config) withDefaults() Config {
	c.KVTarget, c.PrefillTarget = cmp.Or(c.KVTarget, defaultKVTarget), cmp.Or(c.PrefillTarget, defaultPrefillTarget)
	c.GPU.PerReplica = cmp.Or(c.GPU.PerReplica, 1)
	c.GPU.Utilization = cmp.Or(c.GPU.Utilization, 0.9)
	c.ITL = cmp.Or(c.ITL, 25*time.Millisecond)
	if c.Warmup == (Lag{}) {
		c.Warmup = Lag{P50: 6 * time.Minute, P90: 12 * time.Minute}
	}
	for _, r := range []*Replicas{&c.Replicas, &c.Disaggregated.PrefillReplicas} {
		if r.Max != 0 {
			r.Initial = cmp.Or(r.Initial, max(r.Min, 1))
		}
	}
	return c
}

// check checks the configuration without the files that it names.
func (c Config) check() error {
	if c.Name == "" {
		return errors.New("pools[].name: empty; name the pool as its telemetry does")
	}
	for _, share := range []struct {
		key   string
		value float64
		most  float64
	}{
		{"kv_target", c.KVTarget, 1}, {"prefill_target", c.PrefillTarget, 1}, {"gpu.utilization", c.GPU.Utilization, 1},
		{"quantile", c.Quantile, 0.999},
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
		{"itl", c.ITL.Seconds()}, {"slo.ttft", c.SLO.TTFT.Seconds()}, {"slo.itl", c.SLO.ITL.Seconds()},
		{"replicas.min", float64(c.Replicas.Min)}, {"replicas.initial", float64(c.Replicas.Initial)},
		{"context_tokens", float64(c.ContextTokens)}, {"limits.requests_per_min", c.Limits.RequestsPerMin},
		{"limits.tokens_per_min", c.Limits.TokensPerMin}, {"disaggregated.prefill_replicas.min", float64(c.Disaggregated.PrefillReplicas.Min)},
	} {
		if !(amount.value >= 0) || math.IsInf(amount.value, 0) {
			return c.errorf(amount.key, "%g is not a number of 0 or more; set 0 (unset) or more", amount.value)
		}
	}
	if c.BudgetHourUSD > 0 && c.GPUHourUSD == 0 {
		return c.errorf("budget_hour_usd", "%g, and gpu_hour_usd is not set, so that it bounds nothing; set both or neither", c.BudgetHourUSD)
	}
	if c.Rates != "" && c.Rates != Stated && c.Rates != Learned {
		return c.errorf("rates", "%q is neither stated nor learned; set one of them, or nothing", c.Rates)
	}
	if n := c.GPU.PerReplica; n < 1 || n > maxGPUs {
		return c.errorf("gpu.per_replica", "%d is out of 1…%d; set the GPUs of one replica", n, maxGPUs)
	}
	if err := c.checkRoles(); err != nil {
		return err
	}
	return c.checkWarmup()
}

// checkRoles checks the replicas and reserves of the pool, and those for prefill.
func (c Config) checkRoles() error {
	if err := c.checkRole("", c.Replicas, c.Reserves); err != nil {
		return err
	}
	const prefill = "disaggregated.prefill_"
	r, kept := c.Disaggregated.PrefillReplicas, c.Disaggregated.PrefillReserves
	switch {
	case r.Max == 0 && kept != nil:
		return c.errorf(prefill+"reserves", "set, and prefill_replicas.max is not; set both or neither")
	case r.Max == 0 && r != Replicas{}:
		return c.errorf(prefill+"replicas.max", "not set, and other keys of prefill_replicas are; set it, or none of them")
	case r.Max == 0:
		return nil
	case kept == nil && c.Reserves.Total() > r.Max:
		return c.errorf(prefill+"reserves", "not set, so that the %d replicas of reserves are kept for prefill too, above prefill_replicas.max (%d); set what is to be kept of those, such as {failure: 1}", c.Reserves.Total(), r.Max)
	case kept == nil:
		kept = &c.Reserves // checked, and within prefill_replicas.max
	}
	return c.checkRole(prefill, r, *kept)
}

// checkRole checks one role, whose keys begin with prefix.
func (c Config) checkRole(prefix string, r Replicas, kept Reserves) error {
	for _, x := range kept.Each() {
		if x.Replicas < 0 {
			return c.errorf(prefix+"reserves."+x.Name, "%d is below 0; set 0 (unset) or more", x.Replicas)
		}
	}
	switch {
	case r.Max == 0:
		return c.errorf(prefix+"replicas.max", "not set; set the most replicas the pool may have")
	case r.Max < 0 || r.Max > maxReplicas:
		return c.errorf(prefix+"replicas.max", "%d is out of 1…%d; set the most replicas the pool may have", r.Max, maxReplicas)
	case r.Min > r.Max:
		return c.errorf(prefix+"replicas.min", "%d is above max (%d); set min ≤ max", r.Min, r.Max)
	case r.Initial < r.Min || r.Initial > r.Max:
		return c.errorf(prefix+"replicas.initial", "%d is out of min…max (%d…%d); set it between them", r.Initial, r.Min, r.Max)
	case kept.Total() > r.Max:
		return c.errorf(prefix+"reserves", "%d replicas in sum are above %sreplicas.max (%d); set smaller reserves or a larger max", kept.Total(), prefix, r.Max)
	}
	return nil
}

func (c Config) checkWarmup() error {
	w := c.Warmup
	switch {
	case w.P50 <= 0:
		return c.errorf("warmup.p50", "%s is not above 0; set the median time from asking for a replica to its first request", w.P50)
	case w.P90 < w.P50:
		return c.errorf("warmup.p90", "%g min are below p50 (%g min); set p90 ≥ p50", w.P90.Minutes(), w.P50.Minutes())
	case w.P90 > time.Hour:
		return c.errorf("warmup.p90", "%g min are beyond the forecast horizon (1h); set p90 ≤ 1h", w.P90.Minutes())
	}
	return nil
}
