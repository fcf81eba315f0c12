package capacity

import (
	"fmt"
	"strings"
)

// Model is the size of a model, from its config.json.
type Model struct {
	TotalLayers int    // of every kind
	Layers      int    // layers that keep keys and values per token
	Windowed    int    // of Layers, those that keep only the newest Window tokens
	Window      int    // tokens; 0 when no layer is windowed
	KVHeads     int    // key/value heads: attention heads for MHA, fewer for GQA, 1 for MQA
	HeadDim     int    // dimension of one head
	Latent      int    // kv_lora_rank + qk_rope_head_dim for multi-head latent attention, 0 for all others
	DType       string // dtype of the weights as written, "" when absent

	StateBytes   float64 // state per sequence of layers without a cache per token
	StateUnknown bool    // the config does not have the size of that state

	MaxContext   int // longest supported context in tokens; 0 when unknown
	Weights      Weights
	Quantization Quantization
	Vision       bool // the model has an image encoder; its weights are not counted
}

// KVBytes is the KV cache that one token takes, in bytes.
type KVBytes struct {
	PerReplica float64 // on all GPUs of a replica together, replicated copies included
	PerGPU     float64 // on the fullest GPU
}

// BytesPerToken is the KV cache of one token under tensor parallelism over tp GPUs:
//
//	2 · layers · kv_heads · head_dim · bytes(dtype)          MHA, GQA, MQA
//	layers · (kv_lora_rank + qk_rope_head_dim) · bytes(dtype)  MLA
//
// Heads are sharded over the GPUs, ceil(kv_heads/tp) on each and never less than one, so that a tp above the number of
// heads replicates them. MLA keeps one latent vector for all heads, which every rank holds (DeepSeek-V2, §2.1,
// arXiv:2405.04434). kvDType overrides the cache's dtype ("fp8", …); "" and "auto" follow the model. Windowed layers
// count like full ones: an upper bound, exact for contexts shorter than the window; [Model.RequestBytes] is exact for
// any. Errors name the dtype or tp.
func (m Model) BytesPerToken(kvDType string, tp int) (KVBytes, error) {
	perLayer, err := m.layerBytes(kvDType, tp)
	if err != nil {
		return KVBytes{}, err
	}
	perGPU := float64(m.Layers) * perLayer
	return KVBytes{PerReplica: perGPU * float64(tp), PerGPU: perGPU}, nil
}

// RequestBytes is the KV cache of a sequence of context tokens on the fullest of tp GPUs, in bytes, for a stage with a
// share of the layers. Full layers keep all tokens, windowed ones min(context, window), others a state of fixed size.
func (m Model) RequestBytes(kvDType string, tp int, share, context float64) (float64, error) {
	perLayer, err := m.layerBytes(kvDType, tp)
	if err != nil {
		return 0, err
	}
	kept := float64(m.Layers-m.Windowed)*context + float64(m.Windowed)*min(context, float64(m.Window))
	return share * (perLayer*kept + m.StateBytes/float64(tp)), nil
}

// layerBytes is the KV cache of one token in one layer on one of tp GPUs.
func (m Model) layerBytes(kvDType string, tp int) (float64, error) {
	if tp < 1 || tp > maxGPUs {
		return 0, fmt.Errorf("tensor parallel %d is out of range; set 1…%d GPUs per replica", tp, maxGPUs)
	}
	element, err := m.element(kvDType)
	if err != nil {
		return 0, err
	}
	if m.Latent > 0 {
		return float64(m.Latent) * element, nil
	}
	return 2 * float64(m.HeadDim) * float64(max(1, (m.KVHeads+tp-1)/tp)) * element, nil
}

// maxGPUs bounds the GPUs of one replica.
const maxGPUs = 1024

// element is the size of one cached number in bytes. Engines serve float32 checkpoints in half precision by default
// (vLLM --dtype auto), so only an override makes it four bytes.
func (m Model) element(kvDType string) (float64, error) {
	name := strings.ToLower(strings.TrimPrefix(kvDType, "torch."))
	if name == "" || name == "auto" {
		name = strings.ToLower(strings.TrimPrefix(m.DType, "torch."))
		if name == "" || name == "auto" || name == "float32" {
			name = "bfloat16"
		}
	}
	switch name {
	case "float32", "fp32":
		return 4, nil
	case "bfloat16", "bf16", "float16", "fp16", "half":
		return 2, nil
	case "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "float8_e4m3fn", "float8_e5m2", "int8":
		return 1, nil
	}
	return 0, fmt.Errorf("KV cache dtype %q is unknown; set kv_dtype to auto, float32, bfloat16, float16, fp8 or int8", name)
}
