package plan

import (
	"fmt"
	"math"
)

// Load is the sum of requests per second, including every attempt that a replica serves. Loads of classes add up. The
// second moments give the KV cache held: products of means can be several times too small on mixed traffic.
type Load struct {
	Requests float64
	Prompt   float64
	Cached   float64 // part of Prompt
	Output   float64

	PromptSquared float64 // Σ prompt²
	PromptFresh   float64 // Σ prompt · (prompt − cached)
	PromptOutput  float64 // Σ prompt · output
	OutputSquared float64 // Σ output²
}

// Plus is the sum of two loads.
func (l Load) Plus(o Load) Load { return l.add(1, o) }

// Times is the load at k times the rate of requests.
func (l Load) Times(k float64) Load { return Load{}.add(k, l) }

func (l Load) add(k float64, o Load) Load {
	l.Requests += k * o.Requests
	l.Prompt += k * o.Prompt
	l.Cached += k * o.Cached
	l.Output += k * o.Output
	l.PromptSquared += k * o.PromptSquared
	l.PromptFresh += k * o.PromptFresh
	l.PromptOutput += k * o.PromptOutput
	l.OutputSquared += k * o.OutputSquared
	return l
}

// KV is the tokens that requests hold at once, by Little's law. A request holds its prompt while it is computed at the
// prefill rate, then grows by a token every itl seconds:
//
//	Σ prompt · fresh / prefill + itl · (Σ prompt · output + Σ output² / 2)
//
// With an unknown prefill rate (0) the prefill takes no time.
func (l Load) KV(prefillTokensPerS, itl float64) float64 {
	kv := itl * (l.PromptOutput + l.OutputSquared/2)
	if prefillTokensPerS > 0 {
		kv += l.PromptFresh / prefillTokensPerS
	}
	return kv
}

// Running is the number of concurrent requests, by Little's law.
func (l Load) Running(prefillTokensPerS, itl float64) float64 {
	n := itl * l.Output
	if prefillTokensPerS > 0 {
		n += (l.Prompt - l.Cached) / prefillTokensPerS
	}
	return n
}

// CacheHit is the cached share of prompt tokens; 0 without prompts.
func (l Load) CacheHit() float64 {
	if l.Prompt == 0 {
		return 0
	}
	return l.Cached / l.Prompt
}

const (
	z95             = 1.6448536269514722 // the 0.95 quantile of the standard normal distribution
	maxTokens       = 1e9                // stated lengths
	maxRequestsPerS = 1e9                // stated rates
)

// Lengths is a lognormal distribution of token counts, by two percentiles.
type Lengths struct{ P50, P95 float64 }

// moments are the mean, P50·exp(σ²/2), and the mean of the squares, P50²·exp(2σ²).
func (d Lengths) moments() (mean, square float64) {
	if d.P50 == 0 {
		return 0, 0
	}
	s := math.Log(d.P95/d.P50) / z95
	return d.P50 * math.Exp(s*s/2), d.P50 * d.P50 * math.Exp(2*s*s)
}

// Stated is a class with stated rates and distributions. Prompt and output are assumed independent.
type Stated struct {
	RequestsPerS float64
	Prompt       Lengths
	Output       Lengths
	CacheHit     float64 // share of prompt tokens
}

// Load is the load of the class; errors name the invalid number.
func (s Stated) Load() (Load, error) {
	switch {
	case !(s.RequestsPerS > 0 && s.RequestsPerS <= maxRequestsPerS):
		return Load{}, fmt.Errorf("requests_per_s is %g: it must be above 0 and at most %g", s.RequestsPerS, maxRequestsPerS)
	case !(s.CacheHit >= 0 && s.CacheHit <= 1):
		return Load{}, fmt.Errorf("cache_hit is %g: it must be 0 to 1", s.CacheHit)
	}
	for _, d := range []struct {
		name string
		Lengths
	}{{"prompt", s.Prompt}, {"output", s.Output}} {
		if !(d.P50 >= 0 && d.P95 >= d.P50 && d.P95 < maxTokens) || d.P50 == 0 && d.P95 > 0 {
			return Load{}, fmt.Errorf("%s_p50 is %g and %s_p95 is %g: they must be 0 < p50 ≤ p95 < %g tokens", d.name, d.P50, d.name, d.P95, maxTokens)
		}
	}
	prompt, promptSquare := s.Prompt.moments()
	output, outputSquare := s.Output.moments()
	return Load{
		Requests: 1, Prompt: prompt, Cached: prompt * s.CacheHit, Output: output,
		PromptSquared: promptSquare, PromptFresh: promptSquare * (1 - s.CacheHit),
		PromptOutput: prompt * output, OutputSquared: outputSquare,
	}.Times(s.RequestsPerS), nil
}

// FromRates is a load from sums over requests: tokens a second, and the KV tokens held (NaN unknown). Outputs are
// assumed exponential and independent of prompts, which gives the ratios of second moments; the KV tokens give their
// size.
func FromRates(requests, prefill, cached, output, kv, prefillTokensPerS, itl float64) Load {
	if !(requests > 0) {
		return Load{}
	}
	prompt := prefill + cached
	l := Load{
		Requests: requests, Prompt: prompt, Cached: cached, Output: output,
		PromptSquared: prompt * prompt / requests, PromptFresh: prompt * prefill / requests,
		PromptOutput: prompt * output / requests, OutputSquared: 2 * output * output / requests,
	}
	if implied := l.KV(prefillTokensPerS, itl); kv > 0 && implied > 0 {
		k := kv / implied
		l.PromptSquared *= k
		l.PromptFresh *= k
		l.PromptOutput *= k
		l.OutputSquared *= k
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

func (c Change) partly(s float64) Change {
	between := func(x float64) float64 { return 1 + s*(x-1) }
	c.Rate, c.Prompt, c.Output, c.CacheHit = between(c.Rate), between(c.Prompt), between(c.Output), between(c.CacheHit)
	c.Retry *= s
	return c
}

// atOnce reports whether a change of supply comes at once, not over the ramp.
func (c Change) atOnce() bool { return c.Lost > 0 || c.Limits < 1 }

// apply changes a load; the result includes additional attempts.
func (c Change) apply(l Load) Load {
	before := l.CacheHit()
	hit := min(before*c.CacheHit, 1)
	fresh := l.PromptSquared * (1 - hit)
	if before > 0 && before < 1 {
		fresh = l.PromptFresh * (1 - hit) / (1 - before)
	}
	return Load{
		Requests: l.Requests,
		Prompt:   l.Prompt * c.Prompt,
		Cached:   l.Prompt * c.Prompt * hit,
		Output:   l.Output * c.Output,

		PromptSquared: l.PromptSquared * c.Prompt * c.Prompt,
		PromptFresh:   min(fresh, l.PromptSquared) * c.Prompt * c.Prompt,
		PromptOutput:  l.PromptOutput * c.Prompt * c.Output,
		OutputSquared: l.OutputSquared * c.Output * c.Output,
	}.Times(c.Rate * (1 + c.Retry))
}
