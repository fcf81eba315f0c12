package plan

import "math"

// Change is the effect of a scenario on demand and supply. Factors of 1 and zeros change nothing; see [Same].
type Change struct {
	Rate     float64 `json:"rate"`      // requests a second
	Prompt   float64 `json:"prompt"`    // length of prompts; the cached share stays
	Output   float64 `json:"output"`    // length of outputs
	CacheHit float64 `json:"cache_hit"` // cached share of the prompt
	Retry    float64 `json:"retry"`     // additional attempts, as a share of the present ones, at the same cost
	Limits   float64 `json:"limits"`    // rate limits, quota and budget
	Lost     int     `json:"lost"`      // replicas
	Shift    float64 `json:"shift"`     // share of the requests of other classes that become like those of the heaviest class
	PutOff   int     `json:"put_off"`   // longest wait of work in minutes, as with a wider batch window: demand is a moving mean

	Long       float64 `json:"long"`        // share of the requests whose prompts get LongTokens, not cached
	LongTokens float64 `json:"long_tokens"` // tokens
}

// Same changes nothing.
var Same = Change{Rate: 1, Prompt: 1, Output: 1, CacheHit: 1, Limits: 1}

// part is a share s of the change.
func (c Change) part(s float64) Change {
	between := func(x float64) float64 { return 1 + s*(x-1) }
	c.Rate, c.Prompt, c.Output, c.CacheHit = between(c.Rate), between(c.Prompt), between(c.Output), between(c.CacheHit)
	c.Retry *= s
	c.Shift *= s
	c.Long *= s
	return c
}

// reduced divides the increase of load by a factor; decreases stay.
func (c Change) reduced(factor float64) Change {
	for _, f := range []*float64{&c.Rate, &c.Prompt, &c.Output} {
		*f = min(*f, 1+(*f-1)/factor)
	}
	c.CacheHit = max(c.CacheHit, 1+(c.CacheHit-1)/factor)
	c.Retry /= factor
	return c
}

// long gives a share of the requests a long prompt; their outputs stay.
func (c Change) long(l Load) Load {
	if c.Long == 0 {
		return l
	}
	short, n := 1-c.Long, c.LongTokens
	return Load{
		Requests: l.Requests, Prompt: short*l.Prompt + c.Long*n*l.Requests, Cached: short * l.Cached, Output: l.Output,
		PromptSquared: short*l.PromptSquared + c.Long*n*n*l.Requests, PromptFresh: short*l.PromptFresh + c.Long*n*n*l.Requests,
		PromptOutput: short*l.PromptOutput + c.Long*n*l.Output, OutputSquared: l.OutputSquared,
	}
}

// movingMean spreads the load of each minute evenly over the n minutes that begin with it. O(minutes).
func movingMean(loads []Load, n int) []Load {
	if n <= 1 {
		return loads
	}
	out := make([]Load, len(loads))
	var sum Load
	for i, l := range loads {
		sum = sum.Plus(l)
		if i >= n {
			sum = sum.Plus(loads[i-n].Times(-1))
		}
		out[i] = sum.Times(1 / float64(min(i+1, n)))
	}
	return out
}

// apply changes a load whose classes are mixed as in mix; the result includes additional attempts.
func (c Change) apply(l Load, mix mix) Load {
	l = c.long(mix.shift(l, c.Shift))
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

// mix is the mean load of a request of the heaviest class, and of the other classes.
type mix struct {
	heavy, light Load // of one request a second
	lightShare   float64
	ok           bool // there are at least two classes
}

// mixOf: the heaviest class is the one with the most KV-seconds a request.
func mixOf(classes []Class, prefill, itl float64) mix {
	var m mix
	best, heaviest := -1.0, -1
	for i, c := range classes {
		if c.Load.Requests > 0 {
			if each := c.Load.KV(prefill, itl) / c.Load.Requests; each > best {
				best, heaviest = each, i
			}
		}
	}
	if heaviest < 0 {
		return m
	}
	var others Load
	for i, c := range classes {
		if i != heaviest {
			others = others.Plus(c.Load)
		}
	}
	if others.Requests == 0 {
		return m
	}
	heavy := classes[heaviest].Load
	return mix{
		heavy: heavy.Times(1 / heavy.Requests), light: others.Times(1 / others.Requests),
		lightShare: others.Requests / (others.Requests + heavy.Requests), ok: true,
	}
}

// shift makes a share of the lighter requests as heavy as those of the heaviest class, limited to what l has.
func (m mix) shift(l Load, share float64) Load {
	if !m.ok || share == 0 {
		return l
	}
	moved := l.Requests * m.lightShare * share
	l = l.Plus(m.heavy.Times(moved)).Plus(m.light.Times(-moved))
	for _, v := range []*float64{&l.Prompt, &l.Cached, &l.Output, &l.PromptSquared, &l.PromptFresh, &l.PromptOutput, &l.OutputSquared} {
		*v = math.Max(*v, 0)
	}
	l.Cached = min(l.Cached, l.Prompt)
	return l
}
