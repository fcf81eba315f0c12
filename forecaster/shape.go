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
	Newest  int64
	Minute  [shapeMinutes]shapeSums
	Tenant  attribution
	Feature attribution
}

type shapeSums struct {
	_ struct{} `cbor:",toarray"`

	At                                                        int64
	Minutes                                                   float32 // that are known
	Requests, Retries, Prompt, Cached, PromptOfCached, Output float32
}

func (s *shape) observe(minute int64, w *features.Window) {
	r := shapeSums{At: minute}
	if w.Covered { // else nothing is known of the minute, and less was counted than came
		r = shapeSums{
			At: minute, Minutes: 1, Requests: float32(w.Requests), Retries: float32(w.Retries), Prompt: float32(w.PromptTokens),
			Cached: float32(w.CachedTokens), PromptOfCached: float32(w.PromptOfCachedKnown), Output: float32(w.OutputTokens - w.OutputRetried + w.OutputUnserved),
		}
	}
	if minute >= s.Newest {
		s.Tenant.observe(minute, w.Tenants)
		s.Feature.observe(minute, w.Features)
	}
	s.Newest = max(s.Newest, minute)
	s.Minute[minute%shapeMinutes] = r
}

// known are the known minutes of the shapeSpan minutes that end back minutes ago.
func (s *shape) known(back int64) (minutes []*shapeSums) {
	for m := max(s.Newest-back-shapeSpan+1, 0); m <= s.Newest-back; m++ {
		if r := &s.Minute[m%shapeMinutes]; r.At == m && r.Minutes > 0 {
			minutes = append(minutes, r)
		}
	}
	return minutes
}

// sum is the load of the shapeSpan minutes that end back minutes ago. Minutes that are not known count like the mean of the others.
func (s *shape) sum(back int64) (t shapeSums) {
	minutes := s.known(back)
	for _, r := range minutes {
		t.add(r)
	}
	if n := float32(len(minutes)); n > 0 {
		scale := shapeSpan / n
		t = shapeSums{
			Minutes: n, Requests: t.Requests * scale, Retries: t.Retries * scale, Prompt: t.Prompt * scale,
			Cached: t.Cached * scale, PromptOfCached: t.PromptOfCached * scale, Output: t.Output * scale,
		}
	}
	return t
}

// mean is a ratio of two sums over the shapeSpan minutes that end back minutes ago, and the standard error of its logarithm, by
// how far single minutes stray from it. NaN where too few minutes are known, or nothing came in them.
func (s *shape) mean(back int64, of, by func(*shapeSums) float32) (ratio, err float64) {
	minutes := s.known(back)
	var above, below, requests, squares float64
	for _, r := range minutes {
		above, below, requests = above+float64(of(r)), below+float64(by(r)), requests+float64(r.Requests)
	}
	if len(minutes) < leastMinutes || !(below > 0 && above > 0 && requests > 0) {
		return math.NaN(), math.NaN()
	}
	ratio = above / below
	for _, r := range minutes {
		off := float64(of(r)) - ratio*float64(by(r))
		squares += off * off
	}
	n := float64(len(minutes))
	return ratio, math.Sqrt(max(squares*n/(n-1)/(above*above), 1/requests))
}

// compare holds a ratio of now against that of an hour ago.
func (s *shape) compare(cause string, of, by func(*shapeSums) float32) factor {
	now, err := s.mean(0, of, by)
	then, before := s.mean(shapeBack, of, by)
	return factor{cause: cause, now: now, then: then, noise: math.Hypot(err, before), shown: now / then}
}

// The causes a Driver can name.
const (
	CauseRate    = "rate"
	CauseMix     = "mix" // the class has a larger part of the pool's requests, at the cost of others or because it is new
	CausePrompt  = "prompt_length"
	CauseOutput  = "output_length"
	CauseCache   = "cache"
	CauseRetries = "retries"
)

// What a change must amount to before it counts as a cause.
const (
	leastMinutes = 5    // known, of either span that is compared
	leastGrowth  = 1.1  // factor of the load
	leastSigmas  = 4.   // standard errors of the logarithm
	leastHitLoss = 0.1  // of the hit ratio, absolute
	leastRetries = 0.15 // share of attempts that are retries
	leastShare   = 0.05 // of the pool's demand, for a class that is new
)

// cause compares the last ten minutes with those of an hour ago: what grew the load of a dimension most, and by how
// much. Its size is a factor for rates and lengths, the hit ratio now for the cache, and the share of
// attempts that are retries for those. An empty cause means that nothing changed by more than chance, or that there is nothing to
// compare.
func (s *shape) cause(dimension string) (name string, size float64) {
	best := math.Log(leastGrowth)
	for _, f := range append(s.factors(dimension), s.retries()) {
		growth, enough := math.Log(f.now/f.then), true
		switch f.cause {
		case CauseCache:
			enough = f.now-f.then >= leastHitLoss
		case CauseRetries:
			enough = f.shown >= leastRetries
		}
		if enough && growth >= best && growth >= leastSigmas*f.noise {
			name, size, best = f.cause, f.shown, growth
		}
	}
	return name, size
}

// retries compares the attempts a call.
func (s *shape) retries() factor {
	f := s.compare(CauseRetries, func(r *shapeSums) float32 { return r.Requests + r.Retries }, requestsOf)
	f.shown = 1 - 1/f.now
	return f
}

func requestsOf(r *shapeSums) float32 { return r.Requests }

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
