package model

import (
	"math"
	"math/rand/v2"
	"testing"
)

func newRegression() *Regression {
	r := &Regression{Leads: []int{1, 5, 15, 30, 60}, From: 15, To: 30}
	r.Keep(61)
	return r
}

// TestRegressionLearnsWhatALevelCannot: of a load that reverts to its mean within half an hour, and of one that climbs
// and falls every day alike, the regression comes to be nearer by a tenth than the present level is.
func TestRegressionLearnsWhatALevelCannot(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ar := 0.0
	for _, load := range []struct {
		name string
		at   func(i int) float64
	}{
		{"reverting", func(int) float64 {
			ar = .97*ar + r.NormFloat64()
			z := 40 + ar
			return z * z
		}},
		{"daily", func(i int) float64 {
			z := 40 + 30*math.Sin(2*math.Pi*float64(i)/240)*math.Sin(2*math.Pi*float64(i)/1440) + r.NormFloat64()
			return z * z
		}},
	} {
		const n, lead = 5 * 1440, 30
		ys := repeat(n+lead, load.at)
		x, h := newRegression(), NewHistory()
		own, level := 0.0, 0.0
		for i := range n {
			feed(x, h, start+int64(i), ys[i:i+1])
			if i > n/2 {
				own += math.Abs(x.Forecast(h, lead) - ys[i+lead])
				level += math.Abs(h.Level(Level10m) - ys[i+lead])
			}
		}
		if own > .9*level {
			t.Errorf("%s: error of the regression is %.2f of the level's", load.name, own/level)
		}
	}
}

// TestRegressionSurvivesWhatIsRare: after days of silence and a lone burst of a million times the usual load it says
// nothing beyond what was ever seen, and is back to usual within an hour.
func TestRegressionSurvivesWhatIsRare(t *testing.T) {
	x, h := newRegression(), NewHistory()
	r := rand.New(rand.NewPCG(3, 4))
	usual := func(int) float64 { return 5 + r.Float64() }
	ys := append(repeat(2*1440, func(int) float64 { return 0 }), repeat(4*1440, usual)...)
	ys = append(append(ys, 5e6, 5e6), repeat(120, usual)...)
	for i, y := range ys {
		feed(x, h, start+int64(i), []float64{y})
		for _, lead := range []int{1, 15, 60} {
			if f := x.Forecast(h, lead); !(f >= 0 && f <= 1.5*5e6) {
				t.Fatalf("minute %d: %v ahead by %d", i, f, lead)
			}
		}
	}
	if f := x.Forecast(h, 15); f > 100 {
		t.Errorf("two hours after the burst it says %v", f)
	}
}

// TestRegressionForgetsNoRidge: features that never move keep the gain bounded, however long the regression runs.
func TestRegressionForgetsNoRidge(t *testing.T) {
	x, h := newRegression(), NewHistory()
	r := rand.New(rand.NewPCG(5, 6))
	feed(x, h, start, repeat(40*1440, func(i int) float64 { return math.Round(3 * r.Float64()) }))
	for i := range numFeatures {
		// A ridge that is kept holds each variance below what it started with, over the least size of a feature.
		if v := x.gram[i*numFeatures+i]; !(v > 0 && v <= 1/(regressionRidge*.05)+1e-9) {
			t.Errorf("after forty days feature %d has variance %v", i, v)
		}
	}
}
