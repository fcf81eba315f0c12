package forecaster

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/features"
)

// grown is a class whose requests, prompts, hit ratio and outputs changed an hour ago from then to now.
func grown(then, now [4]float64) *shape {
	s := &shape{}
	for m := range int64(shapeMinutes) {
		x := then
		if m >= shapeMinutes-shapeSpan {
			x = now
		}
		w := features.Window{Covered: true, Requests: x[0], PromptTokens: x[0] * x[1], PromptOfCachedKnown: x[0] * x[1], CachedTokens: x[0] * x[1] * x[2], OutputTokens: x[0] * x[3]}
		s.observe(m, &w)
	}
	return s
}

// loadOf is the load of a dimension, for such a class.
func loadOf(dimension string, x [4]float64) float64 {
	switch dimension {
	case features.DimPrefill:
		return x[0] * x[1] * (1 - x[2])
	case features.DimDecode:
		return x[0] * x[3]
	case features.DimKV:
		return x[0] * (x[1] + x[3]/2)
	}
	return x[0]
}

func TestGrowthIsSplitByCause(t *testing.T) {
	base := [4]float64{100, 1000, .5, 200}
	tests := []struct {
		name, dimension string
		now             [4]float64
		want            map[string]float64 // shares of the growth
	}{
		{"twice the requests", features.DimPrefill, [4]float64{200, 1000, .5, 200}, map[string]float64{CauseRate: 1}},
		{"twice the prompt, requests on plan", features.DimPrefill, [4]float64{100, 2000, .5, 200}, map[string]float64{CausePrompt: 1}},
		{"prompts doubled and the cache collapsed", features.DimPrefill, [4]float64{100, 2000, 0, 200}, map[string]float64{CausePrompt: .5, CauseCache: .5}},
		{"outputs half as long again", features.DimDecode, [4]float64{100, 1000, .5, 300}, map[string]float64{CauseOutput: 1}},
		{"a class that began", features.DimRequests, [4]float64{300, 1000, .5, 200}, map[string]float64{CauseRate: 1}},
		{"prompts and outputs hold KV", features.DimKV, [4]float64{100, 1200, .5, 400}, map[string]float64{CausePrompt: 2. / 3, CauseOutput: 1. / 3}},
	}
	for _, tt := range tests {
		then, now := loadOf(tt.dimension, base), loadOf(tt.dimension, tt.now)
		for _, part := range decompose(now, then, grown(base, tt.now).factors(tt.dimension)) {
			if share := part.Amount / (now - then); math.Abs(share-tt.want[part.Cause]) > .02 {
				t.Errorf("%s: %s explains %.3f, want %.3f", tt.name, part.Cause, share, tt.want[part.Cause])
			}
		}
	}
}

// TestGrowthAddsUp: whatever changes, and whatever is unknown, parts are finite and add up.
func TestGrowthAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (x [4]float64) {
			for i, most := range []float64{1e4, 1e5, 1, 1e4} {
				x[i] = rapid.OneOf(rapid.Float64Range(0, most), rapid.Just(0.)).Draw(t, name)
			}
			return x
		}
		then, now := draw("then"), draw("now")
		for _, dimension := range []string{features.DimPrefill, features.DimDecode, features.DimKV, features.DimRequests} {
			// Demand need not be what the shape says: it may have been corrected.
			a, b := loadOf(dimension, then)*rapid.Float64Range(.5, 2).Draw(t, "other"), loadOf(dimension, now)
			sum := 0.0
			for _, part := range decompose(b, a, grown(then, now).factors(dimension)) {
				sum += part.Amount
			}
			if !(math.Abs(sum-(b-a)) <= 1e-6*math.Max(1, math.Max(a, b))) {
				t.Fatalf("%s: parts add up to %g, want %g", dimension, sum, b-a)
			}
		}
	})
}
