package forecaster

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/internal/value"
)

// Minutes: the last shapeSpan are compared with those that ended shapeBack ago.
const (
	shapeSpan    = 10
	shapeBack    = 60
	shapeMinutes = shapeBack + shapeSpan // kept
)

// shape is the recent composition of a class's load: the number of requests, and what they are like.
type shape struct {
	Newest  int64
	Minute  [shapeMinutes]shapeSums
	Tenant  attribution
	Feature attribution
}

type shapeSums struct {
	_ struct{} `cbor:",toarray"`

	At                             int32   // minute since 1970
	Minutes                        float32 // known
	Requests, Retries              float32
	Prompt, Cached, PromptOfCached float32 // tokens; PromptOfCached is the prompts whose cached tokens are known
	Output                         float32 // tokens
}

func (s *shape) observe(minute int64, w *features.Window) {
	if minute <= s.Newest-shapeMinutes {
		return
	}
	r := shapeSums{At: int32(minute)}
	if w.Covered { // else the minute is unknown, and the count incomplete
		r.Minutes = 1
		r.Requests, r.Retries = float32(w.Requests), float32(w.Retries)
		r.Prompt, r.Cached, r.PromptOfCached = float32(w.PromptTokens), float32(w.CachedTokens), float32(w.PromptOfCachedKnown)
		r.Output = float32(w.OutputTokens - w.OutputRetried + w.OutputUnserved)
	}
	if minute >= s.Newest {
		s.Tenant.observe(minute, w.Tenants)
		s.Feature.observe(minute, w.Features)
	}
	s.Newest = max(s.Newest, minute)
	s.Minute[minute%shapeMinutes] = r
}

// add adds a load times a weight.
func (s *shapeSums) add(o *shapeSums, weight float32) {
	s.Minutes = max(s.Minutes, o.Minutes)
	s.Requests += o.Requests * weight
	s.Retries += o.Retries * weight
	s.Prompt += o.Prompt * weight
	s.Cached += o.Cached * weight
	s.PromptOfCached += o.PromptOfCached * weight
	s.Output += o.Output * weight
}

// cacheHit is the share of prompt tokens that were cached; NaN if it is unknown, or too few minutes are known.
func (s *shapeSums) cacheHit() float64 {
	if s.Minutes < minMinutes {
		return math.NaN()
	}
	return value.Share(float64(s.Cached), float64(s.PromptOfCached))
}

// known are the known minutes of the shapeSpan minutes that end back minutes ago.
func (s *shape) known(back int64) (minutes []*shapeSums) {
	for m := max(s.Newest-back-shapeSpan+1, 0); m <= s.Newest-back; m++ {
		if r := &s.Minute[m%shapeMinutes]; int64(r.At) == m && r.Minutes > 0 {
			minutes = append(minutes, r)
		}
	}
	return minutes
}

// sum is that of the shapeSpan minutes that end back minutes ago. Unknown minutes count as the mean of the others.
func (s *shape) sum(back int64) (t shapeSums) {
	minutes := s.known(back)
	n := float32(len(minutes))
	for _, r := range minutes {
		t.add(r, shapeSpan/n)
	}
	t.Minutes = n
	return t
}

// mean is a ratio of two sums over the shapeSpan minutes that end back minutes ago, and the standard error of its
// logarithm from the residuals of single minutes. NaN if too few minutes are known, or a sum is zero.
func (s *shape) mean(back int64, of, by func(*shapeSums) float32) (ratio, err float64) {
	minutes := s.known(back)
	var above, below, requests, squares float64
	for _, r := range minutes {
		above, below, requests = above+float64(of(r)), below+float64(by(r)), requests+float64(r.Requests)
	}
	if len(minutes) < minMinutes || !(below > 0 && above > 0 && requests > 0) {
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

// compare compares a ratio now with an hour ago.
func (s *shape) compare(cause string, of, by func(*shapeSums) float32) factor {
	now, err := s.mean(0, of, by)
	then, before := s.mean(shapeBack, of, by)
	return factor{cause: cause, now: now, then: then, noise: math.Hypot(err, before), shown: now / then}
}

// The causes a Driver can name.
const (
	CauseRate    = "rate"
	CauseMix     = "mix" // the class has a larger share of the pool's requests, or is new
	CausePrompt  = "prompt_length"
	CauseOutput  = "output_length"
	CauseCache   = "cache"
	CauseRetries = "retries"
)

// Least sizes of a change that counts as a cause.
const (
	minMinutes = 5    // known, of both spans
	minGrowth  = 1.1  // factor of the load
	minSigmas  = 4.   // standard errors of the logarithm
	minHitLoss = 0.1  // of the hit ratio, absolute
	minRetries = 0.15 // share of attempts that are retries
	minShare   = 0.05 // of the pool's demand, for a new class
)

// factor is one factor of a load, now and an hour ago.
type factor struct {
	cause     string
	now, then float64
	noise     float64 // standard error of the logarithm of now/then
	shown     float64 // size of the change, for people
}

func (s *shape) factors(dimension string) []factor {
	rate := s.compare(CauseRate, requestsOf, func(r *shapeSums) float32 { return r.Minutes })
	attempts := s.compare(CauseRetries, func(r *shapeSums) float32 { return r.Requests + r.Retries }, requestsOf)
	attempts.shown = 1 - 1/attempts.now
	out := []factor{rate, attempts}
	prompt := s.compare(CausePrompt, func(r *shapeSums) float32 { return r.Prompt }, requestsOf)
	output := s.compare(CauseOutput, func(r *shapeSums) float32 { return r.Output }, requestsOf)
	switch dimension {
	case features.DimPrefill:
		uncached := func(r *shapeSums) float32 { return r.PromptOfCached - r.Cached }
		cache := s.compare(CauseCache, uncached, func(r *shapeSums) float32 { return r.PromptOfCached })
		cache.shown = 1 - cache.now
		out = append(out, prompt, cache)
	case features.DimDecode:
		out = append(out, output)
	case features.DimKV:
		// A request holds its prompt and, on average, half of its output. Each of them counts by its part of the change.
		held, before := prompt.now+output.now/2, prompt.then+output.then/2
		prompt.now, prompt.then, prompt.noise = 1+(prompt.now-prompt.then)/before, 1, prompt.noise*prompt.then/before
		output.now, output.then, output.noise = held/before/prompt.now, 1, output.noise*output.then/2/before
		out = append(out, prompt, output)
	}
	return out
}

// cause is what raised the load of a dimension most, comparing the last ten minutes with an hour ago, and its size: a
// factor for rates and lengths, the hit ratio now for the cache, the share of attempts for retries. It is empty if no
// change is significant, or there is nothing to compare.
func (s *shape) cause(dimension string) (name string, size float64) {
	best := math.Log(minGrowth)
	for _, f := range s.factors(dimension) {
		growth, enough := math.Log(f.now/f.then), true
		switch f.cause {
		case CauseCache:
			enough = f.now-f.then >= minHitLoss
		case CauseRetries:
			enough = f.shown >= minRetries
		}
		if enough && growth >= best && growth >= minSigmas*f.noise {
			name, size, best = f.cause, f.shown, growth
		}
	}
	return name, size
}

func requestsOf(r *shapeSums) float32 { return r.Requests }

const (
	minRankingAge = 15  // minutes; rankings compared are at most about twice as old
	fullRanking   = 10  // names
	minRising     = 0.1 // of the tokens a minute before
	minRise       = 0.5 // share of a rise
)

// attribution names the tenant or feature behind a class's tokens: the one with most of a recent rise, else the
// heaviest. Its share of the tokens is Share ± Margin; Rise is its share of the rise, 0 if no one has minRise.
type attribution struct {
	Name                string
	Share, Margin, Rise float64

	Since      int64 // minute of the first ranking
	Then, Next rankingAt
}

// rankingAt is a ranking at the end of a minute.
type rankingAt struct {
	At      int64
	Ranking features.Ranking
}

// observe takes the newest ranking. O(names).
func (a *attribution) observe(minute int64, r *features.Ranking) {
	a.Name, a.Share, a.Margin = r.First()
	a.Rise = 0
	if a.Name == "" {
		return
	}
	if a.Since == 0 {
		a.Since = minute
	}
	if a.Next.At == 0 || minute-a.Next.At >= minRankingAge {
		a.Then, a.Next = a.Next, rankingAt{minute, *r}
		a.Next.Ranking.Top = slices.Clone(r.Top)
	}
	if a.Then.At <= a.Since { // one minute is too little to compare with
		return
	}
	if i, rise := a.fastestGrowing(minute, r); rise >= minRise {
		a.Name, a.Share, a.Margin = r.Name(i)
		a.Rise = min(rise, 1)
	}
}

// weight is that of a name; its upper bound if it is not listed: in a full ranking, the least listed weight.
func (s *rankingAt) weight(name string) float64 {
	top := s.Ranking.Top
	if i := slices.IndexFunc(top, func(c sketch.Count) bool { return c.Name == name }); i >= 0 {
		return top[i].Weight - top[i].Error/2
	}
	if len(top) < fullRanking {
		return s.Ranking.Floor
	}
	return top[len(top)-1].Weight
}

// fastestGrowing is the index of the name whose tokens a minute rose most since a.Then, and its share of the whole
// rise; 0 if the rise is small. Weights decay, so what a name received since is its weight minus the rest of its old
// one; a.Since limits how much a weight can hold.
func (a *attribution) fastestGrowing(minute int64, r *features.Ranking) (most int, share float64) {
	fade := math.Exp2(-float64(features.Minute) / float64(features.RankingHalfLife))
	held := func(minutes int64) float64 { return (1 - math.Pow(fade, float64(minutes))) / (1 - fade) }
	left := math.Pow(fade, float64(minute-a.Then.At))
	before, since := held(a.Then.At-a.Since+1), held(minute-a.Then.At)
	rise := func(now, then float64) float64 { return (now-then*left)/since - then/before }
	whole := rise(r.Total, a.Then.Ranking.Total)
	if !(whole > minRising*a.Then.Ranking.Total/before) {
		return 0, 0
	}
	for i := range r.Top {
		c := &r.Top[i]
		if part := rise(c.Weight-c.Error/2, a.Then.weight(c.Name)) / whole; part > share {
			most, share = i, part
		}
	}
	return most, share
}
