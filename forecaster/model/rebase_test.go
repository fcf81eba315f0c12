package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A history whose level changed reads as one that was always at the new level: minutes, bins and averages; what came stays.
func TestRebasedHistoryWasAlwaysThere(t *testing.T) {
	const before, after = 3 * 1440, 65
	for _, ratio := range []float64{.2, .6, 3} {
		r := rand.New(rand.NewPCG(1, 2))
		h, always := NewHistory(), NewHistory()
		var came []float64
		for i := range before + after {
			y := math.Round(400 + 150*math.Sin(2*math.Pi*float64(i)/1440) + 40*r.NormFloat64())
			always.Push(start+int64(i), ratio*y)
			if i >= before {
				y *= ratio
			}
			came = append(came, y)
			h.Push(start+int64(i), y)
		}
		if !h.Rebase(Change{start + before, ratio, math.Sqrt(ratio)}) {
			t.Fatal("refused")
		}
		near := func(what string, got, want, off float64) {
			if !(math.Abs(got-want) <= off*want) {
				t.Errorf("times %.1f: %s is %v, not %v", ratio, what, got, want)
			}
		}
		for i := range 1500 {
			m := h.Newest - int64(i)
			near("a minute", h.At(m), always.At(m), .004)
			near("a minute as it came", h.Came(m), came[m-start], .001)
		}
		for m := h.Newest; m > start; m -= binMinutes {
			near("a bin", h.Bin(m), always.Bin(m), .004)
		}
		for i := range levelMinutes {
			near("a level", h.Level(i), always.Level(i), .02)
		}
		again := NewHistory()
		if !again.Restore(cloneState(h.State())) {
			t.Fatal("state refused")
		}
		if diff := cmp.Diff(h.State(), again.State()); diff != "" || again.At(start+before-1) != h.At(start+before-1) {
			t.Errorf("a restored history differs:\n%s", diff)
		}
	}
}

// Noise that does not grow with the level keeps its size, and what is zero in silence stays so.
func TestRebaseKeepsNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	h := NewHistory()
	for i := range 1500 {
		y := math.Max(0, 100+10*r.NormFloat64())
		switch {
		case i < 200:
			y = 0
		case i >= 1440:
			y = 400 + 20*r.NormFloat64() // of the root: a half, as before
		}
		h.Push(start+int64(i), y)
	}
	h.Rebase(Change{start + 1440, 4, 1})
	deviation := 0.0
	for i := 220; i < 1440; i++ {
		deviation += math.Pow(math.Sqrt(h.At(start+int64(i)))-20, 2) / 1220
	}
	if sd := math.Sqrt(deviation); sd < .45 || sd > .62 { // the noise of ten minutes' means is taken for level
		t.Errorf("roots stray by %.2f", sd)
	}
	if y := h.At(start + 100); y != 0 {
		t.Errorf("silence became %v", y)
	}
}

// A change that is undone is taken back, and changes are bounded.
func TestRebaseIsUndone(t *testing.T) {
	h := NewHistory()
	at := func(i int) float64 {
		if i >= 2000 && i < 2200 {
			return 30
		}
		return 100
	}
	for i := range 2300 {
		h.Push(start+int64(i), at(i))
		switch i {
		case 2060:
			h.Rebase(Change{start + 2000, .3, math.Sqrt(.3)})
		case 2260:
			h.Rebase(Change{start + 2200, 3.1, math.Sqrt(3.1)})
		}
	}
	if n := len(h.Changes()); n != 0 {
		t.Errorf("%d changes are left", n)
	}
	for i := 2299; i > 1000; i-- {
		if y := h.At(start + int64(i)); math.Abs(y-at(i)) > .1 {
			t.Fatalf("minute %d is %v", i, y)
		}
	}
	for i := range 2 * maxChanges {
		h.Rebase(Change{start + 2290 + int64(i)/2, 2, 1})
	}
	if n := len(h.Changes()); n > maxChanges {
		t.Errorf("%d changes", n)
	}
}
