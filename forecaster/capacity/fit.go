package capacity

import (
	"errors"
	"fmt"
	"math"
)

// GPUMemory is the use of the memory of one GPU of a replica, in bytes.
type GPUMemory struct {
	Memory    float64 `json:"memory"`
	Unused    float64 `json:"unused"` // beyond utilization
	Weights   float64 `json:"weights"`
	Workspace float64 `json:"workspace"`
	KV        float64 `json:"kv"` // left for the cache
}

// Fit is how the memory of a replica is divided for a model.
type Fit struct {
	Model      Model
	GPU        GPUMemory // of each GPU
	TokenBytes float64   // of one token with every layer in full, on one GPU
	Tokens     float64   // capacity of the replica's cache for requests of Config.ContextTokens, which matter for windowed layers
}

// memory is that of one GPU before the cache, all zero if it is not known. Layers and heads are divided evenly over the GPUs.
func (c *Config) memory() (b GPUMemory, err error) {
	b.Workspace = defaultWorkspace
	kind := c.GPU.Type
	if c.GPU.Memory != "" {
		kind = ""
	}
	for _, size := range []struct {
		key, text string
		parse     func(string) (float64, error)
		into      *float64
	}{
		{"gpu.type", kind, gpuMemory, &b.Memory}, {"gpu.memory", c.GPU.Memory, parseSize, &b.Memory},
		{"gpu.weights", c.GPU.Weights, parseSize, &b.Weights}, {"gpu.workspace", c.GPU.Workspace, parseSize, &b.Workspace},
	} {
		if size.text == "" {
			continue
		}
		if *size.into, err = size.parse(size.text); err != nil {
			return b, c.errorf(size.key, "%w", err)
		}
	}
	if b.Memory == 0 {
		return GPUMemory{}, nil
	}
	b.Weights /= float64(c.GPU.PerReplica)
	b.Unused = b.Memory * (1 - c.GPU.Utilization)
	return b, nil
}

// fit counts the bytes of a model on one replica: the memory that the engine may use, less weights and workspace, is
// left for the cache. Errors name what is missing, or say that no memory is left.
func (c *Config) fit(m Model, element float64, gpu GPUMemory) (*Fit, error) {
	f := &Fit{Model: m, GPU: gpu}
	switch {
	case m.Hybrid:
		return nil, errors.New("some layers of this model keep a state for each sequence whose size is not counted; set kv_capacity_tokens as the engine prints it")
	case gpu.Weights == 0:
		return nil, errors.New("gpu.weights is not set; set the size of the checkpoint's files, such as 132GiB, or kv_capacity_tokens as the engine prints it")
	}
	f.TokenBytes = m.requestBytes(element, c.GPU.PerReplica, 1)
	f.GPU.KV = f.GPU.Memory - f.GPU.Unused - f.GPU.Weights - f.GPU.Workspace
	if f.GPU.KV <= 0 {
		return nil, fmt.Errorf("weights take %.1f GiB and the rest %.1f GiB of the %.1f GiB that a GPU may use: use more GPUs per replica, a smaller dtype, or a larger GPU",
			f.GPU.Weights/gib, f.GPU.Workspace/gib, (f.GPU.Memory-f.GPU.Unused)/gib)
	}
	context := max(float64(c.ContextTokens), 1)
	f.Tokens = math.Floor(f.GPU.KV / m.requestBytes(element, c.GPU.PerReplica, context) * context)
	return f, nil
}

const gib = 1 << 30
