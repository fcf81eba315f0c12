package forecaster

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
)

// shapeMinutes is how far back the shape of a class is kept: the last ten minutes are compared with the ten minutes of
// an hour before.
const (
	shapeMinutes = 80
	shapeSpan    = 10
	shapeBack    = 60
)

// shape is the recent make-up of a class's load, to tell what drives it: the number of requests, or what they are like.
type shape struct {
	Newest  int64
	Minute  [shapeMinutes]shapeSums
	Tenant  attribution
	Feature attribution
}

type shapeSums struct {
	_ struct{} `cbor:",toarray"`

	At                                                        int64
	Requests, Retries, Prompt, Cached, PromptOfCached, Output float32
}

func (s *shape) observe(minute int64, w *features.Window) {
	r := shapeSums{
		At: minute, Requests: float32(w.Requests), Retries: float32(w.Retries), Prompt: float32(w.PromptTokens),
		Cached: float32(w.CachedTokens), PromptOfCached: float32(w.PromptOfCachedKnown), Output: float32(w.OutputTokens - w.OutputRetried + w.OutputUnserved),
	}
	if minute >= s.Newest {
		s.Tenant.observe(minute, w.Tenants)
		s.Feature.observe(minute, w.Features)
	}
	s.Newest = max(s.Newest, minute)
	s.Minute[minute%shapeMinutes] = r
}

// sum adds up the span minutes that end back minutes ago.
func (s *shape) sum(back int64) (t shapeSums) {
	for m := s.Newest - back - shapeSpan + 1; m <= s.Newest-back; m++ {
		if m < 0 {
			continue
		}
		r := &s.Minute[m%shapeMinutes]
		if r.At != m {
			continue
		}
		t.Requests += r.Requests
		t.Retries += r.Retries
		t.Prompt += r.Prompt
		t.Cached += r.Cached
		t.PromptOfCached += r.PromptOfCached
		t.Output += r.Output
	}
	return t
}

// The causes a Driver can name.
const (
	CauseRate    = "rate"
	CausePrompt  = "prompt_length"
	CauseOutput  = "output_length"
	CauseCache   = "cache"
	CauseRetries = "retries"
)

// What a change must amount to before it counts as a cause.
const (
	leastGrowth  = 1.1  // factor of a rate or a length
	leastHitLoss = 0.1  // of the hit ratio, absolute
	leastRetries = 0.15 // share of attempts that are retries
)

// concerns says which causes load a dimension.
var concerns = map[string][]string{
	features.DimRequests: {CauseRate, CauseRetries},
	features.DimPrefill:  {CauseRate, CausePrompt, CauseCache, CauseRetries},
	features.DimDecode:   {CauseRate, CauseOutput, CauseRetries},
	features.DimKV:       {CauseRate, CausePrompt, CauseOutput, CauseRetries},
}

// cause compares the last ten minutes with those of an hour ago: what grew the load of a dimension most, and by how
// much. Its size is a factor for rates and lengths, the hit ratio now for the cache, and the share of
// attempts that are retries for those. An empty cause means that nothing changed enough, or that there is nothing to
// compare.
func (s *shape) cause(dimension string) (name string, size float64) {
	now, then := s.sum(0), s.sum(shapeBack)
	if now.Requests == 0 || then.Requests == 0 {
		return "", math.NaN()
	}
	best := 1.0
	consider := func(cause string, enough bool, growth, shown float64) {
		if enough && growth > best && !math.IsInf(growth, 0) && slices.Contains(concerns[dimension], cause) {
			name, size, best = cause, shown, growth
		}
	}
	attempts, before := float64(now.Requests+now.Retries), float64(then.Requests+then.Retries)
	rate := float64(now.Requests / then.Requests)
	consider(CauseRate, rate >= leastGrowth, rate, rate)
	if then.Prompt > 0 {
		g := float64(now.Prompt) / float64(now.Requests) / (float64(then.Prompt) / float64(then.Requests))
		consider(CausePrompt, g >= leastGrowth, g, g)
	}
	if then.Output > 0 {
		g := float64(now.Output) / float64(now.Requests) / (float64(then.Output) / float64(then.Requests))
		consider(CauseOutput, g >= leastGrowth, g, g)
	}
	if now.PromptOfCached > 0 && then.PromptOfCached > 0 {
		hit, was := float64(now.Cached/now.PromptOfCached), float64(then.Cached/then.PromptOfCached)
		consider(CauseCache, was-hit >= leastHitLoss, (1-hit)/math.Max(1-was, 0.01), hit)
	}
	again, was := float64(now.Retries)/attempts, float64(then.Retries)/before
	consider(CauseRetries, again >= leastRetries, (1-was)/math.Max(1-again, 0.01), again)
	return name, size
}

// Computed is the share of the pool's prompt tokens of the last ten minutes that were not served from a cache, at least one in a
// hundred; 1 where that is not known.
func (pf *PoolForecast) Computed() float64 {
	for i := range pf.Total {
		if now := &pf.Total[i].Basis.Now; now.PromptOfCached > 0 && now.Cached >= 0 {
			return min(max(1-float64(now.Cached/now.PromptOfCached), 0.01), 1)
		}
	}
	return 1
}
