package forecaster

import (
	"math"
	"testing"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
)

// shapeOf is the shape of a class with the same sums in each minute an hour ago, and in each minute now.
func shapeOf(then, now shapeSums) *shape {
	s := &shape{}
	for m := startMinute - 80; m < startMinute; m++ {
		r := then
		if m >= startMinute-shapeSpan {
			r = now
		}
		w := features.Window{
			Covered: true, Requests: float64(r.Requests), Retries: float64(r.Retries), PromptTokens: float64(r.Prompt),
			CachedTokens: float64(r.Cached), PromptOfCachedKnown: float64(r.PromptOfCached), OutputTokens: float64(r.Output),
		}
		s.observe(m, &w)
	}
	return s
}

func TestCause(t *testing.T) {
	base := shapeSums{Requests: 100, Retries: 2, Prompt: 102_000, PromptOfCached: 102_000, Cached: 91_800, Output: 20_400}
	with := func(change func(*shapeSums)) shapeSums { s := base; change(&s); return s }
	scaled := with(func(s *shapeSums) { // three times the requests, each as before
		s.Requests, s.Retries, s.Prompt, s.PromptOfCached, s.Cached, s.Output = 300, 6, 306_000, 306_000, 275_400, 61_200
	})
	storm := with(func(s *shapeSums) { s.Retries = 100 }) // every request is retried once
	tests := map[string]struct {
		now       shapeSums
		dimension string
		cause     string
		size      float64
	}{
		"nothing":                {base, features.DimKV, "", 0},
		"rate":                   {scaled, features.DimPrefill, CauseRate, 3},
		"prompts twice as long":  {with(func(s *shapeSums) { s.Prompt, s.PromptOfCached, s.Cached = 204_000, 204_000, 183_600 }), features.DimPrefill, CausePrompt, 2},
		"longer prompts, decode": {with(func(s *shapeSums) { s.Prompt, s.PromptOfCached, s.Cached = 204_000, 204_000, 183_600 }), features.DimDecode, "", 0},
		"outputs longer":         {with(func(s *shapeSums) { s.Output *= 1.5 }), features.DimDecode, CauseOutput, 1.5},
		"cache collapses":        {with(func(s *shapeSums) { s.Cached = 30_600 }), features.DimPrefill, CauseCache, .3},
		"half a point of cache":  {with(func(s *shapeSums) { s.Cached = 91_290 }), features.DimPrefill, "", 0},
		"retries":                {storm, features.DimPrefill, CauseRetries, .5},
		"a few retries":          {with(func(s *shapeSums) { s.Retries = 8 }), features.DimPrefill, "", 0},
	}
	for name, x := range tests {
		cause, size := shapeOf(base, x.now).cause(x.dimension)
		if cause != x.cause || math.Abs(size-x.size) > .01 {
			t.Errorf("%s: %q %.2f, want %q %.2f", name, cause, size, x.cause, x.size)
		}
	}
	if cause, size := shapeOf(shapeSums{}, base).cause(features.DimKV); cause != "" || size != 0 {
		t.Errorf("a new class: %q %v", cause, size)
	}
}

// The tenant and the feature are the largest of the newest minute. Amended minutes do not change them.
func TestShapeTenantAndFeature(t *testing.T) {
	ranked := func(name string, weight float64) *features.Ranking {
		return &features.Ranking{Top: []sketch.Count{{Name: name, Weight: weight, Error: 10}}, Total: 200, Floor: 10}
	}
	s := &shape{}
	s.observe(startMinute+1, &features.Window{Tenants: ranked("acme", 125), Features: ranked("search", 45)})
	s.observe(startMinute, &features.Window{Tenants: ranked("early", 200)}) // an amended minute
	if a := &s.Tenant; a.Name != "acme" || a.Share != .6 || a.Margin != .025 || a.Rise != 0 {
		t.Errorf("%+v", a)
	}
	if a := &s.Feature; a.Name != "search" || a.Share != .2 || a.Margin != .025 || a.Rise != 0 {
		t.Errorf("%+v", a)
	}
}
