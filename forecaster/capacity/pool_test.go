package capacity

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

const llamaYAML = `
name: llama
model_config: testdata/llama3-70b.json
gpu: {memory: 80GiB, per_replica: 4, utilization: 0.9, weights: 140GiB, workspace: 2GiB}
kv_target: 0.5
prefill_tokens_per_s: 20000
decode_tokens_per_s: 900
itl: 40ms
warmup: {p50: 6m, p90: 12m}
replicas: {min: 2, max: 16, initial: 4}
reserves: {failure: 1, warm: 2}
gpu_hour_usd: 3
slo_violation_minute_usd: 20
`

func llama(t *testing.T) (Config, []byte) {
	t.Helper()
	var c Config
	if err := yaml.UnmarshalWithOptions([]byte(llamaYAML), &c, yaml.DisallowUnknownField()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.ModelConfig)
	if err != nil {
		t.Fatal(err)
	}
	return c, data
}

func TestPoolPerReplica(t *testing.T) {
	c, data := llama(t)
	p, err := New(c, data)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		dimension string
		reported  float64
		want      float64
		ok        bool
	}{
		{KV, 0, 458752 * .5, true}, // 140 GiB of cache at 320 KiB a token
		{KV, 1000, 500, true},
		{Prefill, 1000, 14000, true}, // 70 % of 20000
		{Decode, 0, 900, true},
		{Requests, 0, 0, false},
		{"cached", 0, 0, false},
	}
	for _, tt := range tests {
		if got, ok := p.PerReplica(tt.dimension, tt.reported); got != tt.want || ok != tt.ok {
			t.Errorf("%s (reported %g): %g, %t; want %g, %t", tt.dimension, tt.reported, got, ok, tt.want, tt.ok)
		}
	}
	c.KVCapacityTokens = 5000
	if p, err = New(c, data); err != nil || p.KVTokens != 5000 {
		t.Errorf("kv_capacity_tokens 5000 gives %g tokens, %v", p.KVTokens, err)
	}
}

func TestCostQuantileAndLimit(t *testing.T) {
	c, data := llama(t)
	for _, tt := range []struct {
		gpuHour, minute float64
		want            float64
		ok              bool
	}{
		{3, 3.8, .95, true}, // 4 GPUs at 3 $/h are 0.2 $/min
		{3, .001, .5, true},
		{3, 1e9, .99, true},
		{0, 20, 0, false},
		{3, 0, 0, false},
	} {
		c.GPUHourUSD, c.SLOViolationMinuteUSD = tt.gpuHour, tt.minute
		p, err := New(c, data)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := p.CostQuantile(); ok != tt.ok || got < tt.want-1e-9 || got > tt.want+1e-9 {
			t.Errorf("%g $/h, %g $/min: %g, %t; want %g, %t", tt.gpuHour, tt.minute, got, ok, tt.want, tt.ok)
		}
	}
	c.GPUHourUSD = 3
	for budget, want := range map[float64]struct {
		n   int
		key string
	}{0: {16, "replicas.max"}, 60: {5, "budget_hour_usd"}, 1e6: {16, "replicas.max"}, 1: {2, "budget_hour_usd"}} {
		c.BudgetHourUSD = budget
		p, err := New(c, data)
		if err != nil {
			t.Fatal(err)
		}
		if n, key := p.Limit(); n != want.n || key != want.key {
			t.Errorf("budget %g: %d by %s, want %d by %s", budget, n, key, want.n, want.key)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		want   string
		change func(*Config)
	}{
		{"pools[].name: empty", func(c *Config) { c.Name = "" }},
		{"pools[llama].warmup.p90: 2 min are below p50 (6 min); set p90 ≥ p50", func(c *Config) { c.Warmup.P90 = 2 * time.Minute }},
		{"pools[llama].warmup.p50: -1s is not above 0", func(c *Config) { c.Warmup.P50 = -time.Second }},
		{"pools[llama].warmup.p90: 120 min are beyond the forecast horizon (1h)", func(c *Config) { c.Warmup.P90 = 2 * time.Hour }},
		{`pools[llama].timezone: "Mars/Olympus" is no IANA time zone`, func(c *Config) { c.Timezone = "Mars/Olympus" }},
		{`pools[llama].timezone: "Local" is no IANA time zone`, func(c *Config) { c.Timezone = "Local" }},
		{"pools[llama].kv_target: 1.2 is out of 0…1", func(c *Config) { c.KVTarget = 1.2 }},
		{"pools[llama].gpu.utilization: 90 is out of 0…1", func(c *Config) { c.GPU.Utilization = 90 }},
		{"pools[llama].quantile: 95 is out of 0…0.999", func(c *Config) { c.Quantile = 95 }},
		{"pools[llama].decode_tokens_per_s: -1 is not a number of 0 or more", func(c *Config) { c.DecodeTokensPerS = -1 }},
		{"pools[llama].gpu_hour_usd: +Inf is not a number of 0 or more", func(c *Config) { c.GPUHourUSD = math.Inf(1) }},
		{"pools[llama].itl: -0.001 is not a number of 0 or more", func(c *Config) { c.ITL = -time.Millisecond }},
		{"pools[llama].replicas.max: not set", func(c *Config) { c.Replicas.Max = 0 }},
		{"pools[llama].replicas.min: 20 is above max (16)", func(c *Config) { c.Replicas.Min, c.Replicas.Initial = 20, 20 }},
		{"pools[llama].replicas.initial: 1 is out of min…max (2…16)", func(c *Config) { c.Replicas.Initial = 1 }},
		{"pools[llama].reserves: 18 replicas in sum", func(c *Config) { c.Reserves.Rollout = 15 }},
		{"pools[llama].gpu.per_replica: -2 is out of 1…1024", func(c *Config) { c.GPU.PerReplica = -2 }},
		{`pools[llama].gpu.memory: "80" is no memory size with a unit, from 0 to 1024TiB; write it like 80GiB`, func(c *Config) { c.GPU.Memory = "80" }},
		{`pools[llama].gpu.type: "h100" is no GPU known by name (a100-40g, `, func(c *Config) { c.GPU.Type, c.GPU.Memory = "h100", "" }},
		{"pools[llama].limits.tokens_per_min: -1 is not a number of 0 or more", func(c *Config) { c.Limits.TokensPerMin = -1 }},
		{"pools[llama].slo.ttft: -1 is not a number of 0 or more", func(c *Config) { c.SLO.TTFT = -time.Second }},
		{"pools[llama].disaggregated.prefill_replicas.min: 3 is above max (2)", func(c *Config) { c.Disaggregated.PrefillReplicas, c.Reserves = Replicas{Min: 3, Max: 2}, Reserves{} }},
		{"pools[llama].budget_hour_usd: 40, and gpu_hour_usd is not set", func(c *Config) { c.BudgetHourUSD, c.GPUHourUSD = 40, 0 }},
		{"pools[llama].disaggregated.prefill_replicas.max: not set, and", func(c *Config) { c.Disaggregated.PrefillReplicas.Initial = 2 }},
		{"pools[llama].disaggregated.prefill_reserves: set, and prefill_replicas.max is not", func(c *Config) { c.Disaggregated.PrefillReserves = new(Reserves) }},
		{"pools[llama].disaggregated.prefill_reserves: not set, so that the 3 replicas of reserves are kept for prefill too, above prefill_replicas.max (2)", func(c *Config) { c.Disaggregated.PrefillReplicas.Max = 2 }},
		{"pools[llama].disaggregated.prefill_reserves: 5 replicas in sum are above disaggregated.prefill_replicas.max (4)", func(c *Config) {
			c.Disaggregated = Disaggregated{PrefillReplicas: Replicas{Max: 4}, PrefillReserves: &Reserves{Failure: 2, Failover: 3}}
		}},
		{"pools[llama].disaggregated.prefill_reserves.warm: -1 is below 0", func(c *Config) {
			c.Disaggregated = Disaggregated{PrefillReplicas: Replicas{Max: 4}, PrefillReserves: &Reserves{Warm: -1}}
		}},
		{"pools[llama].reserves.failover: -1 is below 0", func(c *Config) { c.Reserves.Failover = -1 }},
		{"pools[llama].gpu: weights take 256.0 GiB", func(c *Config) { c.GPU.Weights = "1TiB" }},
		{`pools[llama].gpu.weights: "lots" is no memory size with a unit`, func(c *Config) { c.GPU.Weights, c.KVCapacityTokens = "lots", 5000 }},
		{`pools[llama].kv_dtype: KV cache dtype "int3" is unknown`, func(c *Config) { c.KVDType = "int3" }},
	}
	for _, tt := range tests {
		c, data := llama(t)
		tt.change(&c)
		if _, err := New(c, data); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got  %v\nwant %s…", err, tt.want)
		}
	}
	c, _ := llama(t)
	if _, err := New(c, nil); err == nil || !strings.HasPrefix(err.Error(), "pools[llama].model_config: not set") {
		t.Errorf("gpu.memory without a model: %v", err)
	}
	c.KVCapacityTokens, c.GPU.Weights = 5000, "lots"
	if _, err := New(c, nil); err == nil || !strings.HasPrefix(err.Error(), "pools[llama].gpu.weights: ") {
		t.Errorf("an invalid gpu.weights that is not needed: %v", err)
	}
	c, _ = llama(t)
	if _, err := New(c, []byte("{}")); err == nil || !strings.Contains(err.Error(), "pools[llama].model_config: testdata/llama3-70b.json: config.json: num_hidden_layers is missing") {
		t.Errorf("bad model: %v", err)
	}
}

func TestNewDefaults(t *testing.T) {
	p, err := New(Config{Name: "p", Replicas: Replicas{Max: 3}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.KVTarget != .85 || p.GPU.PerReplica != 1 || p.Replicas.Initial != 1 || p.Warmup.Quantile(.9) != 12*time.Minute {
		t.Errorf("%+v", p)
	}
	if _, ok := p.PerReplica(KV, 0); ok {
		t.Error("an unknown KV cache has a known capacity")
	}
}

// TestPoolFromModel: the KV capacity follows from a model, a type of GPU and the size of the weights. Prefill replicas
// have their own bounds, and the reserves of the others unless stated.
func TestPoolFromModel(t *testing.T) {
	c, data := llama(t)
	c.GPU = GPU{Type: "h100-80g", PerReplica: 4, Weights: "131.4GiB"}
	c.Disaggregated = Disaggregated{PrefillReplicas: Replicas{Max: 4}}
	p, err := New(c, data)
	if err != nil {
		t.Fatal(err)
	}
	if p.Fit == nil || !(p.KVTokens > 400_000 && p.KVTokens < 470_000) {
		t.Errorf("%g tokens on %+v", p.KVTokens, p.Fit)
	}
	if p.ReservesOf(PrefillRole) != p.Reserves || p.Reserves.Total() == 0 {
		t.Errorf("reserves of prefill %+v, of the others %+v", p.ReservesOf(PrefillRole), p.Reserves)
	}
	stated := c
	stated.Disaggregated.PrefillReserves = &Reserves{Warm: 1}
	if p, err := New(stated, data); err != nil || p.ReservesOf(PrefillRole) != (Reserves{Warm: 1}) || p.ReservesOf(DecodeRole) != c.Reserves || p.BoundsOf(PrefillRole).Max != 4 || p.BoundsOf(DecodeRole) != p.Replicas {
		t.Errorf("stated prefill reserves: %+v, %v", p.ReservesOf(PrefillRole), err)
	}
	if !p.Disaggregated || RoleOf(KV) != DecodeRole || RoleOf(Prefill) != PrefillRole || RoleOf(Requests) != AnyRole {
		t.Error("a resource has the wrong role")
	}
	gptOSS, err := os.ReadFile("testdata/gpt-oss-120b.json")
	if err != nil {
		t.Fatal(err)
	}
	c.GPU.Weights, c.Disaggregated = "60.8GiB", Disaggregated{}
	full, err := New(c, gptOSS)
	if err != nil {
		t.Fatal(err)
	}
	c.ContextTokens = 32_000
	windowed, err := New(c, gptOSS)
	if err != nil {
		t.Fatal(err)
	}
	if ratio := windowed.KVTokens / full.KVTokens; !(ratio > 1.9 && ratio < 2) {
		t.Errorf("with sliding windows the cache holds %.2f times as many of 32000 tokens", ratio)
	}
}

// TestPoolFromCurve: measured rates are used in place of stated ones, and max_num_seqs does not reduce them.
func TestPoolFromCurve(t *testing.T) {
	data, err := os.ReadFile("testdata/curves/vllm.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Name: "p", Replicas: Replicas{Max: 3}, CurveFile: "bench.json", PrefillTokensPerS: 1, DecodeTokensPerS: 1, MaxNumSeqs: 8, SLO: SLO{TTFT: 1200 * time.Millisecond, ITL: 50 * time.Millisecond}}
	p, err := NewFrom(c, Files{Curve: data})
	if err != nil {
		t.Fatal(err)
	}
	prefill, _ := p.PerReplica(Prefill, 0)
	decode, _ := p.PerReplica(Decode, 0)
	if !near(decode, 2048, 1e-9) || !(prefill > 7680) || p.Rates.Source != Given || p.Rates.Extrapolated {
		t.Errorf("%g prefill and %g decode tokens/s, %+v", prefill, decode, p.Rates)
	}
	c.SLO.ITL = time.Millisecond
	if _, err = NewFrom(c, Files{Curve: data}); err == nil || !strings.HasPrefix(err.Error(), "pools[p].curve_file: bench.json: at the lowest load measured, ITL") {
		t.Errorf("error %v", err)
	}
	if _, err = NewFrom(c, Files{Curve: []byte("x")}); err == nil || !strings.HasPrefix(err.Error(), "pools[p].curve_file: bench.json: column \"x\" is none of") {
		t.Errorf("error %v", err)
	}
}

// A rate that the benchmark does not have is the stated one.
func TestRateBesideCurve(t *testing.T) {
	c := Config{Name: "p", Replicas: Replicas{Max: 3}, CurveFile: "bench.csv", PrefillTokensPerS: 3000, DecodeTokensPerS: 900}
	for _, tt := range []struct {
		curve           string
		prefill, decode Source
	}{
		{"concurrency,prefill_tokens_per_s\n8,5000\n", Given, Stated},
		{"concurrency,decode_tokens_per_s\n8,800\n", Stated, Given},
		{"concurrency,prefill_tokens_per_s,decode_tokens_per_s\n8,5000,800\n", Given, Given},
	} {
		p, err := NewFrom(c, Files{Curve: []byte(tt.curve)})
		if err != nil {
			t.Fatal(err)
		}
		got := p.Trust(new(Service), 0, time.Unix(0, 0))
		if got.Prefill.Source != tt.prefill || got.Decode.Source != tt.decode {
			t.Errorf("%q: prefill is %s, decode %s", tt.curve, got.Prefill.Source, got.Decode.Source)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]float64{"80GiB": 80 << 30, "141 GB": 141e9, " 512MiB ": 512 << 20, "1.5TiB": 1.5 * (1 << 40), "0B": 0, "7kB": 7000} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: %g, %v; want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"", "80", "GiB", "-1GiB", "NaNGiB", "InfGiB", "9e9TiB", "80 gib", "80GiBs"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is read as %g", text, got)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	f.Add("80GiB")
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := parseSize(s); err == nil && !(v >= 0 && v <= maxSize) {
			t.Errorf("%q is read as %g", s, v)
		}
	})
}
