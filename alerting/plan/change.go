package plan

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

// part is a share s of the change.
func (c Change) part(s float64) Change {
	between := func(x float64) float64 { return 1 + s*(x-1) }
	c.Rate, c.Prompt, c.Output, c.CacheHit = between(c.Rate), between(c.Prompt), between(c.Output), between(c.CacheHit)
	c.Retry *= s
	return c
}

// apply changes a load; the result includes additional attempts.
func (c Change) apply(l Load) Load {
	hit := l.CacheHit()
	left := 0.0
	if hit > 0 && hit < 1 {
		left = (1 - min(hit*c.CacheHit, 1)) / (1 - hit) // of tokens not cached
	}
	fresh := l.PromptFresh * left
	if hit >= 1 || hit == 0 {
		fresh = l.PromptSquared * (1 - min(hit*c.CacheHit, 1))
	}
	k := c.Rate * (1 + c.Retry)
	return Load{
		Requests: l.Requests * k,
		Prompt:   l.Prompt * k * c.Prompt,
		Cached:   l.Prompt * min(hit*c.CacheHit, 1) * k * c.Prompt,
		Output:   l.Output * k * c.Output,

		PromptSquared: l.PromptSquared * k * c.Prompt * c.Prompt,
		PromptFresh:   min(fresh, l.PromptSquared) * k * c.Prompt * c.Prompt,
		PromptOutput:  l.PromptOutput * k * c.Prompt * c.Output,
		OutputSquared: l.OutputSquared * k * c.Output * c.Output,
	}
}
