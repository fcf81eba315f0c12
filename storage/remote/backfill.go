package remote

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/internal/httpclient"
)

// Endpoint says how a server is reached.
type Endpoint struct {
	URL               string `yaml:"url"` // "" for none
	httpclient.Config `yaml:",inline"`
}

func (e *Endpoint) check() error {
	if e.URL == "" {
		return nil
	}
	return e.Check(e.URL)
}

// BackfillConfig says what is asked of an existing Prometheus at the first start, so that seasons are known from the first
// hour on.
type BackfillConfig struct {
	Endpoint `yaml:",inline"`
	Days     int           `yaml:"days"`    // how far back
	Timeout  time.Duration `yaml:"timeout"` // of one query, which is over a day
	// Sources are what to ask about; without any, about the total of the one pool.
	Sources []Source `yaml:"sources"`
}

// Source is the past of one class of a pool, or of its total.
type Source struct {
	Pool   string `yaml:"pool"`
	Class  string `yaml:"class"`  // "" is the total
	Preset string `yaml:"preset"` // whose metrics the default queries are for, of [Presets]; "" is vllm
	// Match is put for $match in the queries: label matchers such as model_name="llama".
	Match   string  `yaml:"match"`
	Queries Queries `yaml:"queries"`
}

// Queries give one series each: rates per second, tokens held, and the replicas that serve. In them $match stands for
// Source.Match, $kv_capacity_tokens for what the KV cache of one replica holds. "" is the preset's query; "none" asks nothing.
type Queries struct {
	Requests string `yaml:"requests"`
	Prefill  string `yaml:"prefill"`
	Decode   string `yaml:"decode"`
	KV       string `yaml:"kv"`
	// Replicas is asked by the backtest alone.
	Replicas string `yaml:"replicas"`
	// KVCapacity is asked once, where the pool's configuration does not say what a KV cache holds. Its value is tokens, unless
	// its series has them in labels, as vLLM's vllm:cache_config_info.
	KVCapacity string `yaml:"kv_capacity"`
}

// presets are the queries for the metrics of engines and gateways. Rates are over two minutes, for which scrapes may be a minute
// apart. Prompt tokens that came from a cache are no prefill, where the metrics tell them. Of vLLM they are taken from
// vllm:prompt_tokens_cached_total, because its counters of prefix-cache hits count waiting requests again at each step. An engine
// with a KV cache of its own counts as a replica, so each data-parallel rank does. Gateways know no replicas and no KV cache.
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
		KV:       None, Replicas: None, KVCapacity: None,
	},
	"litellm": {
		Requests: `sum(rate(litellm_proxy_total_requests_metric_total{$match}[2m]))`,
		Prefill:  `sum(rate(litellm_input_tokens_metric_total{$match}[2m]))`,
		Decode:   `sum(rate(litellm_output_tokens_metric_total{$match}[2m]))`,
		KV:       None, Replicas: None, KVCapacity: None,
	},
}

// uncached is the rate of a counter of prompt tokens without those that another counts as cached.
func uncached(prompt, cached string) string {
	return fmt.Sprintf("clamp_min(sum(rate(%s{$match}[2m])) - (sum(rate(%s{$match}[2m])) or vector(0)), 0)", prompt, cached)
}

// Presets are the names of the engines and gateways that queries are known for.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// None in place of a query asks nothing.
const None = "none"

// kvVariable stands for the KV capacity of a replica.
const kvVariable = "$kv_capacity_tokens"

// MaxDays is how many days the models remember.
const MaxDays = 28

// DefaultBackfill asks nothing.
func DefaultBackfill() BackfillConfig { return BackfillConfig{Days: 14, Timeout: 30 * time.Second} }

// Check is nil for a usable configuration; else it names the key, its value and the mend.
func (c *BackfillConfig) Check() error {
	switch {
	case c.Days < 1 || c.Days > MaxDays:
		return fmt.Errorf("days is %d: it must be 1 to %d, which is all that models remember", c.Days, MaxDays)
	case c.Timeout < time.Second || c.Timeout > 10*time.Minute:
		return fmt.Errorf("timeout is %s: it must be 1s to 10m", c.Timeout)
	case c.URL == "" && len(c.Sources) > 0:
		return errors.New("url is empty: it must name a Prometheus where there are sources")
	}
	if err := c.check(); err != nil {
		return err
	}
	seen := map[[2]string]bool{}
	for i, s := range c.Sources {
		key := [2]string{s.Pool, s.Class}
		switch {
		case s.Pool == "":
			return fmt.Errorf("sources[%d].pool is empty: it must name a pool", i)
		case s.Preset != "" && !slices.Contains(Presets(), s.Preset):
			return fmt.Errorf("sources[%d].preset is %q: it must be one of %s", i, s.Preset, strings.Join(Presets(), ", "))
		case seen[key]:
			return fmt.Errorf("sources[%d].class is %q: it must be there once for each pool", i, s.Class)
		}
		seen[key] = true
	}
	return nil
}

// complete fills in a query: the default for an empty one, and what its variables stand for. An empty query, with the
// reason, asks nothing.
func complete(query, absent, match string, kvCapacityTokens float64) (filled, reason string) {
	switch query {
	case "":
		query = absent
	case None:
		return "", "it is switched off"
	}
	if strings.Contains(query, kvVariable) {
		if !(kvCapacityTokens > 0) {
			return "", "the KV capacity of a replica is neither configured nor recorded"
		}
		query = strings.ReplaceAll(query, kvVariable, strconv.FormatFloat(kvCapacityTokens, 'f', -1, 64))
	}
	return strings.ReplaceAll(query, "$match", match), ""
}
