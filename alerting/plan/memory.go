package plan

import "github.com/forewarm/forewarm/forecaster/capacity"

// Memory is the memory of a replica, and how many requests it holds.
type Memory struct {
	GPUs       int             `json:"gpus"`
	GPU        capacity.Bytes  `json:"fullest_gpu_bytes"`
	Checkpoint number          `json:"weights_bytes"`
	Weights    number          `json:"weights"`
	Active     number          `json:"active_weights"`
	ModelToken number          `json:"kv_bytes_per_token"` // of the model, without copies
	TokenBytes number          `json:"kv_bytes_per_token_and_gpu"`
	Windowed   int             `json:"windowed_layers,omitempty"`
	Window     int             `json:"window_tokens,omitempty"`
	Estimated  bool            `json:"workspace_is_estimated"`
	Requests   []RequestsAtOne `json:"requests"`
}

// Contexts are tokens of a request at its end; 0 if unknown.
type Contexts struct{ Mean, P50, P95, Longest float64 }

// RequestsAtOne is how many requests of a context length a replica holds at once.
type RequestsAtOne struct {
	Context string `json:"context"` // mean, median, p95, longest; example without traffic
	Tokens  number `json:"tokens"`
	// TokensHeld is the tokens of all these requests.
	TokensHeld number `json:"tokens_per_replica"`
	Most       int    `json:"most"`
	Planned    int    `json:"planned"` // within kv_target
	Binding    string `json:"binding"`
}

// MemoryOf is the memory of a replica with requests of the given lengths.
func MemoryOf(f *capacity.Fit, lengths Contexts) *Memory {
	w := f.Model.Weights
	m := &Memory{
		GPUs: f.GPUs, GPU: f.GPU, Checkpoint: number(f.Checkpoint), Weights: unknown, Active: unknown,
		ModelToken: number(f.ModelTokenBytes), TokenBytes: number(f.TokenBytes.PerGPU), Windowed: f.Model.Windowed, Window: f.Model.Window, Estimated: f.Estimated,
	}
	if w.Total() > 0 {
		m.Weights, m.Active = number(w.Total()), number(w.Total()-w.Experts+w.Active)
	}
	type context struct {
		name   string
		tokens float64
	}
	contexts := []context{{"mean", lengths.Mean}, {"median", lengths.P50}, {"p95", lengths.P95}, {"longest", lengths.Longest}}
	if lengths.Mean == 0 && lengths.P50 == 0 {
		contexts[0], contexts[1] = context{"example", 2048}, context{"example", 8192}
	}
	if lengths.Longest == 0 {
		contexts[3] = context{"longest of the model", float64(f.Model.MaxContext)}
	}
	for _, c := range contexts {
		if !(c.tokens > 0) {
			continue
		}
		r := RequestsAtOne{Context: c.name, Tokens: number(c.tokens), TokensHeld: number(f.Tokens(c.tokens))}
		r.Most, r.Planned, r.Binding = f.Requests(c.tokens)
		m.Requests = append(m.Requests, r)
	}
	return m
}
