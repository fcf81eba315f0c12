package remote

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
	Pool  string `yaml:"pool"`
	Class string `yaml:"class"` // "" is the total
	// Match is put for $match in the queries: label matchers such as model_name="llama".
	Match   string  `yaml:"match"`
	Queries Queries `yaml:"queries"`
}

// Queries give a dimension of demand each, as one series: rates per second, and tokens held. In them $match stands for
// Source.Match, $kv_capacity_tokens for what the KV cache of one replica holds. "" is the default, which is for vLLM;
// "none" asks nothing.
type Queries struct {
	Requests string `yaml:"requests"`
	Prefill  string `yaml:"prefill"`
	Decode   string `yaml:"decode"`
	KV       string `yaml:"kv"`
}

// DefaultQueries are for the metrics of vLLM. Rates are over two minutes, for which scrapes may be a minute apart. Prompt
// tokens that came from a cache are no prefill; they are taken from vllm:prompt_tokens_cached_total, because the counters of
// prefix-cache hits count waiting requests again at each step.
func DefaultQueries() Queries {
	return Queries{
		Requests: `sum(rate(vllm:request_success_total{$match}[2m]))`,
		Prefill: `clamp_min(sum(rate(vllm:prompt_tokens_total{$match}[2m]))` +
			` - (sum(rate(vllm:prompt_tokens_cached_total{$match}[2m])) or vector(0)), 0)`,
		Decode: `sum(rate(vllm:generation_tokens_total{$match}[2m]))`,
		KV:     `sum(vllm:kv_cache_usage_perc{$match}) * $kv_capacity_tokens`,
	}
}

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
			return "", "the pool's KV capacity is not configured"
		}
		query = strings.ReplaceAll(query, kvVariable, strconv.FormatFloat(kvCapacityTokens, 'f', -1, 64))
	}
	return strings.ReplaceAll(query, "$match", match), ""
}
