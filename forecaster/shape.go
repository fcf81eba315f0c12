package forecaster

import (
	"math"

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
	Newest int64
	Minute [shapeMinutes]shapeSums
}

type shapeSums struct {
	At                                                        int64
	Requests, Retries, Prompt, Cached, PromptOfCached, Output float32
	Tenant                                                    string
}

func (s *shape) observe(minute int64, w *features.Window) {
	r := shapeSums{
		At: minute, Requests: float32(w.Requests), Retries: float32(w.Retries), Prompt: float32(w.PromptTokens),
		Cached: float32(w.CachedTokens), PromptOfCached: float32(w.PromptOfCachedKnown), Output: float32(w.OutputTokens),
	}
	if len(w.Tenants) > 0 {
		r.Tenant = w.Tenants[0].Name
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
		if r.Tenant != "" {
			t.Tenant = r.Tenant
		}
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

// cause compares the last ten minutes with those of an hour ago: the factor that grew load most, its size, and the
// heaviest tenant. The factor of cache is the hit ratio now. An empty cause means that there is nothing to compare.
func (s *shape) cause() (name string, factor float64, tenant string) {
	now, then := s.sum(0), s.sum(shapeBack)
	if now.Requests == 0 || then.Requests == 0 {
		return "", math.NaN(), now.Tenant
	}
	best := 0.0
	consider := func(cause string, growth, shown float64) {
		if growth > 0 && !math.IsInf(growth, 0) && math.Log(growth) > best {
			name, factor, best = cause, shown, math.Log(growth)
		}
	}
	rate := float64(now.Requests / then.Requests)
	consider(CauseRate, rate, rate)
	if then.Prompt > 0 {
		g := float64(now.Prompt/now.Requests) / float64(then.Prompt/then.Requests)
		consider(CausePrompt, g, g)
	}
	if then.Output > 0 {
		g := float64(now.Output/now.Requests) / float64(then.Output/then.Requests)
		consider(CauseOutput, g, g)
	}
	if now.PromptOfCached > 0 && then.PromptOfCached > 0 {
		hit, was := float64(now.Cached/now.PromptOfCached), float64(then.Cached/then.PromptOfCached)
		consider(CauseCache, (1-hit)/math.Max(1-was, 0.01), hit)
	}
	if share := float64(now.Retries / now.Requests); share > 0.1 {
		consider(CauseRetries, 1+share-float64(then.Retries/then.Requests), share)
	}
	return name, factor, now.Tenant
}
