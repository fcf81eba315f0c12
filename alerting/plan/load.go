package plan

import "fmt"

// Load is the sum of requests per second, including every attempt that a replica serves.
type Load struct {
	Requests float64
	Prompt   float64
	Cached   float64 // part of Prompt
	Output   float64
	// Spread is the KV cache that requests hold, divided by what they would hold with prompts of one length and
	// exponentially distributed outputs. It is above 1 if lengths vary more.
	Spread float64
}

// KV is the number of tokens that all requests hold, by Little's law. A request holds its prompt while that is computed
// at the prefill rate, and then one more token every itl seconds. Prefill of an unknown rate (0) takes no time.
func (l Load) KV(prefillTokensPerS, itl float64) float64 {
	if l.Requests == 0 {
		return 0
	}
	held := itl * l.Output * (l.Prompt + l.Output)
	if prefillTokensPerS > 0 {
		held += l.Prompt * (l.Prompt - l.Cached) / prefillTokensPerS
	}
	return l.Spread * held / l.Requests
}

// Running is the number of concurrent requests, by Little's law.
func (l Load) Running(prefillTokensPerS, itl float64) float64 {
	n := itl * l.Output
	if prefillTokensPerS > 0 {
		n += (l.Prompt - l.Cached) / prefillTokensPerS
	}
	return n
}

// Bounds of stated rates and lengths.
const (
	maxTokens       = 1e9 // of a request
	maxRequestsPerS = 1e9
)

// Stated is a class with stated rates and mean lengths, in tokens.
type Stated struct {
	RequestsPerS, Prompt, Output float64
	CacheHit                     float64 // share of prompt tokens
}

// Load is the load of the class; errors name the invalid number.
func (s Stated) Load() (Load, error) {
	switch {
	case !(s.RequestsPerS > 0 && s.RequestsPerS <= maxRequestsPerS):
		return Load{}, fmt.Errorf("requests-per-s is %g: it must be above 0 and at most %g",
			s.RequestsPerS, maxRequestsPerS)
	case !(s.CacheHit >= 0 && s.CacheHit <= 1):
		return Load{}, fmt.Errorf("cache-hit is %g: it must be 0 to 1", s.CacheHit)
	case !(s.Prompt >= 0 && s.Prompt < maxTokens && s.Output >= 0 && s.Output < maxTokens):
		return Load{}, fmt.Errorf("prompt is %g and output is %g: they must be at least 0 and below %g",
			s.Prompt, s.Output, maxTokens)
	}
	prompt, output := s.RequestsPerS*s.Prompt, s.RequestsPerS*s.Output
	return Load{Requests: s.RequestsPerS, Prompt: prompt, Cached: prompt * s.CacheHit, Output: output, Spread: 1}, nil
}

// FromRates is a load from sums over all requests: requests and tokens per second, and the KV tokens that they hold,
// which give the spread (NaN if unknown).
func FromRates(requests, prefill, cached, output, kv, prefillTokensPerS, itl float64) Load {
	if !(requests > 0) {
		return Load{}
	}
	l := Load{Requests: requests, Prompt: prefill + cached, Cached: cached, Output: output, Spread: 1}
	if even := l.KV(prefillTokensPerS, itl); kv > 0 && even > 0 {
		l.Spread = kv / even
	}
	return l
}

// Change is the effect of a scenario on demand and supply. Factors of 1 and zeros change nothing; see [Same].
type Change struct {
	Rate     float64 `json:"rate"`      // requests a second
	Prompt   float64 `json:"prompt"`    // length of prompts; the cached share stays
	Output   float64 `json:"output"`    // length of outputs
	CacheHit float64 `json:"cache_hit"` // cached share of the prompt
	Retry    float64 `json:"retry"`     // additional attempts, as a share of the present ones, at the same cost
	Limits   float64 `json:"limits"`    // rate limits, quota and budget
	Lost     int     `json:"lost"`      // replicas
}

// Same changes nothing.
var Same = Change{Rate: 1, Prompt: 1, Output: 1, CacheHit: 1, Limits: 1}

// partly is the part s of a change, 0 for none to 1 for all of it.
func (c Change) partly(s float64) Change {
	between := func(x float64) float64 { return 1 + s*(x-1) }
	c.Rate, c.Prompt, c.Output, c.CacheHit = between(c.Rate), between(c.Prompt), between(c.Output), between(c.CacheHit)
	c.Retry *= s
	return c
}

// atOnce reports whether a change of supply comes at once, not over the ramp.
func (c Change) atOnce() bool { return c.Lost > 0 || c.Limits < 1 }

// apply returns the load l after the change, with the additional attempts.
func (c Change) apply(l Load) Load {
	rate := c.Rate * (1 + c.Retry)
	hit := 0.0
	if l.Prompt > 0 {
		hit = min(l.Cached/l.Prompt*c.CacheHit, 1)
	}
	l.Requests *= rate
	l.Prompt *= rate * c.Prompt
	l.Cached = l.Prompt * hit
	l.Output *= rate * c.Output
	return l
}
