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

func TestBytesPerToken(t *testing.T) {
	tests := []struct {
		model, kvDType     string
		tp                 int
		perGPU, perReplica float64
	}{
		{model: "qwen3-32b", tp: 1, perGPU: 256 << 10, perReplica: 256 << 10},
		{model: "qwen3-32b", tp: 1, kvDType: "fp8", perGPU: 128 << 10, perReplica: 128 << 10},
		{model: "qwen3-32b", tp: 1, kvDType: "float32", perGPU: 512 << 10, perReplica: 512 << 10},
		{model: "llama3-70b", tp: 1, perGPU: 320 << 10, perReplica: 320 << 10},
		{model: "llama3-70b", tp: 4, perGPU: 80 << 10, perReplica: 320 << 10},
		{model: "llama3-70b", tp: 16, perGPU: 40 << 10, perReplica: 640 << 10}, // 8 heads on 16 GPUs: each held twice
		{model: "llama3-70b", tp: 3, perGPU: 120 << 10, perReplica: 360 << 10}, // 3 + 3 + 2 heads: the fullest GPU counts
		{model: "llama3-8b", tp: 1, perGPU: 128 << 10, perReplica: 128 << 10},
		{model: "llama2-7b", tp: 1, perGPU: 512 << 10, perReplica: 512 << 10}, // no num_key_value_heads: one per attention head
		{model: "mistral-7b", tp: 1, perGPU: 128 << 10, perReplica: 128 << 10},
		{model: "gemma-7b", tp: 1, perGPU: 458752, perReplica: 458752}, // head_dim 256 is not hidden_size/heads = 192
		{model: "deepseek-v3", tp: 1, perGPU: 70272, perReplica: 70272},
		{model: "deepseek-v3", tp: 8, perGPU: 70272, perReplica: 8 * 70272}, // each rank holds the latent
		{model: "falcon-7b", tp: 1, perGPU: 8192, perReplica: 8192},
		{model: "falcon-40b", tp: 1, perGPU: 122880, perReplica: 122880},
		{model: "starcoder", tp: 1, perGPU: 20480, perReplica: 20480},
		{model: "starcoder", tp: 4, perGPU: 20480, perReplica: 81920},
		{model: "dbrx", tp: 1, perGPU: 160 << 10, perReplica: 160 << 10},
		{model: "gemma3-27b", tp: 1, perGPU: 507904, perReplica: 507904},
		{model: "llama4-scout", tp: 8, perGPU: 24576, perReplica: 192 << 10},
		{model: "qwen3-next-80b", tp: 1, perGPU: 24576, perReplica: 24576}, // 12 of 48 layers keep keys and values
	}
	for _, tt := range tests {
		got, err := model(t, tt.model).BytesPerToken(tt.kvDType, tt.tp)
		if err != nil {
			t.Errorf("%s: %v", tt.model, err)
		}
		if want := (KVBytes{PerReplica: tt.perReplica, PerGPU: tt.perGPU}); got != want {
			t.Errorf("%s %s tp %d: %+v, want %+v", tt.model, tt.kvDType, tt.tp, got, want)
		}
	}
}

func TestBytesPerTokenRefuses(t *testing.T) {
	m := Model{Layers: 1, KVHeads: 1, HeadDim: 1}
	for _, tt := range []struct {
		kvDType string
		tp      int
		want    string
	}{{"int3", 1, `dtype "int3"`}, {"", 0, "tensor parallel 0"}, {"", 1 << 20, "tensor parallel 1048576"}} {
		if _, err := m.BytesPerToken(tt.kvDType, tt.tp); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q, tp %d: error %v, want one with %q", tt.kvDType, tt.tp, err, tt.want)
		}
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
		`{` + llama + `,"layer_types":["linear_attention","full_attention"]}`:                                       {Layers: 1, KVHeads: 4, HeadDim: 16, StateUnknown: true},
		`{` + llama + `,"sliding_window":8,"layer_types":["sliding_attention","full_attention"]}`:                   {Layers: 2, Windowed: 1, Window: 8, KVHeads: 4, HeadDim: 16},
		`{` + llama + `,"sliding_window":8}`:                                                                        {Layers: 2, Windowed: 2, Window: 8, KVHeads: 4, HeadDim: 16},
		`{` + llama + `,"attention_chunk_size":8,"model_type":"llama4_text","no_rope_layers":[1,0]}`:                {Layers: 2, Windowed: 1, Window: 8, KVHeads: 4, HeadDim: 16},
		`{` + llama + `,"attention_chunk_size":8,"model_type":"llama4_text","no_rope_layer_interval":2}`:            {Layers: 2, Windowed: 1, Window: 8, KVHeads: 4, HeadDim: 16},
		`{` + llama + `,"sliding_window":8,"use_sliding_window":false}`:                                             {Layers: 2, KVHeads: 4, HeadDim: 16},
		`{` + llama + `,"sliding_window":8,"model_type":"qwen2"}`:                                                   {Layers: 2, KVHeads: 4, HeadDim: 16},
		`{` + llama + `,"attn_layer_period":2}`:                                                                     {Layers: 1, KVHeads: 4, HeadDim: 16, StateUnknown: true},
		`{` + llama + `,"hybrid_override_pattern":"M*"}`:                                                            {Layers: 1, KVHeads: 4, HeadDim: 16, StateUnknown: true},
		`{` + llama + `,"attn_layer_indices":[1]}`:                                                                  {Layers: 1, KVHeads: 4, HeadDim: 16, StateUnknown: true},
		`{` + llama + `,"layer_types":["sliding_attention","full_attention"]}`:                                      {Layers: 2, KVHeads: 4, HeadDim: 16},
		`{"num_layers":28,"kv_channels":128,"num_attention_heads":32,"multi_query_group_num":2,"hidden_size":4096}`: {Layers: 28, KVHeads: 2, HeadDim: 128},
	}
	for config, want := range tests {
		got, err := ParseModel([]byte(config))
		got.TotalLayers = 0 // of these, what the cache depends on
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", config, got, err, want)
		}
	}
}

func TestParseModelNamesTheField(t *testing.T) {
	tests := map[string]string{
		``:                        "not a JSON object",
		`[]`:                      "not a JSON object",
		`{}`:                      "num_hidden_layers is missing",
		`{"num_hidden_layers":2}`: "num_attention_heads is missing",
		`{"num_hidden_layers":2,"num_attention_heads":4}`:                                      "head_dim is missing",
		`{"num_hidden_layers":2,"num_attention_heads":5,"hidden_size":64}`:                     "hidden_size 64 is no multiple of num_attention_heads 5",
		`{"num_hidden_layers":1e9}`:                                                            "num_hidden_layers is 1e9, out of 1…4096",
		`{"num_hidden_layers":-2}`:                                                             "num_hidden_layers is -2",
		`{"num_hidden_layers":2.5}`:                                                            "want a whole number",
		`{"num_hidden_layers":"2"}`:                                                            `num_hidden_layers is "2", want a whole number`,
		`{"num_hidden_layers":2,"kv_lora_rank":512}`:                                           "qk_rope_head_dim is missing",
		`{"num_hidden_layers":2,"torch_dtype":16}`:                                             "torch_dtype is 16",
		`{"text_config":7}`:                                                                    "text_config is not an object",
		`{"text_config":{"text_config":{"text_config":{"text_config":{}}}}}`:                   "nests deeper",
		`{"num_hidden_layers":2,"layer_types":"all"}`:                                          "layer_types is not a list",
		`{"num_hidden_layers":2,"num_attention_heads":4,"head_dim":8,"num_key_value_heads":8}`: "num_key_value_heads 8 is above num_attention_heads 4",
		`{"num_hidden_layers":2,"num_attention_heads":4,"head_dim":8,"attn_config":3}`:         "attn_config is not an object",
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
		kv, err := m.BytesPerToken("bf16", 8)
		if err != nil || kv.PerGPU < 0 || kv.PerReplica < kv.PerGPU || math.IsInf(kv.PerReplica, 0) || math.IsNaN(kv.PerReplica) {
			t.Errorf("%+v gives %+v, %v", m, kv, err)
		}
	})
}

func TestDecodeRate(t *testing.T) {
	for _, tt := range []struct {
		rates Rates
		want  float64
	}{
		{Rates{}, 0},
		{Rates{DecodeTokensPerS: 900}, 900},
		{Rates{DecodeTokensPerS: 900, MaxNumSeqs: 32, ITL: 50e6}, 640},
		{Rates{DecodeTokensPerS: 600, MaxNumSeqs: 32, ITL: 50e6}, 600},
		{Rates{MaxNumSeqs: 32, ITL: 50e6}, 640},
	} {
		if got := tt.rates.Decode(); got != tt.want {
			t.Errorf("%+v: %g, want %g", tt.rates, got, tt.want)
		}
	}
}
