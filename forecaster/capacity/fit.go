package capacity

import (
	"errors"
	"fmt"
	"math"
)

// Deployment is how one replica runs a model: its GPUs, over which layers and heads are divided evenly.
type Deployment struct {
	GPUs        int     // of the replica
	GPUBytes    float64 // of one GPU
	Utilization float64 // share of it that the engine may use
	Weights     float64 // bytes of the checkpoint, which all GPUs hold together
	Workspace   float64 // bytes on each GPU for activations and buffers
	KVDType     string  // of the cache; "" follows the model
	MaxNumSeqs  int     // sequences at once; 0 means 256
	KVTarget    float64 // share of the cache that is safe to fill
}

// Bytes is the use of the memory of one GPU of a replica.
type Bytes struct {
	Memory    float64 `json:"memory"`
	Unused    float64 `json:"unused"` // beyond utilization
	Weights   float64 `json:"weights"`
	Workspace float64 `json:"workspace"`
	KV        float64 `json:"kv"` // left for the cache
}

// Fit is a model on a replica.
type Fit struct {
	Model      Model
	GPU        Bytes   // on each
	TokenBytes float64 // of one token with every layer in full, on one GPU

	deployment Deployment
}

// NewFit counts the bytes of a model on one replica: the memory that the engine may use, less weights and workspace, is
// left for the cache. Errors name what is missing, or say that no memory is left.
func NewFit(m Model, d Deployment) (Fit, error) {
	if d.MaxNumSeqs == 0 {
		d.MaxNumSeqs = 256
	}
	f := Fit{Model: m, deployment: d}
	switch {
	case !(d.GPUBytes > 0):
		return Fit{}, errors.New("the memory of a GPU is not known")
	case m.Hybrid:
		return Fit{}, errors.New("some layers of this model keep a state for each sequence whose size is not counted; set kv_capacity_tokens as the engine prints it")
	case !(d.Weights > 0):
		return Fit{}, errors.New("gpu.weights is not set; set the size of the checkpoint's files, such as 132GiB, or kv_capacity_tokens as the engine prints it")
	}
	var err error
	if f.TokenBytes, err = m.RequestBytes(d.KVDType, d.GPUs, 1); err != nil {
		return Fit{}, err
	}
	f.GPU = Bytes{Memory: d.GPUBytes, Unused: d.GPUBytes * (1 - d.Utilization), Weights: d.Weights / float64(d.GPUs), Workspace: d.Workspace}
	f.GPU.KV = f.GPU.Memory - f.GPU.Unused - f.GPU.Weights - f.GPU.Workspace
	if f.GPU.KV <= 0 {
		return Fit{}, fmt.Errorf("weights take %.1f GiB and the rest %.1f GiB of the %.1f GiB that a GPU may use: use more GPUs per replica, a smaller dtype, or a larger GPU",
			f.GPU.Weights/gib, f.GPU.Workspace/gib, (f.GPU.Memory-f.GPU.Unused)/gib)
	}
	return f, nil
}

const gib = 1 << 30

// requestBytes is the cache of a request with context tokens on one GPU, in bytes.
func (f *Fit) requestBytes(context float64) float64 {
	bytes, err := f.Model.RequestBytes(f.deployment.KVDType, f.deployment.GPUs, context)
	if err != nil {
		return math.NaN() // NewFit has checked the dtype
	}
	return bytes
}

// Tokens is the capacity of the replica's cache in tokens, for requests of context tokens each. It depends on the
// context only with windowed layers.
func (f *Fit) Tokens(context float64) float64 {
	if !(context > 0) {
		return 0
	}
	return math.Floor(f.GPU.KV / f.requestBytes(context) * context)
}

// Requests is the number of requests of context tokens that the replica holds at once, the number within the safe
// share, and the binding limit: KV, Slots, or Context when the model does not support so many tokens.
func (f *Fit) Requests(context float64) (most, safe int, binding string) {
	if f.Model.MaxContext > 0 && context > float64(f.Model.MaxContext) {
		return 0, 0, Context
	}
	each, slots := f.requestBytes(context), f.deployment.MaxNumSeqs
	most = int(min(f.GPU.KV/each, maxNumber))
	safe = int(min(f.GPU.KV*f.deployment.KVTarget/each, maxNumber))
	if most > slots {
		return slots, min(safe, slots), Slots
	}
	return most, safe, KV
}

// maxNumber keeps counts within an int on any machine.
const maxNumber = 1 << 30
