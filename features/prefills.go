package features

// Prefills are sums over requests for a linear regression of prefill time on tokens: the slope is the rate, the
// intercept is the overhead.
type Prefills struct {
	N            float64 // requests with known prompt and time to the first token
	Tokens       float64 // Σ prompt tokens that were not cached
	Seconds      float64 // Σ time to the first token, from leaving the queue where that is known
	TokensSq     float64 // Σ tokens²
	TokenSeconds float64 // Σ tokens·seconds
}

// Add counts one request.
func (p *Prefills) Add(tokens, seconds float64) {
	p.Merge(Prefills{1, tokens, seconds, tokens * tokens, tokens * seconds})
}

// Merge adds o to p.
func (p *Prefills) Merge(o Prefills) {
	p.N, p.Tokens, p.Seconds = p.N+o.N, p.Tokens+o.Tokens, p.Seconds+o.Seconds
	p.TokensSq, p.TokenSeconds = p.TokensSq+o.TokensSq, p.TokenSeconds+o.TokenSeconds
}
