package model

import (
	"math"
	"math/rand/v2"
	"testing"
)

const compactError = 1.0 / 2048

// TestCompact: expand returns values within the stated error, in the same order, and zero, one and unknown exactly.
func TestCompact(t *testing.T) {
	for _, y := range []float32{0, 1, 30, 2047, 1 << 38} {
		if got := expand(compact(y)); got != y {
			t.Errorf("%v becomes %v", y, got)
		}
	}
	if got := expand(compact(nan32)); got == got {
		t.Errorf("unknown becomes %v", got)
	}
	if least, most := expand(compact(1e-12)), expand(compact(float32(math.Inf(1)))); least != 0 || !(most > 5e11) || math.IsInf(float64(most), 0) {
		t.Errorf("out of range: %v and %v", least, most)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		x := math.Exp2(-23 + 60*r.Float64())
		y := x * (1 + .01*r.Float64())
		a, b := compact(float32(x)), compact(float32(y))
		if got := float64(expand(a)); math.Abs(got-x) > compactError*x || a > b {
			t.Fatalf("%v becomes %v, and has code %d; %v has %d", x, got, a, y, b)
		}
	}
}

// TestHalfHours: a half hour is the mean of its known minutes, also after amendments and gaps, and for any first
// minute.
func TestHalfHours(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, first := range []int64{start, start + 7} {
		h, truth := NewHistory(), map[int64]float64{}
		for m := first; m < first+3000; m += 1 + int64(r.IntN(20)/19*25) {
			y := 100 * r.ExpFloat64()
			if r.IntN(9) == 0 {
				y = math.NaN()
			}
			h.Push(m, y)
			if truth[m] = y; m > first+30 {
				again := m - int64(r.IntN(20))
				if _, ok := truth[again]; ok {
					truth[again] = 50
					h.Amend(again, 50)
				}
			}
		}
		for b := first / binMinutes; b <= h.Newest/binMinutes; b++ {
			sum, n := 0.0, 0.0
			for m := b * binMinutes; m < (b+1)*binMinutes; m++ {
				if y, ok := truth[m]; ok && !math.IsNaN(y) {
					sum, n = sum+y, n+1
				}
			}
			if got := h.halfHour(b); math.Abs(got-sum/n) > 2*compactError*got || math.IsNaN(got) != (n == 0) {
				t.Fatalf("from minute %d: half hour %d is %v, the mean of its minutes %v", first%binMinutes, b-first/binMinutes, got, sum/n)
			}
		}
	}
}

// TestAround: the mean around a minute is interpolated between half hours. On a ramp it is the value of the minute.
func TestAround(t *testing.T) {
	h := NewHistory()
	feed(h, start, repeat(3*1440, func(i int) float64 { return float64(i) }))
	for _, m := range []int64{2000, 2007, 2014, 2029} {
		if got := h.Around(start + m); math.Abs(got-float64(m)) > 2 {
			t.Errorf("minute %d: %v", m, got)
		}
	}
}
