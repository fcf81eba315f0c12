package forecaster

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// TestScoreAndAt: at is the inverse of score, up to the least distance between quantiles, and monotone.
func TestScoreAndAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a rootQuantiles
		sum := rapid.Float32Range(0, 100).Draw(t, "first")
		for i := range a {
			a[i] = sum
			sum += rapid.OneOf(rapid.Just(float32(0)), rapid.Float32Range(0, 50)).Draw(t, "width")
		}
		const least = 0.01
		z := rapid.Float64Range(-50, 600).Draw(t, "z")
		x := a.score(z, least)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Fatalf("score %v of %v on %v", x, z, a)
		}
		if got := a.at(x, least); math.Abs(got-z) > 1e-6*(1+math.Abs(z))+least {
			t.Fatalf("the score of %v is %v, at of it is %v on %v", z, x, got, a)
		}
		if y := a.at(x+0.1, least); !(y > a.at(x, least)-1e-9-least) {
			t.Fatalf("at falls from %v to %v after score %v", a.at(x, least), y, x)
		}
	})
}

// TestRootQuantilesAtLevels: at the normal scores of the levels, at gives the quantiles.
func TestRootQuantilesAtLevels(t *testing.T) {
	a := rootQuantiles{1, 2, 4, 8, 9, 10, 20, 30, 60}
	for i, x := range gaussian {
		if got := a.at(x, 1e-6); math.Abs(got-float64(a[i])) > 1e-5 {
			t.Errorf("level %v is at %v, want %v", Levels[i], got, a[i])
		}
	}
}

// TestTrackerOfWrongWidth: if outcomes spread twice as far as the distribution says, the tracked quantiles of their
// scores become twice the normal ones.
func TestTrackerOfWrongWidth(t *testing.T) {
	var a rootQuantiles
	for i, x := range gaussian {
		a[i] = float32(100 + x)
	}
	m := newTracker(300)
	const n = 20000
	for i := range n {
		u := (float64(i*7919%n) + .5) / n // every level once, in an order without pattern
		x := a.score(100+2*distuv.UnitNormal.Quantile(u), 1e-3)
		m.observe(x, x)
	}
	for i, x := range gaussian {
		if got := float64(m.Score[i]); math.Abs(got-2*x) > .35 {
			t.Errorf("the score at level %v is %.2f, want %.2f", Levels[i], got, 2*x)
		}
	}
}

// TestTrackerOfSilence: if the forecast is right about how often the outcome is zero, outcomes of zero do not change
// the tracked quantiles.
func TestTrackerOfSilence(t *testing.T) {
	a := rootQuantiles{0, 0, 0, 0, 0, 0, 3, 5, 9} // silent four times in five
	m := newTracker(300)
	for i := range 4000 {
		z := 0.0
		if i%5 == 4 { // the upper fifth, evenly
			z = a.at(distuv.UnitNormal.Quantile(.8+.2*(float64((i/5*37)%100)+.5)/100), 1e-3)
		}
		from, to := a.scoreRange(z, 1e-3)
		m.observe(from, to)
	}
	for i, x := range m.Score {
		if math.Abs(float64(x)-gaussian[i]) > .15 {
			t.Errorf("the score at level %v is %.2f, want %.2f", Levels[i], x, gaussian[i])
		}
	}
}
