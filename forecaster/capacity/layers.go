package capacity

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// kinds counts the layers of a model by their kind of cache.
type kinds struct {
	cached   int // keep keys and values per token; the others a state of fixed size
	windowed int // of cached, those that keep only the newest window tokens
	window   int // tokens
}

// cacheless names the kinds of layer that keep a state of fixed size instead of keys and values per token; windowed
// those that attend to the newest tokens only.
var (
	cacheless = []string{"linear_attention", "mamba", "mamba2", "conv", "short_conv", "recurrent"}
	windowed  = []string{"sliding_attention", "local_attention", "chunked_attention", "sliding_window"}
)

// layers counts the layers by kind: from layer_types, or else by the rule of the model's family.
func (f fields) layers(layers int) (kinds, error) {
	k := kinds{cached: layers}
	window, err := f.window()
	if err != nil {
		return k, err
	}
	if raw, ok := f["layer_types"]; ok && string(raw) != "null" {
		var names []string
		if err := json.Unmarshal(raw, &names); err != nil || len(names) > maxLayers {
			return k, fmt.Errorf("config.json: layer_types is not a list of at most %d names", maxLayers)
		}
		k.cached = 0
		for _, name := range names {
			name = strings.ToLower(name)
			if slices.Contains(cacheless, name) {
				continue
			}
			k.cached++
			if window > 0 && slices.Contains(windowed, name) {
				k.windowed++
			}
		}
	} else if k.cached, err = f.attentionLayers(layers); err != nil {
		return k, err
	} else if window > 0 {
		if k.windowed, err = f.windowedLayers(k.cached); err != nil {
			return k, err
		}
	}
	if k.windowed > 0 {
		k.window = window
	}
	return k, nil
}

// attentionLayers is the number of attention layers of a hybrid, by the fields of Qwen3-Next (one in
// full_attention_interval), Jamba (one in attn_layer_period), Bamba (attn_layer_indices) and Nemotron-H (a * in
// hybrid_override_pattern).
func (f fields) attentionLayers(layers int) (int, error) {
	every, err := f.integer(maxLayers, "full_attention_interval", "attn_layer_period")
	if err != nil {
		return 0, err
	}
	if every > 0 {
		return layers / every, nil
	}
	if raw, ok := f["attn_layer_indices"]; ok && string(raw) != "null" {
		var at []int
		if err := json.Unmarshal(raw, &at); err != nil || len(at) > layers {
			return 0, fmt.Errorf("config.json: attn_layer_indices is no list of at most %d layers", layers)
		}
		return len(at), nil
	}
	pattern, err := f.text("hybrid_override_pattern")
	if err != nil || pattern == "" {
		return layers, err
	}
	return min(strings.Count(pattern, "*"), layers), nil
}

// window is the span of windowed attention in tokens; 0 when there is none or it is switched off.
func (f fields) window() (int, error) {
	family, err := f.text("model_type")
	if err != nil {
		return 0, err
	}
	// Qwen 2 and 3 use their window only if this flag is set.
	if raw, ok := f["use_sliding_window"]; ok && string(raw) != "true" || !ok && strings.HasPrefix(family, "qwen") {
		return 0, nil
	}
	return f.integer(maxContext, "sliding_window", "attention_chunk_size")
}

// windowedLayers is the number of windowed layers. Gemma 3 and Cohere have one full layer in sliding_window_pattern
// (Gemma 3: six by default). In Gemma 2 every second layer is full, the first is windowed. In Qwen 2 the layers up to
// max_window_layers are full. In Llama 4 no_rope_layers marks windowed layers with 1; by default each fourth is full.
// In all others every layer is windowed.
func (f fields) windowedLayers(layers int) (int, error) {
	pattern, err := f.integer(maxLayers, "sliding_window_pattern", "_sliding_window_pattern")
	if err != nil {
		return 0, err
	}
	family, err := f.text("model_type")
	if err != nil {
		return 0, err
	}
	switch {
	case pattern > 0:
		return layers - layers/pattern, nil
	case strings.HasPrefix(family, "gemma3"):
		return layers - layers/6, nil
	case family == "gemma2":
		return (layers + 1) / 2, nil
	}
	if strings.HasPrefix(family, "llama4") {
		return f.chunkedLayers(layers)
	}
	full, err := f.integer(maxLayers, "max_window_layers")
	return layers - min(full, layers), err
}

// chunkedLayers is the number of layers of Llama 4 that attend to their chunk of attention_chunk_size tokens: those
// with rotary positions. Transformers derives missing layer_types in the same way.
func (f fields) chunkedLayers(layers int) (int, error) {
	var rotary []int
	if raw, ok := f["no_rope_layers"]; ok && string(raw) != "null" {
		if err := json.Unmarshal(raw, &rotary); err != nil || len(rotary) > layers {
			return 0, fmt.Errorf("config.json: no_rope_layers is no list of at most %d layers", layers)
		}
	}
	if len(rotary) > 0 {
		n := 0
		for _, mark := range rotary {
			if mark != 0 {
				n++
			}
		}
		return n, nil
	}
	every, err := f.integer(maxLayers, "no_rope_layer_interval")
	if every == 0 {
		every = 4
	}
	return layers - layers/every, err
}

// state is the state of the cacheless layers per sequence, in bytes, at two bytes an element (four for the recurrence
// of Qwen3-Next): the matrix of a gated delta net, heads · key · value, and its convolution's window (Yang et al. 2024,
// arXiv:2412.06464). unknown reports that the config does not have its size.
func (f fields) state(layers int) (bytes float64, unknown bool) {
	if layers <= 0 {
		return 0, false
	}
	var err error
	read := f.reader(&err)
	values := read(maxHeads, "linear_num_value_heads")
	keys := read(maxHeads, "linear_num_key_heads")
	keyDim := read(maxHeadDim, "linear_key_head_dim")
	valueDim := read(maxHeadDim, "linear_value_head_dim")
	kernel := read(maxHeadDim, "linear_conv_kernel_dim")
	if err != nil || values == 0 || keys == 0 || keyDim == 0 || valueDim == 0 {
		return 0, true
	}
	matrix := 4 * float64(values) * float64(keyDim) * float64(valueDim)
	convolved := 2*float64(keys)*float64(keyDim) + float64(values)*float64(valueDim)
	return float64(layers) * (matrix + 2*convolved*float64(max(kernel-1, 0))), false
}
