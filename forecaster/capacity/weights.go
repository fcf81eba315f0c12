package capacity

import (
	"encoding/json"
	"slices"
)

// Weights are the numbers of weights of a language model, by how parallelism divides them. The zero value is unknown.
// Norms and biases are left out: less than 0.1 % of any model.
type Weights struct {
	Embedding float64 // input embedding, and the output one where it is a matrix of its own
	Attention float64 // attention and linear attention of all layers
	Dense     float64 // feed-forward layers that every token goes through, shared experts and routers included
	Experts   float64 // routed experts
	Active    float64 // of Experts, what one token goes through

	ExpertCount int // routed experts of a layer

	// Width is hidden_size, and Up the widest feed-forward layer of a GPU that is not sharded: they size activations.
	Width, Up, Vocabulary int
	// Adapted is Σ(in + out) over the linear layers with adapters: the elements of one rank of an adapter.
	Adapted float64
}

// Total is the number of weights.
func (w Weights) Total() float64 { return w.Embedding + w.Attention + w.Dense + w.Experts }

// ungated names the families with two matrices per feed-forward layer; the others have three (SwiGLU and the like).
var ungated = []string{"gpt2", "gpt_bigcode", "gpt_neox", "gptj", "falcon", "mpt", "opt", "phi", "bloom", "starcoder2"}

// tied names the families that by default use one embedding for input and output.
var tied = []string{"gemma", "gemma2", "gemma3", "gemma3_text", "gpt2", "gpt_bigcode", "falcon", "cohere", "cohere2"}

// weights counts the weights of a model; zero if its config lacks the necessary fields.
func (f fields) weights(m *Model, heads, hidden, headDim int) (Weights, error) {
	var err error
	read := f.reader(&err)
	up := read(maxHidden, "intermediate_size", "n_inner", "ffn_hidden_size")
	vocabulary := read(maxHidden, "vocab_size")
	family, textErr := f.text("model_type")
	if err == nil {
		err = textErr
	}
	if err != nil || up == 0 || vocabulary == 0 || hidden == 0 || heads == 0 {
		return Weights{}, err
	}
	w := Weights{Width: hidden, Up: up, Vocabulary: vocabulary, Embedding: 2 * float64(hidden) * float64(vocabulary)}
	if raw, ok := f["tie_word_embeddings"]; ok && string(raw) == "true" || !ok && slices.Contains(tied, family) {
		w.Embedding /= 2
	}
	h := float64(hidden)
	var each linear // of one attention layer
	if m.Latent > 0 {
		each, err = f.latentAttention(heads, h)
	} else {
		each = groupedAttention(heads, m.KVHeads, headDim, h)
	}
	if err != nil {
		return Weights{}, err
	}
	w.Attention = each.weights * float64(m.Layers)
	w.Adapted = each.rank * float64(m.Layers)
	w.Attention += f.linearAttention(h) * float64(m.TotalLayers-m.Layers)
	matrices := 3.0
	if slices.Contains(ungated, family) {
		matrices = 2
	}
	return w, f.feedForward(&w, m.TotalLayers, matrices)
}

// linear is a group of linear layers: their weights, and Σ(in + out).
type linear struct{ weights, rank float64 }

func (l *linear) add(in, out float64) { l.weights += in * out; l.rank += in + out }

func groupedAttention(heads, kvHeads, headDim int, hidden float64) (l linear) {
	q, kv := float64(heads*headDim), float64(kvHeads*headDim)
	l.add(hidden, q)
	l.add(hidden, kv)
	l.add(hidden, kv)
	l.add(q, hidden)
	return l
}

// latentAttention is that of DeepSeek-V2 (§2.1, arXiv:2405.04434): queries through q_lora_rank if that is set, keys and
// values through the cached latent.
func (f fields) latentAttention(heads int, hidden float64) (l linear, err error) {
	read := f.reader(&err)
	query := read(maxHidden, "q_lora_rank")
	latent, rope := read(maxHidden, "kv_lora_rank"), read(maxHeadDim, "qk_rope_head_dim")
	nope, value := read(maxHeadDim, "qk_nope_head_dim"), read(maxHeadDim, "v_head_dim")
	n := float64(heads)
	if query > 0 {
		l.add(hidden, float64(query))
		l.add(float64(query), n*float64(nope+rope))
	} else {
		l.add(hidden, n*float64(nope+rope))
	}
	l.add(hidden, float64(latent+rope))
	l.add(float64(latent), n*float64(nope+value))
	l.add(n*float64(value), hidden)
	return l, err
}

// linearAttention is one gated delta net: queries, keys, values, gates and output.
func (f fields) linearAttention(hidden float64) float64 {
	var err error
	read := f.reader(&err)
	keys := float64(read(maxHeads, "linear_num_key_heads")) * float64(read(maxHeadDim, "linear_key_head_dim"))
	values := float64(read(maxHeads, "linear_num_value_heads")) * float64(read(maxHeadDim, "linear_value_head_dim"))
	return hidden * (2*keys + 3*values)
}

// feedForward adds the dense and the expert layers. Layers with experts are stated as in DeepSeek (all but the first
// first_k_dense_replace), Qwen (each decoder_sparse_step-th, without mlp_only_layers), or Llama 4 and Jamba (each
// n-th).
func (f fields) feedForward(w *Weights, layers int, matrices float64) (err error) {
	read := f.reader(&err)
	experts := read(1<<16, "num_local_experts", "num_experts", "n_routed_experts")
	expertUp := read(maxHidden, "moe_intermediate_size")
	perToken := read(1<<16, "num_experts_per_tok", "moe_topk", "moe_k")
	dense := read(maxLayers, "first_k_dense_replace")
	step := max(1, read(maxLayers, "decoder_sparse_step", "interleave_moe_layer_step", "expert_layer_period"))
	shared := float64(read(1<<16, "n_shared_experts"))
	sharedUp := read(maxHidden, "shared_expert_intermediate_size")
	wide := read(maxHidden, "intermediate_size_mlp") // Llama 4: of its dense layers; intermediate_size is of its experts
	if wide > 0 {
		expertUp, shared = w.Up, max(shared, 1)
	}
	if err != nil {
		return err
	}
	h := float64(w.Width)
	if experts == 0 {
		w.Dense = matrices * h * float64(w.Up) * float64(layers)
		w.Adapted += matrices * (h + float64(w.Up)) * float64(layers)
		return nil
	}
	sparse := max(layers-min(dense, layers), 0)/step - min(f.length("mlp_only_layers"), layers)
	sparse = max(sparse, 0)
	denseUp := max(w.Up, wide)
	w.Dense = matrices * h * float64(denseUp) * float64(layers-sparse)
	w.Adapted += matrices * (h + float64(denseUp)) * float64(layers-sparse)
	if expertUp == 0 {
		expertUp = w.Up
	}
	one := matrices * h * float64(expertUp)
	w.ExpertCount = experts
	w.Up = max(denseUp, min(perToken, experts)*expertUp) // a token is in so many at once
	w.Experts = one * float64(experts) * float64(sparse)
	w.Active = one * float64(min(perToken, experts)) * float64(sparse)
	each := h * float64(experts) // the router
	if sharedUp > 0 {
		each += matrices * h * float64(sharedUp)
	} else {
		each += shared * one
	}
	w.Dense += each * float64(sparse)
	return nil
}

// length of a list; 0 when there is none.
func (f fields) length(name string) int {
	var list []json.RawMessage
	if json.Unmarshal(f[name], &list) != nil {
		return 0
	}
	return len(list)
}
