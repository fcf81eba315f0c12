package capacity

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Bounds on a config.json; far beyond any real model, small enough that products of them are exact in a float64.
const (
	maxModelBytes = 1 << 20
	maxLayers     = 4096
	maxHeads      = 4096
	maxHeadDim    = 16384
	maxHidden     = 1 << 22
	maxNesting    = 3
	maxContext    = 1 << 30
)

// nested are the keys under which multimodal models have the configuration of their language model.
var nested = []string{"text_config", "language_config", "llm_config", "thinker_config"}

// ParseModel reads a Hugging Face config.json. It knows the field names of Llama, Qwen, Mistral, Gemma, DeepSeek,
// gpt-oss, Falcon, GPT-2 and its descendants, MPT, DBRX and ChatGLM, and models that nest a text_config. Errors name the
// field, the value and the bound.
func ParseModel(config []byte) (Model, error) {
	if len(config) > maxModelBytes {
		return Model{}, fmt.Errorf("config.json has %d bytes, more than the %d allowed; is it the model's config?", len(config), maxModelBytes)
	}
	var outer fields
	if err := json.Unmarshal(config, &outer); err != nil {
		return Model{}, fmt.Errorf("config.json is not a JSON object: %w", err)
	}
	f, err := outer.language(0)
	if err != nil {
		return Model{}, err
	}
	m, err := f.model()
	if err != nil {
		return Model{}, err
	}
	// With a nested language model, fields of the whole checkpoint may be in the outer object.
	if m.DType == "" {
		if m.DType, err = outer.text("torch_dtype", "dtype"); err != nil {
			return Model{}, err
		}
	}
	return m, nil
}

// language returns the object of the language model.
func (f fields) language(depth int) (fields, error) {
	for _, name := range nested {
		raw, ok := f[name]
		if !ok || string(raw) == "null" {
			continue
		}
		if depth == maxNesting {
			return nil, fmt.Errorf("config.json: %s nests deeper than %d", name, maxNesting)
		}
		var inner fields
		if err := json.Unmarshal(raw, &inner); err != nil {
			return nil, fmt.Errorf("config.json: %s is not an object: %w", name, err)
		}
		return inner.language(depth + 1)
	}
	return f, nil
}

func (f fields) model() (m Model, err error) {
	read := f.reader(&err)
	layers := read(maxLayers, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
	heads := read(maxHeads, "num_attention_heads", "n_head", "n_heads")
	hidden := read(maxHidden, "hidden_size", "n_embd", "d_model")
	headDim := read(maxHeadDim, "head_dim", "kv_channels")
	latent := read(maxHidden, "kv_lora_rank")
	rope := read(maxHeadDim, "qk_rope_head_dim")
	m.MaxContext = read(maxContext, "max_position_embeddings", "n_positions", "seq_length", "max_seq_len")
	if err != nil {
		return Model{}, err
	}
	if m.DType, err = f.text("torch_dtype", "dtype"); err != nil {
		return Model{}, err
	}
	if layers == 0 {
		return Model{}, missing("num_hidden_layers")
	}
	m.Layers = layers
	if err := f.kinds(&m); err != nil {
		return Model{}, err
	}
	if latent > 0 {
		if rope == 0 {
			return Model{}, missing("qk_rope_head_dim")
		}
		m.KVHeads, m.Latent = 1, latent+rope
		return m, nil
	}
	if heads == 0 {
		return Model{}, missing("num_attention_heads")
	}
	if headDim == 0 {
		if hidden == 0 {
			return Model{}, missing("head_dim")
		}
		if hidden%heads != 0 {
			return Model{}, fmt.Errorf("config.json: hidden_size %d is no multiple of num_attention_heads %d; set head_dim", hidden, heads)
		}
		headDim = hidden / heads
	}
	m.HeadDim = headDim
	m.KVHeads, err = f.kvHeads(heads)
	return m, err
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
func (f fields) kinds(m *Model) error {
	raw, ok := f["layer_types"]
	if !ok || string(raw) == "null" {
		m.Hybrid = slices.ContainsFunc(hybrids, func(name string) bool { _, is := f[name]; return is })
		return nil
	}
	window, err := f.integer(maxContext, "sliding_window", "attention_chunk_size")
	if err != nil {
		return err
	}
	var names []string
	if err := json.Unmarshal(raw, &names); err != nil || len(names) > maxLayers {
		return fmt.Errorf("config.json: layer_types is not a list of at most %d names", maxLayers)
	}
	for _, name := range names {
		m.Hybrid = m.Hybrid || slices.Contains(cacheless, strings.ToLower(name))
		if window > 0 && slices.Contains(windowed, strings.ToLower(name)) {
			m.Windowed, m.Window = m.Windowed+1, window
		}
	}
	m.Windowed = min(m.Windowed, m.Layers)
	return nil
}

// kvHeads is the number of key/value heads: the stated one, one for the multi_query families, else one per attention
// head. Falcon's second architecture sets num_kv_heads and multi_query. Its first one has num_kv_heads too, with the
// number of attention heads, but uses multi_query.
func (f fields) kvHeads(heads int) (int, error) {
	multiQuery, newFalcon := f.flag("multi_query"), f.flag("new_decoder_architecture")
	if multiQuery && !newFalcon {
		return 1, nil
	}
	source := f
	if raw, ok := f["attn_config"]; ok {
		if err := json.Unmarshal(raw, &source); err != nil {
			return 0, fmt.Errorf("config.json: attn_config is not an object: %w", err)
		}
	}
	n, err := source.integer(maxHeads, "num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num")
	if err != nil {
		return 0, err
	}
	if n > heads {
		return 0, fmt.Errorf("config.json: num_key_value_heads %d is above num_attention_heads %d", n, heads)
	}
	if n == 0 {
		return heads, nil
	}
	return n, nil
}

// fields is one JSON object with unparsed values.
type fields map[string]json.RawMessage

// integer is the first of the named fields that is present; 0 when none is.
func (f fields) integer(limit int, names ...string) (int, error) {
	for _, name := range names {
		raw, ok := f[name]
		if !ok || string(raw) == "null" {
			continue
		}
		var v float64
		if err := json.Unmarshal(raw, &v); err != nil || v != math.Trunc(v) {
			return 0, fmt.Errorf("config.json: %s is %s, want a whole number", name, cut(raw))
		}
		if v < 1 || v > float64(limit) {
			return 0, fmt.Errorf("config.json: %s is %s, out of 1…%d", name, cut(raw), limit)
		}
		return int(v), nil
	}
	return 0, nil
}

func (f fields) text(names ...string) (string, error) {
	for _, name := range names {
		if raw, ok := f[name]; ok && string(raw) != "null" {
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return "", fmt.Errorf("config.json: %s is %s, want a name such as \"bfloat16\"", name, cut(raw))
			}
			return s, nil
		}
	}
	return "", nil
}

func (f fields) flag(name string) bool { return string(f[name]) == "true" }

func missing(name string) error {
	return fmt.Errorf("config.json: %s is missing; is it the config of a transformer with attention? (kv_capacity_tokens replaces it)", name)
}

func cut(raw []byte) string {
	const most = 40
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

// reader is integer with the first error kept in err, for several fields in a row.
func (f fields) reader(err *error) func(limit int, names ...string) int {
	return func(limit int, names ...string) (n int) {
		if *err == nil {
			n, *err = f.integer(limit, names...)
		}
		return n
	}
}
