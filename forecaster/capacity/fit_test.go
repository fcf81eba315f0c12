package capacity

import (
	"math"
	"strings"
	"testing"
)

// near says whether got is within a share of want.
func near(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want) }

// TestWeights holds the counts against the numbers that model cards and safetensors' indices give.
func TestWeights(t *testing.T) {
	for _, tt := range []struct {
		model  string
		total  float64
		active float64 // 0: a dense model
	}{
		{"llama3-70b", 70_553_706_496, 0}, // Llama 3 model card: 70.6B
		{"llama3-8b", 8_030_261_248, 0},
		{"llama2-7b", 6_738_415_616, 0},
		{"mistral-7b", 7_241_732_096, 0},
		{"mixtral-8x7b", 46_702_792_704, 12.9e9}, // arXiv:2401.04088: 47B, 13B active
		{"gemma-7b", 8_537_680_896, 0},
		{"gemma2-9b", 9_241_705_984, 0},
		{"qwen3-32b", 32_762_123_264, 0},
		{"qwen3-30b-a3b", 30_532_122_624, 3.3e9},
		{"qwen3-235b-a22b-fp8", 235_093_634_560, 22.2e9},
		{"deepseek-v3", 671e9, 37e9},     // arXiv:2412.19437
		{"gpt-oss-120b", 116.8e9, 5.7e9}, // arXiv:2508.10925, table 1, biases included; active with the output embedding only
		{"qwen3-next-80b", 80e9, 3.9e9},
		{"llama4-scout", 109e9 - .86e9, 17.2e9},    // model card: 109B, 17B active; less the image encoder
		{"llama4-maverick", 400.7e9 - .86e9, 17e9}, // likewise 400B
	} {
		w := model(t, tt.model).Weights
		if !near(w.Total(), tt.total, .012) {
			t.Errorf("%s has %.4g weights, want %.4g", tt.model, w.Total(), tt.total)
		}
		if active := w.Total() - w.Experts + w.Active; tt.active > 0 && !near(active, tt.active, .13) {
			t.Errorf("%s has %.3g active weights, want %.3g", tt.model, active, tt.active)
		}
	}
	if w := model(t, "dbrx").Weights; w != (Weights{}) {
		t.Errorf("dbrx, whose config does not tell, has %+v", w)
	}
}

// TestCheckpoint holds sizes on disk and in memory against published ones.
func TestCheckpoint(t *testing.T) {
	for _, tt := range []struct {
		model, dtype string
		tp           int
		perGPU       float64 // GiB
	}{
		{"llama3-8b", "", 1, 14.96},           // vllm-project/vllm#10511: model weights take 14.96GiB
		{"llama3-8b", "", 2, 7.48},            // likewise with -tp 2
		{"llama3.1-70b-w8a8", "", 1, 67.7229}, // vllm-project/vllm#12569: Loading model weights took 67.7229 GB
		{"gpt-oss-120b", "", 1, 60.8},         // arXiv:2508.10925: checkpoint 60.8GiB
		{"llama3-70b", "fp8", 1, 67.7},
		{"llama3-70b", "int4", 1, 36.9}, // AWQ checkpoints of it have 39.8 GB
	} {
		f, err := NewFit(model(t, tt.model), Deployment{GPUBytes: 1 << 40, Tensor: tt.tp, WeightsDType: tt.dtype})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.GPU.Weights / gib; !near(got, tt.perGPU, .02) {
			t.Errorf("%s %s on %d GPUs: %.2f GiB, want %.2f", tt.model, tt.dtype, tt.tp, got, tt.perGPU)
		}
	}
}

// TestTokensAgainstEngines holds the tokens of a replica against what vLLM printed at its start.
func TestTokensAgainstEngines(t *testing.T) {
	for _, tt := range []struct {
		name, model string
		d           Deployment
		tokens      float64
		within      float64
	}{
		// vllm-project/vllm#10511: 79.22 GiB, available_kv_cache_memory 53.29GiB; 128 KiB a token.
		{"Llama-3-8B on an H100", "llama3-8b", Deployment{GPUBytes: 79.22 * gib}, 53.29 * gib / (128 << 10), .03},
		// vllm-project/vllm#12569: -max-model-len 2048 -gpu-memory-utilization 0.98, 1381 blocks of 16.
		{"Llama-3.1-70B w8a8 on an H100", "llama3.1-70b-w8a8", Deployment{GPUBytes: 79.1 * gib, Utilization: .98}, 1381 * 16, .05},
		// vllm-project/vllm#2031: 7351 blocks of 16 after the fix, at 4096 tokens an iteration.
		{"Llama-2-7B on an A100", "llama2-7b", Deployment{GPUBytes: 79.2 * gib, BatchedTokens: 4096}, 7351 * 16, .05},
	} {
		f, err := NewFit(model(t, tt.model), tt.d)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Tokens(1000); !near(got, tt.tokens, tt.within) {
			t.Errorf("%s holds %.0f tokens, the engine said %.0f", tt.name, got, tt.tokens)
		}
	}
	// vllm-project/vllm#21348: 8.11 GiB of cache on each of 4 GPUs are 178,880 tokens.
	f, err := NewFit(model(t, "qwen3-235b-a22b-fp8"), Deployment{GPUBytes: 79.2 * gib, Tensor: 4})
	if err != nil {
		t.Fatal(err)
	}
	if got := 8.11 * gib / f.TokenBytes.PerGPU; !near(got, 178_880, .015) {
		t.Errorf("8.11 GiB are %.0f tokens of Qwen3-235B, the engine said 178880", got)
	}
}

// TestWindowedRequests: layers that look back over a window keep no more than it, whatever the context.
func TestWindowedRequests(t *testing.T) {
	m := model(t, "gemma3-27b") // 52 of 62 layers keep 1024 tokens, each layer 2·16·128·2 bytes a token
	if m.Windowed != 52 || m.Window != 1024 {
		t.Fatalf("%d layers with a window of %d", m.Windowed, m.Window)
	}
	for context, want := range map[float64]float64{
		512:    62 * 512 * 8192,
		1024:   62 * 1024 * 8192,
		32_768: (10*32_768 + 52*1024) * 8192,
	} {
		if got, err := m.RequestBytes("", 1, 1, context); err != nil || got != want {
			t.Errorf("%g tokens take %g bytes, %v; want %g", context, got, err, want)
		}
	}
	f, err := NewFit(m, Deployment{GPUBytes: 79.2 * gib})
	if err != nil {
		t.Fatal(err)
	}
	short, long := f.Tokens(1000), f.Tokens(100_000)
	if ratio := long / short; !near(ratio, 62*100_000/(10*100_000+52*1024.), .01) {
		t.Errorf("%.0f tokens in short requests, %.0f in long ones", short, long)
	}
	if m := model(t, "gpt-oss-120b"); m.Windowed != 18 || m.Window != 128 {
		t.Errorf("gpt-oss: %d layers with a window of %d", m.Windowed, m.Window)
	}
	for config, want := range map[string]int{"llama4-scout": 36, "llama4-maverick": 36} { // each fourth layer has no chunks
		if m := model(t, config); m.Windowed != want || m.Window != 8192 {
			t.Errorf("%s: %d layers with a window of %d", config, m.Windowed, m.Window)
		}
	}
	if m := model(t, "gemma2-9b"); m.Windowed != 21 || m.Window != 4096 {
		t.Errorf("gemma 2: %d layers with a window of %d", m.Windowed, m.Window)
	}
}

// TestStateOfLinearAttention: Qwen3-Next keeps 36 matrices of 32 heads × 128 × 128 in four bytes, and three steps of its
// convolutions, for each sequence however short.
func TestStateOfLinearAttention(t *testing.T) {
	m := model(t, "qwen3-next-80b")
	want := 36 * (4.*32*128*128 + 2*3*(2*16*128+32*128))
	if m.StateUnknown || m.StateBytes != want {
		t.Errorf("%g bytes (unknown: %t), want %g", m.StateBytes, m.StateUnknown, want)
	}
	got, err := m.RequestBytes("", 1, 1, 100)
	if err != nil || got != want+100*24576 {
		t.Errorf("100 tokens take %g bytes, %v", got, err)
	}
}

func TestParallelism(t *testing.T) {
	fit := func(name string, d Deployment) Fit {
		t.Helper()
		d.GPUBytes = 1 << 40
		f, err := NewFit(model(t, name), d)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	one := fit("llama3-70b", Deployment{})
	two := fit("llama3-70b", Deployment{Tensor: 4, Pipeline: 2})
	if two.GPUs != 8 || two.TokenBytes.PerGPU != one.TokenBytes.PerGPU/8 {
		t.Errorf("%d GPUs with %g bytes a token each, one has %g", two.GPUs, two.TokenBytes.PerGPU, one.TokenBytes.PerGPU)
	}
	if got := two.GPU.Weights; !near(got, one.GPU.Weights/8, .01) {
		t.Errorf("a stage has %.3g bytes of weights, want an eighth of %.3g", got, one.GPU.Weights)
	}
	odd := fit("llama3-70b", Deployment{Pipeline: 3}) // 27 of 80 layers
	if got := odd.TokenBytes.PerGPU / one.TokenBytes.PerGPU; !near(got, 27./80, 1e-9) {
		t.Errorf("the fullest of three stages has %.3f of the layers", got)
	}

	// DeepSeek-V3 on 8 ranks: attention on each data-parallel rank, experts over all; the latent on each tensor rank.
	tensor, data := fit("deepseek-v3", Deployment{Tensor: 8}), fit("deepseek-v3", Deployment{Data: 8, ExpertParallel: true})
	if !(data.GPU.Weights > tensor.GPU.Weights) || !near(data.GPU.Weights-tensor.GPU.Weights, 7./8*(tensor.Checkpoint-656.6e9), .2) {
		t.Errorf("%.4g bytes on a data-parallel rank, %.4g on a tensor-parallel one", data.GPU.Weights, tensor.GPU.Weights)
	}
	if ratio := data.Tokens(1000) / tensor.Tokens(1000); !(ratio > 7.5 && ratio < 8) {
		t.Errorf("data-parallel ranks hold %.2f times the tokens of tensor-parallel ones, want nearly 8", ratio)
	}
	if f := fit("deepseek-v3", Deployment{Tensor: 48, ExpertParallel: true}); f.GPU.Weights <= fit("deepseek-v3", Deployment{Tensor: 48}).GPU.Weights {
		t.Error("whole experts on 48 ranks take no more than divided ones")
	}

	plain := fit("llama3-8b", Deployment{})
	adapted := fit("llama3-8b", Deployment{Adapters: 4, AdapterRank: 16})
	// Rank 16 over all linear layers of Llama-3-8B has 41,943,040 parameters (PEFT prints that), of two bytes.
	if got := adapted.GPU.Adapters; got != 4*2*41_943_040 || plain.GPU.Adapters != 0 {
		t.Errorf("4 adapters take %.0f bytes", got)
	}
	if plain.GPU.KV-adapted.GPU.KV != adapted.GPU.Adapters {
		t.Error("adapters do not come out of the cache")
	}
}

func TestRequests(t *testing.T) {
	f, err := NewFit(model(t, "llama3-8b"), Deployment{GPUBytes: 79.2 * gib, MaxNumSeqs: 128})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		context float64
		binding string
	}{{500, Slots}, {8000, KV}, {8193, Context}} {
		most, safe, binding := f.Requests(tt.context)
		switch {
		case binding != tt.binding:
			t.Errorf("%g tokens: bound by %s, want %s", tt.context, binding, tt.binding)
		case binding == KV && (most != int(f.GPU.KV/(tt.context*131072)) || safe >= most):
			t.Errorf("%g tokens: %d requests, %d safe", tt.context, most, safe)
		case binding == Slots && most != 128, binding == Context && most != 0:
			t.Errorf("%g tokens: %d requests", tt.context, most)
		}
	}
}

func TestNewFitRefuses(t *testing.T) {
	sound := model(t, "llama3-8b")
	mamba, err := ParseModel([]byte(`{"num_hidden_layers":2,"num_attention_heads":4,"hidden_size":64,"layer_types":["mamba","full_attention"]}`))
	if err != nil {
		t.Fatal(err)
	}
	odd := sound
	odd.Quantization = Quantization{Method: "aqlm", Bits: -1}
	for _, tt := range []struct {
		m    Model
		d    Deployment
		want string
	}{
		{sound, Deployment{}, "memory of a GPU"},
		{sound, Deployment{GPUBytes: 16 * gib}, "more GPUs per replica"},
		{sound, Deployment{GPUBytes: 80 * gib, KVDType: "int3"}, `"int3"`},
		{sound, Deployment{GPUBytes: 80 * gib, WeightsDType: "int3"}, `"int3"`},
		{sound, Deployment{GPUBytes: 80 * gib, Pipeline: 64}, "64 pipeline stages"},
		{sound, Deployment{GPUBytes: 80 * gib, Tensor: 64, Pipeline: 32}, "2048 GPUs"},
		{sound, Deployment{GPUBytes: 80 * gib, Utilization: 90}, "utilization 90"},
		{odd, Deployment{GPUBytes: 80 * gib}, "size of the weights"},
		{model(t, "dbrx"), Deployment{GPUBytes: 80 * gib}, "size of the weights"},
		{model(t, "dbrx"), Deployment{GPUBytes: 80 * gib, WeightsBytes: gib, Adapters: 1}, "adapters"},
		{mamba, Deployment{GPUBytes: 80 * gib}, "1 of the 2 layers keep a state"},
		{Model{TotalLayers: 2}, Deployment{GPUBytes: 80 * gib}, "no layer of this model keeps keys"},
	} {
		if _, err := NewFit(tt.m, tt.d); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want one with %q", err, tt.want)
		}
	}
	if _, err := NewFit(odd, Deployment{GPUBytes: 80 * gib, WeightsBytes: 5 * gib}); err != nil {
		t.Errorf("stated weights of an unknown format: %v", err)
	}
}

func TestGPUMemory(t *testing.T) {
	for text, want := range map[string]float64{"h100-80g": 79.2 * gib, "H200-141G": 139.8 * gib, "80GiB": 80 * gib} {
		if got, err := GPUMemory(text); err != nil || got != want {
			t.Errorf("%q: %g, %v", text, got, err)
		}
	}
	if _, err := GPUMemory("h100"); err == nil || !strings.Contains(err.Error(), "h100-80g") {
		t.Errorf("h100: %v", err)
	}
	for i, g := range GPUTypes {
		if !(g.VisibleGiB > .9*g.SheetGB && g.VisibleGiB <= g.SheetGB) || i > 0 && g.SheetGB < GPUTypes[i-1].SheetGB && !strings.HasPrefix(g.Name, "mi") {
			t.Errorf("%+v", g)
		}
	}
}
