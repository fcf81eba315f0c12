package sketch

// Moments are sums over requests, to compute mean KV occupancy by Little's law. E[prompt·output] is needed because the
// product of means E[prompt]·E[output] differs from it by up to 2× on mixed traffic.
type Moments struct {
	N            float64 // requests with known prompt and output
	Prompt       float64 // Σ prompt tokens
	Output       float64 // Σ output tokens
	PromptOutput float64 // Σ prompt·output
	OutputSq     float64 // Σ output²
}

// Add counts one request with the given numbers of tokens.
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

// Scale multiplies all sums by a factor, to fade old requests.
func (m *Moments) Scale(factor float64) {
	m.N *= factor
	m.Prompt *= factor
	m.Output *= factor
	m.PromptOutput *= factor
	m.OutputSq *= factor
}

// Products are E[prompt·output] / (E[prompt]·E[output]) and E[output²] / E[output]², which correct the product of
// means. Both are 1 without data.
func (m *Moments) Products() (promptOutput, outputSq float64) {
	promptOutput, outputSq = 1, 1
	if po := m.Prompt * m.Output; po > 0 {
		promptOutput = m.N * m.PromptOutput / po
	}
	if oo := m.Output * m.Output; oo > 0 {
		outputSq = m.N * m.OutputSq / oo
	}
	return promptOutput, outputSq
}
