package model

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The quantiles are those of how far the last value was off: of a random walk, normal ones that widen with the root of the
// lead, and of the largest of a span higher ones.
func TestLastErrorsAreThoseOfTheLastValue(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	x, h := NewLastErrors([][2]int{{1, 1}, {16, 16}, {15, 30}}), NewHistory()
	var q [NumLevels]float64
	const sigma = 3 // well above what the history rounds to
	y := 1000.0
	walk := func(int) float64 {
		y += sigma * r.NormFloat64()
		return y
	}
	feed(x, h, start, repeat(150, walk))
	if x.Distribution(h, 16, 16, &q) {
		t.Error("it speaks after 150 minutes")
	}
	feed(x, h, start+150, repeat(2000, walk))
	for _, tc := range []struct{ from, to int }{{1, 1}, {16, 16}} {
		if !x.Distribution(h, tc.from, tc.to, &q) {
			t.Fatal("it sleeps after a day")
		}
		for i, z := range [NumLevels]float64{-1.6449, -1.2816, -.6745, 0, .6745, .8416, 1.2816, 1.6449, 2.3263} {
			sd := sigma * math.Sqrt(float64(tc.to))
			if got := (q[i] - y) / sd; math.Abs(got-z) > .7 {
				t.Errorf("%d minutes ahead the %v quantile lies %.2f deviations off, not %.2f", tc.to, Levels[i], got, z)
			}
		}
	}
	median := q[3]
	if !x.Distribution(h, 15, 30, &q) || q[3] < median+sigma {
		t.Errorf("median of the largest of 15 to 30 minutes ahead: %v, of minute 16: %v", q[3], median)
	}
	if x.Distribution(h, 7, 7, &q) {
		t.Error("it speaks of a target that it was not made for")
	}
}
