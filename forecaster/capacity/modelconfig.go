package capacity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/internal/value"
)

// Bounds on a config.json; far beyond any real model, small enough that products of them are exact in a float64.
const (
	maxModelBytes = 1 << 20
	maxLayers     = 4096
	maxHeads      = 4096
	maxHeadDim    = 16384
	maxHidden     = 1 << 22
	maxNesting    = 4
	maxContext    = 1 << 30
)

// nested are the keys under which multimodal models have the configuration of their language model.
var nested = []string{"text_config", "language_config", "llm_config", "thinker_config"}

// ParseModel reads a Hugging Face config.json. It knows the field names of Llama, Qwen, Mistral, Gemma, DeepSeek,
// gpt-oss, Falcon, GPT-2 and its descendants, MPT, DBRX and ChatGLM, and models that nest a text_config. Errors name
// the field, the value and the bound.
func ParseModel(config []byte) (Model, error) {
	if len(config) > maxModelBytes {
		return Model{}, fmt.Errorf("config.json has %d bytes, more than the %d allowed; is it the model's config?", len(config), maxModelBytes)
	}
	var outer fields
	if err := json.Unmarshal(config, &outer); err != nil {
		return Model{}, fmt.Errorf("config.json is not a JSON object: %w", err)
	}
	r, f := modelReader{}, outer
	for range maxNesting {
		var inner fields
		if r.read(f, &inner, "an object", nested...) != "" {
			f = inner
		}
	}
	m := r.model(f)
	m.DType = cmp.Or(m.DType, r.text(outer, "torch_dtype", "dtype")) // of the whole checkpoint
	if r.err != nil {
		return Model{}, r.err
	}
	return m, nil
}

// fields is one JSON object with unparsed values.
type fields map[string]json.RawMessage

// modelReader reads fields. Its error is the first one.
type modelReader struct{ err error }

func (r *modelReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("config.json: "+format, args...)
	}
}

func (r *modelReader) missing(name string) {
	r.fail("%s is missing; is it the config of a transformer with attention? (kv_capacity_tokens replaces it)", name)
}

// read decodes the first of the named fields that is present, and returns its name; "" if none is.
func (r *modelReader) read(f fields, into any, want string, names ...string) string {
	for _, name := range names {
		raw, ok := f[name]
		if !ok || string(raw) == "null" {
			continue
		}
		if json.Unmarshal(raw, into) != nil {
			r.fail("%s is %s, want %s", name, value.Cut(string(raw), 40), want)
		}
		return name
	}
	return ""
}

func (r *modelReader) text(f fields, names ...string) (s string) {
	r.read(f, &s, `a name such as "bfloat16"`, names...)
	return s
}

// integer is the first of the named fields that is present; 0 if none is.
func (r *modelReader) integer(f fields, limit int, names ...string) int {
	var v float64
	switch name := r.read(f, &v, "a whole number", names...); {
	case name == "":
		return 0
	case v != math.Trunc(v):
		r.fail("%s is %g, want a whole number", name, v)
	case v < 1 || v > float64(limit):
		r.fail("%s is %g, out of 1…%d", name, v, limit)
	}
	return int(v)
}

func (r *modelReader) model(f fields) (m Model) {
	m.Layers = r.integer(f, maxLayers, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
	heads := r.integer(f, maxHeads, "num_attention_heads", "n_head", "n_heads")
	hidden := r.integer(f, maxHidden, "hidden_size", "n_embd", "d_model")
	headDim := r.integer(f, maxHeadDim, "head_dim", "kv_channels")
	latent := r.integer(f, maxHidden, "kv_lora_rank")
	rope := r.integer(f, maxHeadDim, "qk_rope_head_dim")
	m.DType = r.text(f, "torch_dtype", "dtype")
	if m.Layers == 0 {
		r.missing("num_hidden_layers")
	}
	r.kinds(f, &m)
	switch {
	case latent > 0 && rope == 0:
		r.missing("qk_rope_head_dim")
	case latent > 0:
		m.KVHeads, m.Latent = 1, latent+rope
		return m
	case heads == 0:
		r.missing("num_attention_heads")
	case headDim == 0 && hidden == 0:
		r.missing("head_dim")
	case headDim == 0 && hidden%heads != 0:
		r.fail("hidden_size %d is no multiple of num_attention_heads %d; set head_dim", hidden, heads)
	case headDim == 0:
		headDim = hidden / heads
	}
	m.HeadDim, m.KVHeads = headDim, r.kvHeads(f, heads)
	return m
}

// Kinds of layer that keep a state of fixed size instead of keys and values per token, that attend to the newest tokens
// only, and fields of hybrids without layer_types: of Qwen3-Next, Jamba, Bamba and Nemotron-H.
var (
	cacheless = []string{"linear_attention", "mamba", "mamba2", "conv", "short_conv", "recurrent"}
	windowed  = []string{"sliding_attention", "local_attention", "chunked_attention", "sliding_window"}
	hybrids   = []string{"full_attention_interval", "attn_layer_period", "attn_layer_indices", "hybrid_override_pattern"}
)

// kinds counts the windowed layers and says whether the model is a hybrid, from layer_types. Without that list every
// layer counts in full: an upper bound of the cache.
func (r *modelReader) kinds(f fields, m *Model) {
	var names []string
	if r.read(f, &names, "a list of names", "layer_types") == "" {
		m.Hybrid = slices.ContainsFunc(hybrids, func(name string) bool { _, is := f[name]; return is })
		return
	}
	window := r.integer(f, maxContext, "sliding_window", "attention_chunk_size")
	for _, name := range names {
		m.Hybrid = m.Hybrid || slices.Contains(cacheless, strings.ToLower(name))
		if window > 0 && slices.Contains(windowed, strings.ToLower(name)) {
			m.Windowed, m.Window = m.Windowed+1, window
		}
	}
	m.Windowed = min(m.Windowed, m.Layers)
}

// kvHeads is the number of key/value heads: the stated one, one for the multi_query families, else one per attention
// head. Falcon's second architecture sets num_kv_heads and multi_query. Its first one has num_kv_heads too, with the
// number of attention heads, but uses multi_query.
func (r *modelReader) kvHeads(f fields, heads int) int {
	if string(f["multi_query"]) == "true" && string(f["new_decoder_architecture"]) != "true" {
		return 1
	}
	r.read(f, &f, "an object", "attn_config") // of MPT and DBRX; it adds its fields to f
	n := r.integer(f, maxHeads, "num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num")
	if n > heads {
		r.fail("num_key_value_heads %d is above num_attention_heads %d", n, heads)
	}
	return cmp.Or(n, heads)
}
