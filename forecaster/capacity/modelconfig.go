package capacity

import (
	"encoding/json"
	"fmt"
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
)

// nested names where multimodal models keep the configuration of their language model.
var nested = []string{"text_config", "language_config", "llm_config", "thinker_config"}

// cacheless names the kinds of layer that keep a state of fixed size instead of keys and values per token.
var cacheless = []string{"linear_attention", "mamba", "mamba2", "conv", "short_conv", "recurrent"}

// ParseModel reads a Hugging Face config.json. It knows the field names of Llama, Qwen, Mistral, Gemma, DeepSeek,
// Falcon, GPT-2 and its descendants, MPT, DBRX and ChatGLM, models that nest a text_config, and hybrids that list
// their layer_types. Errors name the field, the value and the bound.
func ParseModel(config []byte) (Model, error) {
	if len(config) > maxModelBytes {
		return Model{}, fmt.Errorf("config.json has %d bytes, more than the %d allowed; is it the model's config?", len(config), maxModelBytes)
	}
	var f fields
	if err := json.Unmarshal(config, &f); err != nil {
		return Model{}, fmt.Errorf("config.json is not a JSON object: %w", err)
	}
	dtype, err := f.text("torch_dtype", "dtype")
	if err != nil {
		return Model{}, err
	}
	f, err = f.language(0)
	if err != nil {
		return Model{}, err
	}
	m, err := f.model()
	if err != nil {
		return Model{}, err
	}
	if m.DType == "" {
		m.DType = dtype
	}
	return m, nil
}

// language descends to the object that describes the language model.
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
	read := func(limit int, names ...string) (n int) {
		if err == nil {
			n, err = f.integer(limit, names...)
		}
		return n
	}
	layers := read(maxLayers, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
	heads := read(maxHeads, "num_attention_heads", "n_head", "n_heads")
	hidden := read(maxHidden, "hidden_size", "n_embd", "d_model")
	headDim := read(maxHeadDim, "head_dim", "kv_channels")
	latent := read(maxHidden, "kv_lora_rank")
	rope := read(maxHeadDim, "qk_rope_head_dim")
	if err != nil {
		return Model{}, err
	}
	if m.DType, err = f.text("torch_dtype", "dtype"); err != nil {
		return Model{}, err
	}
	if layers == 0 {
		return Model{}, missing("num_hidden_layers")
	}
	if m.Layers, err = f.cachingLayers(layers); err != nil {
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

// kvHeads resolves the number of key/value heads: stated, one for the multi_query families, else one per attention
// head. Falcon's second architecture states num_kv_heads and leaves multi_query set; its first one has the field too,
// filled with the number of attention heads, and means multi_query.
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

// cachingLayers is how many of the layers keep keys and values per token.
func (f fields) cachingLayers(layers int) (int, error) {
	if raw, ok := f["layer_types"]; ok && string(raw) != "null" {
		var kinds []string
		if err := json.Unmarshal(raw, &kinds); err != nil || len(kinds) > maxLayers {
			return 0, fmt.Errorf("config.json: layer_types is not a list of at most %d names", maxLayers)
		}
		n := 0
		for _, kind := range kinds {
			if !slices.Contains(cacheless, strings.ToLower(kind)) {
				n++
			}
		}
		return n, nil
	}
	every, err := f.integer(maxLayers, "full_attention_interval")
	if err != nil || every == 0 {
		return layers, err
	}
	return layers / every, nil
}
