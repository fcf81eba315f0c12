package plan

import "github.com/forewarm/forewarm/forecaster/capacity"

// Memory is the memory of a replica, and how many requests it holds.
type Memory struct {
	GPU        capacity.Bytes  `json:"gpu_bytes"` // of each
	TokenBytes number          `json:"kv_bytes_per_token_and_gpu"`
	Windowed   int             `json:"windowed_layers,omitempty"`
	Window     int             `json:"window_tokens,omitempty"`
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
	m := &Memory{GPU: f.GPU, TokenBytes: number(f.TokenBytes), Windowed: f.Model.Windowed, Window: f.Model.Window}
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
