package capacity

import (
	"math"
	"strings"
	"testing"
)

// near reports whether got differs from want by at most a share of it.
func near(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want) }

// fitOf puts a model on one GPU of 79.2 GiB, with the defaults of a pool and the weights of Llama-3-8B.
func fitOf(t *testing.T, name string, edit func(*Config)) (*Fit, error) {
	t.Helper()
	c := Config{GPU: GPU{Memory: "79.2GiB", Weights: "14.96GiB"}}.withDefaults()
	if edit != nil {
		edit(&c)
	}
	gpu, err := c.memory()
	if err != nil {
		t.Fatal(err)
	}
	return c.fit(model(t, name), 2, gpu)
}

// TestTokensAgainstEngines compares the tokens of a replica with those that vLLM printed at its start.
func TestTokensAgainstEngines(t *testing.T) {
	for _, tt := range []struct {
		name, model string
		edit        func(*Config)
		tokens      float64
	}{
		// vllm-project/vllm#10511: 79.22 GiB, weights take 14.96GiB, available_kv_cache_memory 53.29GiB; 128 KiB a
		// token.
		{"Llama-3-8B on an H100", "llama3-8b", nil, 53.29 * gib / (128 << 10)},
		// vllm-project/vllm#12569: weights took 67.7229 GB, -gpu-memory-utilization 0.98, 1381 blocks of 16.
		{"Llama-3.1-70B w8a8 on an H100", "llama3.1-70b-w8a8", func(c *Config) { c.GPU.Weights, c.GPU.Utilization = "67.7229GiB", .98 }, 1381 * 16},
		// vllm-project/vllm#2031: 7351 blocks of 16 after the fix.
		{"Llama-2-7B on an A100", "llama2-7b", func(c *Config) { c.GPU.Weights = "12.55GiB" }, 7351 * 16},
	} {
		f, err := fitOf(t, tt.model, tt.edit)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Tokens; !near(got, tt.tokens, .05) {
			t.Errorf("%s holds %.0f tokens, the engine printed %.0f", tt.name, got, tt.tokens)
		}
	}
	// vllm-project/vllm#21348: 8.11 GiB of cache on each of 4 GPUs are 178,880 tokens.
	f, err := fitOf(t, "qwen3-235b-a22b-fp8", func(c *Config) { c.GPU.PerReplica, c.GPU.Weights = 4, "220GiB" })
	if err != nil {
		t.Fatal(err)
	}
	if got := 8.11 * gib / f.TokenBytes; !near(got, 178_880, .015) {
		t.Errorf("8.11 GiB are %.0f tokens of Qwen3-235B, the engine printed 178880", got)
	}
}

// TestWindowedRequests: a layer with a sliding window holds at most the tokens of the window, however long the context.
func TestWindowedRequests(t *testing.T) {
	m := model(t, "gpt-oss-120b") // 18 of 36 layers keep 128 tokens
	if m.Windowed != 18 || m.Window != 128 {
		t.Fatalf("%d layers with a window of %d", m.Windowed, m.Window)
	}
	one := m.requestBytes(2, 1, 1)
	for context, want := range map[float64]float64{64: 64 * one, 128: 128 * one, 32_768: (32_768 + 128) * one / 2} {
		if got := m.requestBytes(2, 1, context); got != want {
			t.Errorf("%g tokens take %g bytes, want %g", context, got, want)
		}
	}
}

func TestFitRefuses(t *testing.T) {
	for want, edit := range map[string]func(c *Config){
		"gpu.weights is not set": func(c *Config) { c.GPU.Weights = "" },
		"more GPUs per replica":  func(c *Config) { c.GPU.Memory = "16GiB" },
	} {
		if _, err := fitOf(t, "llama3-8b", edit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := fitOf(t, "qwen3-next-80b", nil); err == nil || !strings.Contains(err.Error(), "keep a state for each sequence") {
		t.Errorf("a hybrid model: %v", err)
	}
}

func TestGPUMemory(t *testing.T) {
	for text, want := range map[string]float64{"h100-80g": 79.2 * gib, "H200-141G": 139.8 * gib, "80GiB": 80 * gib} {
		if got, err := gpuMemory(text); err != nil || got != want {
			t.Errorf("%q: %g, %v", text, got, err)
		}
	}
	if _, err := gpuMemory("h100"); err == nil || !strings.Contains(err.Error(), "h100-80g") {
		t.Errorf("h100: %v", err)
	}
}
