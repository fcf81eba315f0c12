package sketch

// Moments are the sums over requests from which mean KV occupancy follows by Little's law. The product of means,
// E[prompt]·E[output], is not E[prompt·output]: on mixed traffic it is off by up to 2×.
type Moments struct {
	N            float64 // requests with known prompt and output
	Prompt       float64 // Σ prompt tokens
	Output       float64 // Σ output tokens
	PromptOutput float64 // Σ prompt·output
	OutputSq     float64 // Σ output²
}

// Add counts one request of the given token counts.
func (m *Moments) Add(prompt, output float64) {
	m.N++
	m.Prompt += prompt
	m.Output += output
	m.PromptOutput += prompt * output
	m.OutputSq += output * output
}

// Merge adds o to m; exact up to floating-point rounding.
func (m *Moments) Merge(o Moments) {
	m.N += o.N
	m.Prompt += o.Prompt
	m.Output += o.Output
	m.PromptOutput += o.PromptOutput
	m.OutputSq += o.OutputSq
}
