package forecaster

import (
	"cmp"
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
)

// CauseOther is growth without another cause, such as requests that hold their KV tokens for longer.
const CauseOther = "other"

// GrowthPart is the part of a pool's growth over the last hour, in a dimension's unit, that one class and cause
// explain. A decrease is negative. The part without a class sums up those that are not listed.
type GrowthPart struct {
	Class  string  `json:"class" cbor:"1,keyasint"`
	Cause  string  `json:"cause" cbor:"2,keyasint"`
	Amount float64 `json:"amount" cbor:"3,keyasint"`
}

// factor is one factor of a load, now and an hour ago.
type factor struct {
	cause     string
	now, then float64
	noise     float64 // standard error of the logarithm of now/then
	shown     float64 // size of the change, for people
}

// logMean is the logarithmic mean (a − b)/ln(a/b) of two positive numbers; a if they are equal.
func logMean(a, b float64) float64 {
	if math.Abs(a-b) < 1e-9*math.Max(a, b) {
		return a
	}
	return (a - b) / math.Log(a/b)
}

// decompose splits now − then, a product of factors, into a part for each factor, by the additive logarithmic mean
// Divisia index: L(now, then)·ln(factor now/factor then). It has no remainder and treats factors alike (Ang 2005, "The
// LMDI approach to decomposition analysis", Energy Policy 33, §3, doi:10.1016/j.enpol.2003.10.010). A factor that is
// unknown at one time has no part; the rest is CauseOther. A load that begins or ends is all due to the first factor.
func decompose(now, then float64, factors []factor) []GrowthPart {
	if !(now > 0 && then > 0) {
		return []GrowthPart{{Cause: factors[0].cause, Amount: now - then}}
	}
	weight, left := logMean(now, then), now-then
	var parts []GrowthPart
	for _, f := range factors {
		part := weight * math.Log(f.now/f.then)
		if math.IsNaN(part) || math.IsInf(part, 0) {
			continue
		}
		left -= part
		parts = append(parts, GrowthPart{Cause: f.cause, Amount: part})
	}
	return append(parts, GrowthPart{Cause: CauseOther, Amount: left})
}

// factors of a class's load of a dimension, an hour ago and now.
func (s *shape) factors(dimension string) []factor {
	out := []factor{s.compare(CauseRate, requestsOf, func(r *shapeSums) float32 { return r.Minutes })}
	prompt := s.compare(CausePrompt, func(r *shapeSums) float32 { return r.Prompt }, requestsOf)
	output := s.compare(CauseOutput, func(r *shapeSums) float32 { return r.Output }, requestsOf)
	switch dimension {
	case features.DimPrefill:
		cache := s.compare(CauseCache, func(r *shapeSums) float32 { return r.PromptOfCached - r.Cached }, func(r *shapeSums) float32 { return r.PromptOfCached })
		cache.shown = 1 - cache.now
		out = append(out, prompt, cache)
	case features.DimDecode:
		out = append(out, output)
	case features.DimKV:
		// A request holds its prompt and, on average, half of its output: the product of the two means splits as their
		// sum does.
		held, before := prompt.now+output.now/2, prompt.then+output.then/2
		if share := logMean(prompt.now, prompt.then) / logMean(held, before); share > 0 && share <= 1 {
			byPrompt := math.Pow(prompt.now/prompt.then, share)
			prompt.now, prompt.then, prompt.noise = byPrompt, 1, share*prompt.noise
			output.now, output.then, output.noise = held/before/byPrompt, 1, (1-share)*output.noise
			out = append(out, prompt, output)
		}
	}
	return out
}

// maxGrowthParts bounds the listed parts.
const maxGrowthParts = 6

// Growth explains the change of a pool's demand for a dimension over an hour, by class and cause, largest first. The
// parts sum up to the change of the classes with their own series. Nil if there is nothing to compare.
func (f *Forecaster) Growth(poolName, dimension string) []GrowthPart {
	var parts []GrowthPart
	for _, c := range f.pool(poolName).classes {
		for d := range dimensions {
			s := c.series[d]
			if dimensions[d].Name != dimension || s == nil {
				continue
			}
			h := s.history
			now := h.Mean(h.Newest-shapeSpan+1, h.Newest)
			then := h.Mean(h.Newest-shapeBack-shapeSpan+1, h.Newest-shapeBack)
			if math.IsNaN(now) || math.IsNaN(then) || now == then || min(len(c.shape.known(0)), len(c.shape.known(shapeBack))) < minMinutes {
				continue
			}
			for _, part := range decompose(now, then, c.shape.factors(dimension)) {
				part.Class = c.key.Class
				parts = append(parts, part)
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b GrowthPart) int { return cmp.Compare(math.Abs(b.Amount), math.Abs(a.Amount)) })
	if len(parts) <= maxGrowthParts {
		return parts
	}
	rest := GrowthPart{Cause: CauseOther}
	for _, part := range parts[maxGrowthParts:] {
		rest.Amount += part.Amount
	}
	return append(parts[:maxGrowthParts:maxGrowthParts], rest)
}
