package plan

import (
	"strings"
	"testing"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// TestWorst: the risk of a scenario is the highest of its resources, in whichever order these come.
func TestWorst(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*capacity.Config)
		want Risk
	}{
		"enough":                     {func(c *capacity.Config) { c.MaxNumSeqs = 1000 }, Okay},
		"limits that are optional":   {func(c *capacity.Config) { c.MaxNumSeqs, c.MaxRequestsPerS = 0, 0 }, Okay},
		"KV memory and queue, short": {func(c *capacity.Config) { c.KVCapacityTokens = 1000 }, OutOfMemory},
		"unknown KV memory":          {func(c *capacity.Config) { c.KVCapacityTokens = 0 }, Unknown},
		"unknown KV memory, tight":   {func(c *capacity.Config) { c.KVCapacityTokens, c.DecodeTokensPerS = 0, 700 }, Tight},
		"unknown KV memory, short":   {func(c *capacity.Config) { c.KVCapacityTokens, c.DecodeTokensPerS = 0, 500 }, Shortfall},
	} {
		s := sheet(t, Input{Pool: launchPool(t, tt.edit), Traffic: launchTraffic(), Launch: Same})
		o := s.outcome(t, "baseline")
		if got := o.Worst(); got != tt.want {
			t.Errorf("%s: the risk is %s, want %s: %v", name, got, tt.want, risks(o.Uses))
		}
	}
}

// TestUnknownCapacity: without any known capacity, a sheet does not say that the launch fits, nor how many replicas it
// needs.
func TestUnknownCapacity(t *testing.T) {
	none := func(c *capacity.Config) {
		c.KVCapacityTokens, c.PrefillTokensPerS, c.DecodeTokensPerS, c.MaxRequestsPerS, c.BudgetHourUSD = 0, 0, 0, 0, 30
	}
	for name, tt := range map[string]struct {
		edit              func(*capacity.Config)
		says              string
		replicas, prefill bool // known
	}{
		"nothing": {none, "It is not known whether the launch (3 times the traffic) fits: ", false, true},
		"prefill replicas": {func(c *capacity.Config) {
			c.Disaggregated.PrefillReplicas.Max, c.PrefillTokensPerS = 20, 0
			c.KVCapacityTokens, c.DecodeTokensPerS = 1e6, 1e6
		}, "Set prefill_tokens_per_s of the pool.", true, false},
		"decode replicas": {func(c *capacity.Config) {
			none(c)
			c.Disaggregated.PrefillReplicas.Max, c.PrefillTokensPerS = 20, 1e6
		}, "Set kv_capacity_tokens or decode_tokens_per_s of the pool.", false, true},
		"only a limit of the pool": {func(c *capacity.Config) {
			none(c)
			c.Limits.RequestsPerMin = 100 * 60 * 1.1
		}, "How many replicas it needs is not known.", false, true},
		"KV memory": {func(c *capacity.Config) { c.KVCapacityTokens, c.PrefillTokensPerS = 0, 1e6 }, "fits, as far as is known.", true, true},
	} {
		pool := launchPool(t, tt.edit)
		pool.Prefill = 2
		s := sheet(t, Input{Pool: pool, Traffic: launchTraffic(), Launch: NewInput().Launch})
		o := s.outcome(t, "launch")
		if !strings.Contains(s.Headline(), tt.says) {
			t.Errorf("%s: %s", name, s.Headline())
		}
		if o.Replicas.Known() != tt.replicas || o.Prefill.Known() != tt.prefill || o.HourUSD.Known() != (tt.replicas && tt.prefill) {
			t.Errorf("%s: %v replicas, %v prefill replicas, $%v an hour", name, o.Replicas, o.Prefill, o.HourUSD)
		}
	}
}
