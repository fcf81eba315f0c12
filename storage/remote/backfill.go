package remote

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/internal/httpclient"
)

// BackfillConfig configures the queries to an existing Prometheus at the first start. The models then know days and weeks
// from the first hour.
type BackfillConfig struct {
	URL               string `yaml:"url"` // "" for none
	httpclient.Config `yaml:",inline"`
	Days              int `yaml:"days"` // how far back
	// Sources are what to query; by default the total of the one pool.
	Sources []Source `yaml:"sources"`
}

// Source says where the history of a pool's total is.
type Source struct {
	Pool   string `yaml:"pool"`
	Preset string `yaml:"preset"` // metrics of the default queries, one of [Presets]; "" is vllm
	// Match replaces $match in the queries: label matchers such as model_name="llama".
	Match   string  `yaml:"match"`
	Queries Queries `yaml:"queries"`
}

// Queries return one series each: rates per second, tokens held, ready replicas. Variables are $match for Source.Match
// and $kv_capacity_tokens for the KV cache of one replica. "" is the preset's query.
type Queries struct {
	Requests string `yaml:"requests"`
	Prefill  string `yaml:"prefill"`
	Decode   string `yaml:"decode"`
	KV       string `yaml:"kv"`
	// Replicas is used by the backtest only.
	Replicas string `yaml:"replicas"`
	// KVCapacity is used once, if the pool's configuration has no KV capacity. It is the value in tokens, or follows
	// from labels such as those of vllm:cache_config_info.
	KVCapacity string `yaml:"kv_capacity"`
}

// presets are the queries for the metrics of engines and gateways. Rates cover two minutes, so that scrape intervals up
// to a minute work. Cached prompt tokens are not prefill, if the metrics have them. For vLLM that is
// vllm:prompt_tokens_cached_total, because its prefix-cache counters count a waiting request at each step. Each engine
// with its own KV cache is a replica, so each data-parallel rank is one. Gateways have no metrics of replicas and KV
// cache.
var presets = map[string]Queries{
	"vllm": {
		Requests:   `sum(rate(vllm:request_success_total{$match}[2m]))`,
		Prefill:    uncached("vllm:prompt_tokens_total", "vllm:prompt_tokens_cached_total"),
		Decode:     `sum(rate(vllm:generation_tokens_total{$match}[2m]))`,
		KV:         `sum(vllm:kv_cache_usage_perc{$match}) * $kv_capacity_tokens`,
		Replicas:   `count(vllm:num_requests_running{$match})`,
		KVCapacity: `last_over_time(vllm:cache_config_info{$match}[1d])`,
	},
	"sglang": {
		Requests:   `sum(rate(sglang:num_requests_total{$match}[2m]))`,
		Prefill:    uncached("sglang:prompt_tokens_total", "sglang:cached_tokens_total"),
		Decode:     `sum(rate(sglang:generation_tokens_total{$match}[2m]))`,
		KV:         `sum(max by (job, instance, dp_rank) (sglang:num_used_tokens{$match}))`,
		Replicas:   `count(max by (job, instance, dp_rank) (sglang:num_used_tokens{$match}))`,
		KVCapacity: `max(last_over_time(sglang:max_total_num_tokens{$match}[1d]))`,
	},
	"dynamo": {
		Requests: `sum(rate(dynamo_frontend_requests_total{$match}[2m]))`,
		Prefill:  uncached("dynamo_frontend_input_sequence_tokens_sum", "dynamo_frontend_cached_tokens_sum"),
		Decode:   `sum(rate(dynamo_frontend_output_tokens_total{$match}[2m]))`,
		KV: `sum(max by (worker_id, dp_rank) (dynamo_frontend_worker_active_decode_blocks{worker_type!="prefill",$match}))` +
			` * scalar(max(dynamo_frontend_model_kv_cache_block_size{$match}))`,
		Replicas: `count(max by (worker_id, dp_rank) (dynamo_frontend_worker_active_decode_blocks{worker_type!="prefill",$match}))`,
		KVCapacity: `max(last_over_time(dynamo_frontend_model_kv_cache_block_size{$match}[1d]))` +
			` * max(last_over_time(dynamo_frontend_model_total_kv_blocks{$match}[1d]))`,
	},
	"envoy-ai-gateway": {
		Requests: `sum(rate(gen_ai_server_request_duration_seconds_count{$match}[2m]))`,
		Prefill:  `sum(rate(gen_ai_client_token_usage_token_sum{gen_ai_token_type="input",$match}[2m]))`,
		Decode:   `sum(rate(gen_ai_client_token_usage_token_sum{gen_ai_token_type="output",$match}[2m]))`,
	},
	"litellm": {
		Requests: `sum(rate(litellm_proxy_total_requests_metric_total{$match}[2m]))`,
		Prefill:  `sum(rate(litellm_input_tokens_metric_total{$match}[2m]))`,
		Decode:   `sum(rate(litellm_output_tokens_metric_total{$match}[2m]))`,
	},
}

// uncached is the rate of prompt tokens minus cached ones.
func uncached(prompt, cached string) string {
	return fmt.Sprintf("clamp_min(sum(rate(%s{$match}[2m])) - (sum(rate(%s{$match}[2m])) or vector(0)), 0)", prompt, cached)
}

// Presets lists the engines and gateways with known queries.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// kvVariable is replaced by the KV capacity of a replica.
const kvVariable = "$kv_capacity_tokens"

// MaxDays bounds how far back demand is read, days. The models keep 8 days of it; slower averages and corrections also
// learn from earlier days.
const MaxDays = 28

// DefaultBackfill has no queries.
func DefaultBackfill() BackfillConfig { return BackfillConfig{Days: 14} }

// Check returns an error that names the key, its value and the fix, or nil.
func (c *BackfillConfig) Check() error {
	switch {
	case c.Days < 1 || c.Days > MaxDays:
		return fmt.Errorf("days is %d: it must be 1 to %d, because earlier days hardly change the models", c.Days, MaxDays)
	case c.URL == "" && len(c.Sources) > 0:
		return errors.New("url is empty: it must name a Prometheus where there are sources")
	}
	if c.URL != "" {
		if err := c.Config.Check(c.URL); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for i, s := range c.Sources {
		switch {
		case s.Pool == "":
			return fmt.Errorf("sources[%d].pool is empty: it must name a pool", i)
		case s.Preset != "" && !slices.Contains(Presets(), s.Preset):
			return fmt.Errorf("sources[%d].preset is %q: it must be one of %s", i, s.Preset, strings.Join(Presets(), ", "))
		case seen[s.Pool]:
			return fmt.Errorf("sources[%d].pool is %q: it must be there once", i, s.Pool)
		}
		seen[s.Pool] = true
	}
	return nil
}
