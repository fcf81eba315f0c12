package capacity

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Quantization is how the weights of a checkpoint are stored. The zero value means the model's dtype for all.
type Quantization struct {
	Method  string  // as the config names it
	Bits    float64 // per quantised weight, scales and zero points included; below 0 for an unknown method
	Experts bool    // only routed experts are quantised; otherwise all linear layers. Embeddings never are
}

// bytes is the size of weights w in bytes; unquantised elements have dtype bytes.
func (q Quantization) bytes(w Weights, dtype float64) (embedding, attention, dense, experts float64) {
	linear, expert := dtype, dtype
	if q.Bits > 0 {
		expert = q.Bits / 8
		if !q.Experts {
			linear = expert
		}
	}
	return w.Embedding * dtype, w.Attention * linear, w.Dense * linear, w.Experts * expert
}

// ParseQuantization reads a user's dtype for weights: "" and "auto" mean that of the checkpoint (from); bf16, fp8,
// int8, int4 and the like apply to all linear layers.
func ParseQuantization(dtype string, from Quantization) (Quantization, error) {
	name := strings.ToLower(dtype)
	switch name {
	case "", "auto":
		return from, nil
	case "bf16", "bfloat16", "fp16", "float16", "half":
		return Quantization{Method: name}, nil
	case "fp8", "int8":
		return Quantization{Method: name, Bits: 8}, nil
	case "int4", "awq", "gptq":
		return Quantization{Method: name, Bits: grouped(4, 128)}, nil
	case "fp4", "nvfp4":
		return Quantization{Method: name, Bits: 4.5}, nil
	case "mxfp4":
		return Quantization{Method: name, Bits: 4.25, Experts: true}, nil
	}
	return Quantization{}, fmt.Errorf("dtype of weights %q is unknown; use auto, bf16, fp8, int8, int4, nvfp4 or mxfp4", dtype)
}

// grouped is the bits of a weight that shares a 16-bit scale and a zero point of its own width with its group.
func grouped(bits, group float64) float64 {
	if !(group >= 1) {
		return bits
	}
	return bits + (16+bits)/group
}

// quantization reads quantization_config: of fp8 and compressed-tensors (vLLM), GPTQ and AWQ, bitsandbytes, MXFP4
// (4-bit values that share an 8-bit scale by 32, of experts only) and NVFP4 (by 16).
func (f fields) quantization() (q Quantization, err error) {
	raw, ok := f["quantization_config"]
	if !ok || string(raw) == "null" {
		return q, nil
	}
	var c fields
	if err := json.Unmarshal(raw, &c); err != nil {
		return q, fmt.Errorf("config.json: quantization_config is not an object: %w", err)
	}
	if q.Method, err = c.text("quant_method", "quant_algo"); err != nil {
		return q, err
	}
	read := c.reader(&err)
	bits, group := float64(read(32, "bits", "w_bit", "weight_bits")), float64(read(1<<20, "group_size", "q_group_size"))
	if err != nil {
		if strings.Contains(err.Error(), "group_size") { // −1: one group a channel
			group, err = 0, nil
		} else {
			return q, err
		}
	}
	switch method := strings.ToLower(q.Method); {
	case method == "mxfp4":
		q.Bits, q.Experts = 4.25, true
	case strings.Contains(method, "fp4"):
		q.Bits = 4.5
	case method == "fp8", method == "fbgemm_fp8", strings.Contains(method, "int8"):
		q.Bits = 8
	case method == "gptq", method == "awq", method == "auto-round":
		if bits == 0 {
			bits = 4
		}
		q.Bits = grouped(bits, group)
	case method == "bitsandbytes":
		if q.Bits = 8; c.flag("load_in_4bit") {
			q.Bits = 4.5
		}
	case method == "compressed-tensors", method == "modelopt":
		q.Bits = c.groupBits()
	default:
		q.Bits = -1
	}
	return q, nil
}

// groupBits is the width of the widest group of compressed-tensors' config_groups; −1 when unknown.
func (f fields) groupBits() float64 {
	var groups map[string]struct {
		Weights *struct {
			Bits  float64 `json:"num_bits"`
			Group float64 `json:"group_size"`
		} `json:"weights"`
	}
	if json.Unmarshal(f["config_groups"], &groups) != nil {
		return -1
	}
	widest := -1.0
	for _, g := range groups {
		if g.Weights != nil && g.Weights.Bits >= 1 && g.Weights.Bits <= 32 {
			widest = max(widest, grouped(g.Weights.Bits, g.Weights.Group))
		}
	}
	return widest
}
