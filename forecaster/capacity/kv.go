package capacity

import (
	"fmt"
	"strings"
)

// Model is the size of a model's KV cache, from its config.json.
type Model struct {
	Layers   int    // that keep keys and values per token
	Windowed int    // of Layers, those that keep only the newest Window tokens
	Window   int    // tokens; 0 when no layer is windowed
	KVHeads  int    // key/value heads: attention heads for MHA, fewer for GQA, 1 for MQA
	HeadDim  int    // dimension of one head
	Latent   int    // kv_lora_rank + qk_rope_head_dim for multi-head latent attention, 0 for all others
	DType    string // dtype of the weights as written, "" when absent

	Hybrid bool // some layers keep a state of fixed size per sequence instead
}

// requestBytes is the KV cache of a sequence of context tokens on one of the GPUs of a replica, in bytes. Full layers
// keep all tokens, windowed ones the newest of their window. One token takes
//
//	2 · layers · kv_heads · head_dim · bytes(dtype)          MHA, GQA, MQA
//	layers · (kv_lora_rank + qk_rope_head_dim) · bytes(dtype)  MLA
//
// Heads are sharded over the GPUs, ceil(kv_heads/gpus) on each and never less than one, so that more GPUs than heads
// replicate them. MLA keeps one latent vector for all heads, which every rank holds (DeepSeek-V2, §2.1,
// arXiv:2405.04434). element is bytes(dtype), gpus at least 1.
func (m Model) requestBytes(element float64, gpus int, context float64) float64 {
	perLayer := float64(m.Latent) * element
	if m.Latent == 0 {
		perLayer = 2 * float64(m.HeadDim) * float64(max(1, (m.KVHeads+gpus-1)/gpus)) * element
	}
	return perLayer * (float64(m.Layers-m.Windowed)*context + float64(m.Windowed)*min(context, float64(m.Window)))
}

const maxGPUs = 1024

// element is the size of one cached number in bytes. kvDType overrides the cache's dtype ("fp8", …); "" and "auto" follow
// the model. Engines serve float32 checkpoints in half precision by default (vLLM --dtype auto), so only an override
// makes it four bytes.
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
