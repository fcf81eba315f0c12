package capacity

import (
	"encoding/json"
	"fmt"
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
// gpt-oss, Falcon, GPT-2 and its descendants, MPT, DBRX and ChatGLM, models that nest a text_config, and hybrids.
// Errors name the field, the value and the bound.
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
	for _, g := range []fields{f, outer} {
		if m.Quantization == (Quantization{}) {
			if m.Quantization, err = g.quantization(); err != nil {
				return Model{}, err
			}
		}
	}
	_, m.Vision = outer["vision_config"]
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
	kinds, err := f.layers(layers)
	if err != nil {
		return Model{}, err
	}
	m.TotalLayers, m.Layers, m.Windowed, m.Window = layers, kinds.cached, kinds.windowed, kinds.window
	m.StateBytes, m.StateUnknown = f.state(layers - kinds.cached)
	if latent > 0 {
		if rope == 0 {
			return Model{}, missing("qk_rope_head_dim")
		}
		m.KVHeads, m.Latent = 1, latent+rope
		m.Weights, err = f.weights(&m, heads, hidden, headDim)
		return m, err
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
	if m.KVHeads, err = f.kvHeads(heads); err != nil {
		return Model{}, err
	}
	m.Weights, err = f.weights(&m, heads, hidden, headDim)
	return m, err
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
