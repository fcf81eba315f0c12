package forecaster

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
)

// The tenant that rose is named, even if another is larger. Without a rise, the largest is named.
func TestAttribution(t *testing.T) {
	steady := map[string]float64{"acme": 1000, "beta": 300, "gamma": 200, "delta": 100, "epsilon": 50}
	more := func(name string, tokens float64) map[string]float64 { return map[string]float64{name: tokens} }
	for _, tt := range []struct {
		what  string
		added map[string]float64 // tokens a minute, in the last minutes
		last  int
		name  string
		rise  float64
	}{
		{"nothing", nil, 12, "acme", 0},
		{"a new tenant", more("newcorp", 800), 12, "newcorp", 1},
		{"a new tenant, just now", more("newcorp", 3000), 3, "newcorp", 1},
		{"the smallest", more("epsilon", 800), 12, "epsilon", 1},
		{"the largest", more("acme", 800), 12, "acme", 1},
		{"three by the same amount", map[string]float64{"acme": 300, "beta": 300, "gamma": 300}, 12, "acme", 0},
		{"two, one more than the other", map[string]float64{"beta": 600, "gamma": 200}, 12, "beta", .75},
		{"one falls", more("beta", -300), 12, "acme", 0},
	} {
		accounts := map[string]float64{}
		var a attribution
		const minutes = 90
		for m := range minutes {
			for name := range accounts {
				accounts[name] *= math.Exp2(-1.0 / 30)
			}
			for name, tokens := range steady {
				accounts[name] += tokens
			}
			if m >= minutes-tt.last {
				for name, tokens := range tt.added {
					accounts[name] += tokens
				}
			}
			r := &features.Ranking{}
			for name, weight := range accounts {
				r.Total += weight
				r.Top = append(r.Top, sketch.Count{Name: name, Weight: weight})
			}
			slices.SortFunc(r.Top, func(x, y sketch.Count) int { return cmp.Compare(y.Weight, x.Weight) })
			a.observe(startMinute+int64(m), r)
		}
		if a.Name != tt.name || math.Abs(a.Rise-tt.rise) > .1 {
			t.Errorf("%s: %s with %.2f of the rise, want %s with %.2f", tt.what, a.Name, a.Rise, tt.name, tt.rise)
		}
	}
}

// The first traffic of a pool does not count as a rise.
func TestAttributionOfFirstTraffic(t *testing.T) {
	var a attribution
	weight := 0.0
	for m := range int64(40) {
		weight = weight*math.Exp2(-1.0/30) + 100
		a.observe(startMinute+m, &features.Ranking{Top: []sketch.Count{{Name: "acme", Weight: weight}}, Total: weight})
		if a.Rise != 0 {
			t.Fatalf("after %d minutes: %+v", m, a)
		}
	}
}
