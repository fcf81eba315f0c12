package capacity

import (
	"math"
	"os"
	"strings"
	"testing"
)

func model(t testing.TB, name string) Model {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseModel(data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRequestBytes: the cache of one token on one GPU.
func TestRequestBytes(t *testing.T) {
	for _, tt := range []struct {
		model, kvDType string
		gpus           int
		bytes          float64
	}{
		{model: "qwen3-32b", gpus: 1, bytes: 256 << 10},
		{model: "qwen3-32b", gpus: 1, kvDType: "fp8", bytes: 128 << 10},
		{model: "qwen3-32b", gpus: 1, kvDType: "float32", bytes: 512 << 10},
		{model: "llama3-70b", gpus: 1, bytes: 320 << 10},
		{model: "llama3-70b", gpus: 4, bytes: 80 << 10},
		{model: "llama3-70b", gpus: 16, bytes: 40 << 10}, // 8 heads on 16 GPUs: each is held twice
		{model: "llama3-70b", gpus: 3, bytes: 120 << 10}, // 3 + 3 + 2 heads: the fullest GPU counts
		{model: "llama2-7b", gpus: 1, bytes: 512 << 10},  // no num_key_value_heads: one per attention head
		{model: "mistral-7b", gpus: 1, bytes: 128 << 10},
		{model: "gemma-7b", gpus: 1, bytes: 458752},   // head_dim 256 is not hidden_size/heads = 192
		{model: "deepseek-v3", gpus: 8, bytes: 70272}, // each rank holds the latent
		{model: "falcon-7b", gpus: 1, bytes: 8192},
		{model: "falcon-40b", gpus: 1, bytes: 122880},
		{model: "starcoder", gpus: 4, bytes: 20480},
		{model: "dbrx", gpus: 1, bytes: 160 << 10},
		{model: "gemma3-27b", gpus: 1, bytes: 507904},
		{model: "llama4-scout", gpus: 8, bytes: 24576},
	} {
		m := model(t, tt.model)
		element, err := m.element(tt.kvDType)
		if got := m.requestBytes(element, tt.gpus, 1); err != nil || got != tt.bytes {
			t.Errorf("%s %s on %d GPUs: %g, %v; want %g", tt.model, tt.kvDType, tt.gpus, got, err, tt.bytes)
		}
	}
	if _, err := (Model{}).element("int3"); err == nil || !strings.Contains(err.Error(), `dtype "int3"`) {
		t.Errorf("dtype int3: error %v", err)
	}
}

func TestParseModelVariants(t *testing.T) {
	const llama = `"hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2`
	tests := map[string]Model{
		`{` + llama + `,"num_key_value_heads":2,"dtype":"float16"}`:                                                 {Layers: 2, KVHeads: 2, HeadDim: 16, DType: "float16"},
		`{` + llama + `,"num_key_value_heads":null}`:                                                                {Layers: 2, KVHeads: 4, HeadDim: 16},
		`{` + llama + `,"kv_lora_rank":null}`:                                                                       {Layers: 2, KVHeads: 4, HeadDim: 16},
		`{"torch_dtype":"bfloat16","text_config":{` + llama + `}}`:                                                  {Layers: 2, KVHeads: 4, HeadDim: 16, DType: "bfloat16"},
		`{"torch_dtype":"float32","thinker_config":{"text_config":{` + llama + `,"dtype":"float16"}}}`:              {Layers: 2, KVHeads: 4, HeadDim: 16, DType: "float16"},
		`{` + llama + `,"layer_types":["linear_attention","full_attention"]}`:                                       {Layers: 2, KVHeads: 4, HeadDim: 16, Hybrid: true},
		`{` + llama + `,"sliding_window":8,"layer_types":["sliding_attention","full_attention"]}`:                   {Layers: 2, Windowed: 1, Window: 8, KVHeads: 4, HeadDim: 16},
		`{` + llama + `,"sliding_window":8}`:                                                                        {Layers: 2, KVHeads: 4, HeadDim: 16},
		`{` + llama + `,"hybrid_override_pattern":"M*"}`:                                                            {Layers: 2, KVHeads: 4, HeadDim: 16, Hybrid: true},
		`{` + llama + `,"layer_types":["sliding_attention","full_attention"]}`:                                      {Layers: 2, KVHeads: 4, HeadDim: 16},
		`{"num_layers":28,"kv_channels":128,"num_attention_heads":32,"multi_query_group_num":2,"hidden_size":4096}`: {Layers: 28, KVHeads: 2, HeadDim: 128},
	}
	for config, want := range tests {
		got, err := ParseModel([]byte(config))
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", config, got, err, want)
		}
	}
}

func TestParseModelRefuses(t *testing.T) {
	tests := map[string]string{
		``:                        "not a JSON object",
		`[]`:                      "not a JSON object",
		`{}`:                      "num_hidden_layers is missing",
		`{"num_hidden_layers":2}`: "num_attention_heads is missing",
		`{"num_hidden_layers":2,"num_attention_heads":4}`:                                      "head_dim is missing",
		`{"num_hidden_layers":2,"num_attention_heads":5,"hidden_size":64}`:                     "hidden_size 64 is no multiple of num_attention_heads 5",
		`{"num_hidden_layers":1e9}`:                                                            "num_hidden_layers is 1e+09, out of 1…4096",
		`{"num_hidden_layers":-2}`:                                                             "num_hidden_layers is -2",
		`{"num_hidden_layers":2.5}`:                                                            "want a whole number",
		`{"num_hidden_layers":"2"}`:                                                            `num_hidden_layers is "2", want a whole number`,
		`{"num_hidden_layers":2,"kv_lora_rank":512}`:                                           "qk_rope_head_dim is missing",
		`{"num_hidden_layers":2,"torch_dtype":16}`:                                             "torch_dtype is 16",
		`{"text_config":7}`:                                                                    "text_config is 7, want an object",
		`{"text_config":{"text_config":{"text_config":{"text_config":{}}}}}`:                   "num_hidden_layers is missing",
		`{"num_hidden_layers":2,"layer_types":"all"}`:                                          `layer_types is "all", want a list`,
		`{"num_hidden_layers":2,"num_attention_heads":4,"head_dim":8,"num_key_value_heads":8}`: "num_key_value_heads 8 is above num_attention_heads 4",
		`{"num_hidden_layers":2,"num_attention_heads":4,"head_dim":8,"attn_config":3}`:         "attn_config is 3, want an object",
		strings.Repeat(" ", maxModelBytes) + `{}`:                                              "more than the 1048576 allowed",
	}
	for config, want := range tests {
		if _, err := ParseModel([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: error %v, want one with %q", config, err, want)
		}
	}
}

func FuzzParseModel(f *testing.F) {
	for _, name := range []string{"qwen3-32b", "deepseek-v3", "falcon-7b", "gemma3-27b", "dbrx"} {
		data, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"num_hidden_layers":1e999}`))
	f.Fuzz(func(t *testing.T, config []byte) {
		m, err := ParseModel(config)
		if err != nil {
			return
		}
		if bytes := m.requestBytes(2, 8, 1000); bytes < 0 || math.IsInf(bytes, 0) || math.IsNaN(bytes) {
			t.Errorf("%+v gives %g", m, bytes)
		}
	})
}

func TestDecodeRate(t *testing.T) {
	for _, tt := range []struct {
		config Config
		want   float64
	}{
		{Config{ITL: 50e6}, 0},
		{Config{DecodeTokensPerS: 900, ITL: 50e6}, 900},
		{Config{DecodeTokensPerS: 900, MaxNumSeqs: 32, ITL: 50e6}, 640},
		{Config{DecodeTokensPerS: 600, MaxNumSeqs: 32, ITL: 50e6}, 600},
		{Config{MaxNumSeqs: 32, ITL: 50e6}, 640},
	} {
		if got := tt.config.decode(); got != tt.want {
			t.Errorf("%+v: %g, want %g", tt.config, got, tt.want)
		}
	}
}
