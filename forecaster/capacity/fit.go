package capacity

import (
	"errors"
	"fmt"
	"math"
)

// Deployment is how one replica runs a model: its GPUs, and the other uses of their memory.
type Deployment struct {
	GPUBytes    float64 // of one GPU
	Utilization float64 // share of it that the engine may use; 0 means 0.9

	Tensor, Pipeline, Data int  // parallel degrees; 0 means 1. Data-parallel ranks share the experts of an MoE model
	ExpertParallel         bool // experts are whole on a rank: the fullest one holds ceil(experts/ranks) of them

	KVDType       string  // of the cache; "" follows the model
	WeightsDType  string  // "" follows the checkpoint
	WeightsBytes  float64 // of the checkpoint; 0 counts them from the config
	Workspace     float64 // bytes on each GPU; 0 estimates them
	BatchedTokens int     // tokens of one iteration at most; 0 means 8192
	MaxNumSeqs    int     // sequences at once; 0 means 256
	Adapters      int     // LoRA adapters held on the GPU
	AdapterRank   int     // of the largest; 0 means 16
	Fragmentation float64 // share of the cache lost to partly filled blocks
	KVTarget      float64 // share of the cache that is safe to fill; 0 means 0.85
}

// Bytes is the use of memory of the fullest GPU of a replica.
type Bytes struct {
	Memory    float64 `json:"memory"`
	Unused    float64 `json:"unused"` // beyond utilization
	Weights   float64 `json:"weights"`
	Workspace float64 `json:"workspace"`
	Adapters  float64 `json:"adapters"`
	KV        float64 `json:"kv"` // left for the cache, without fragmentation
}

// Fit is a model on a replica.
type Fit struct {
	Model      Model
	GPUs       int
	GPU        Bytes   // on the fullest one
	Checkpoint float64 // bytes of the weights, once
	TokenBytes KVBytes // of one token with every layer in full
	// ModelTokenBytes is the KV cache of one token without copies, as on a single GPU.
	ModelTokenBytes float64
	Estimated       bool // Workspace is an estimate

	deployment Deployment
	share      float64 // of the layers on the fullest pipeline stage
}

func (d Deployment) withDefaults() Deployment {
	for _, n := range []*int{&d.Tensor, &d.Pipeline, &d.Data} {
		*n = max(*n, 1)
	}
	d.Utilization, d.KVTarget = or(d.Utilization, 0.9), or(d.KVTarget, 0.85)
	if d.BatchedTokens == 0 {
		d.BatchedTokens = 8192
	}
	if d.MaxNumSeqs == 0 {
		d.MaxNumSeqs = 256
	}
	if d.AdapterRank == 0 {
		d.AdapterRank = 16
	}
	return d
}

func or(v, otherwise float64) float64 {
	if v == 0 {
		return otherwise
	}
	return v
}

// NewFit counts the bytes of a model on one replica. Errors name missing fields of the config, or say that no memory is
// left for the cache.
//
// Tensor parallelism divides attention, dense and embedding weights. The pipeline stage with most layers counts.
// Experts are divided over tensor × data ranks, as in vLLM and SGLang. Adapters take rank · Σ(in + out) elements of two
// bytes of the linear layers on a GPU (Hu et al. 2021, arXiv:2106.09685), without routed experts.
func NewFit(m Model, d Deployment) (Fit, error) {
	d = d.withDefaults()
	f := Fit{Model: m, deployment: d, GPUs: d.Tensor * d.Pipeline * d.Data}
	switch {
	case !(d.GPUBytes > 0):
		return Fit{}, errors.New("the memory of a GPU is not known")
	case f.GPUs > maxGPUs || d.Tensor > maxGPUs:
		return Fit{}, fmt.Errorf("%d GPUs in a replica are above %d", f.GPUs, maxGPUs)
	case !(d.Utilization > 0 && d.Utilization <= 1), !(d.KVTarget > 0 && d.KVTarget <= 1), !(d.Fragmentation >= 0 && d.Fragmentation < 1):
		return Fit{}, fmt.Errorf("utilization %g, KV target %g and fragmentation %g must be shares of 1", d.Utilization, d.KVTarget, d.Fragmentation)
	case m.Layers == 0:
		return Fit{}, errors.New("no layer of this model keeps keys and values, so no KV cache bounds it: it is not planned by tokens")
	case m.StateUnknown:
		return Fit{}, fmt.Errorf("%d of the %d layers keep a state for each sequence whose size the config does not tell; state the cache as the engine prints it (kv_capacity_tokens)", m.TotalLayers-m.Layers, m.TotalLayers)
	case d.Pipeline > m.TotalLayers:
		return Fit{}, fmt.Errorf("%d pipeline stages are more than the %d layers", d.Pipeline, m.TotalLayers)
	}
	var err error
	if f.TokenBytes, err = m.BytesPerToken(d.KVDType, d.Tensor); err != nil {
		return Fit{}, err
	}
	once, err := m.BytesPerToken(d.KVDType, 1)
	if err != nil {
		return Fit{}, err
	}
	f.ModelTokenBytes = once.PerReplica
	f.share = math.Ceil(float64(m.TotalLayers)/float64(d.Pipeline)) / float64(m.TotalLayers)
	f.TokenBytes.PerGPU *= f.share
	f.TokenBytes.PerReplica = f.TokenBytes.PerGPU * float64(d.Tensor*d.Pipeline)
	if err := f.weigh(); err != nil {
		return Fit{}, err
	}
	f.GPU.Memory, f.GPU.Unused = d.GPUBytes, d.GPUBytes*(1-d.Utilization)
	if f.GPU.Workspace = d.Workspace; f.GPU.Workspace == 0 {
		f.GPU.Workspace, f.Estimated = m.workspace(d), true
	}
	if d.Adapters > 0 {
		if m.Weights.Adapted == 0 {
			return Fit{}, errors.New("the config does not tell the widths of the layers that adapters attach to; add them to the workspace instead")
		}
		f.GPU.Adapters = 2 * float64(d.Adapters) * float64(d.AdapterRank) * m.Weights.Adapted * f.share
	}
	free := f.GPU.Memory - f.GPU.Unused - f.GPU.Weights - f.GPU.Workspace - f.GPU.Adapters
	if free <= 0 {
		return Fit{}, fmt.Errorf("weights take %.1f GiB and the rest %.1f GiB of the %.1f GiB that a GPU may use: use more GPUs per replica, a smaller dtype, or a larger GPU",
			f.GPU.Weights/gib, (f.GPU.Workspace+f.GPU.Adapters)/gib, (f.GPU.Memory-f.GPU.Unused)/gib)
	}
	f.GPU.KV = free * (1 - d.Fragmentation)
	return f, nil
}

const gib = 1 << 30

// weigh computes the weights on the fullest GPU.
func (f *Fit) weigh() error {
	d, m := &f.deployment, &f.Model
	tensor, ranks := float64(d.Tensor), float64(d.Tensor*d.Data)
	quantization, err := ParseQuantization(d.WeightsDType, m.Quantization)
	if err != nil {
		return err
	}
	dtype, err := m.element("")
	if err != nil {
		return err
	}
	embedding, attention, dense, experts := quantization.bytes(m.Weights, dtype)
	counted := embedding + attention + dense + experts
	switch {
	case d.WeightsBytes == 0 && (counted == 0 || quantization.Bits < 0):
		return errors.New("the config does not tell the size of the weights: state them (safetensors' index has metadata.total_size)")
	case d.WeightsBytes == 0:
		f.Checkpoint = counted
	case counted == 0:
		f.Checkpoint = d.WeightsBytes
		f.GPU.Weights = d.WeightsBytes * f.share / tensor
		return nil
	default: // only the sum is stated: divide it in the counted proportions
		f.Checkpoint = d.WeightsBytes
		scale := d.WeightsBytes / counted
		embedding, attention, dense, experts = embedding*scale, attention*scale, dense*scale, experts*scale
	}
	if d.Pipeline > 1 && m.Weights.Embedding > float64(m.Weights.Width)*float64(m.Weights.Vocabulary) {
		embedding /= 2 // the first stage has one matrix, the last the other
	}
	expertShare := 1 / ranks
	if d.ExpertParallel && m.Weights.ExpertCount > 0 {
		expertShare = math.Ceil(float64(m.Weights.ExpertCount)/ranks) / float64(m.Weights.ExpertCount)
	}
	f.GPU.Weights = embedding/tensor + f.share*((attention+dense)/tensor+experts*expertShare)
	return nil
}

// Sizes of an engine's other memory: the CUDA context and graphs, and the buffers of collectives between GPUs.
const (
	contextBytes    = 1 << 30
	collectiveBytes = 1 << 30
)

// workspace estimates the bytes on a GPU without weights and cache:
//
//	2 · batched tokens · (3 · up + 4 · width) + 10 · sequences · vocabulary + context
//
// for the widest feed-forward layer and the residuals around it in two bytes, logits in two and twice in four. vLLM
// printed 1.26 GiB for the first two terms of Llama-3-8B at 8192 tokens and 256 sequences (vllm-project/vllm#10511);
// this gives 1.21.
func (m Model) workspace(d Deployment) float64 {
	activations := 2 * float64(d.BatchedTokens) * (3*float64(m.Weights.Up) + 4*float64(m.Weights.Width))
	logits := 10 * float64(d.MaxNumSeqs) * float64(m.Weights.Vocabulary)
	bytes := activations + logits + contextBytes
	if d.Tensor*d.Pipeline*d.Data > 1 {
		bytes += collectiveBytes
	}
	return bytes
}

// RequestBytes is the cache of a request with context tokens on the fullest GPU, in bytes.
func (f *Fit) RequestBytes(context float64) float64 {
	bytes, err := f.Model.RequestBytes(f.deployment.KVDType, f.deployment.Tensor, f.share, context)
	if err != nil {
		return math.NaN() // NewFit has checked the dtype
	}
	return bytes
}

// Tokens is the capacity of the replica's cache in tokens, for requests of context tokens each, over all data-parallel
// ranks. It depends on the context only with windowed layers.
func (f *Fit) Tokens(context float64) float64 {
	if !(context > 0) {
		return 0
	}
	return math.Floor(f.GPU.KV / f.RequestBytes(context) * context * float64(f.deployment.Data))
}

// Requests is the number of requests of context tokens that the replica holds at once, the number within the safe
// share, and the binding limit: KV, Slots, or Context when the model does not support so many tokens.
func (f *Fit) Requests(context float64) (most, safe int, binding string) {
	d := &f.deployment
	if f.Model.MaxContext > 0 && context > float64(f.Model.MaxContext) {
		return 0, 0, Context
	}
	each := f.RequestBytes(context)
	ranks := float64(d.Data)
	most = int(min(ranks*math.Floor(f.GPU.KV/each), maxNumber))
	safe = int(min(ranks*math.Floor(f.GPU.KV*d.KVTarget/each), maxNumber))
	slots := d.MaxNumSeqs * d.Data
	if most > slots {
		return slots, min(safe, slots), Slots
	}
	return most, safe, KV
}

// maxNumber keeps counts within an int on any machine.
const maxNumber = 1 << 30
