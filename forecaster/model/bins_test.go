package model

import (
	"math"
	"testing"
)

// A week's memory is paid for day by day, and only where something is known.
func TestBinsGrowByTheDay(t *testing.T) {
	parts := func(h *History) (n int) {
		for _, part := range h.State().Bins {
			if part != nil {
				n++
			}
		}
		return n
	}
	h, start := NewHistory(), int64(29_000_000)/day*day
	for d := range int64(10) {
		for m := range int64(day) {
			y := float64(d)
			if d == 1 {
				y = math.NaN()
			}
			h.Push(start+d*day+m, y)
		}
		want := min(int(d)+1, ringBins/dayBins)
		if d > 0 && d < 9 { // the second day is unknown, and its place free until it is taken again
			want--
		}
		if got := parts(h); got != want {
			t.Errorf("after %d days bins of %d have memory, want %d", d+1, got, want)
		}
	}
	for d := range int64(10) {
		want := float64(d)
		if d < 2 {
			want = math.NaN() // no longer kept, or never known
		}
		if got := h.Bin(start + d*day + 700); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("a bin of day %d is %g, want %g", d, got, want)
		}
	}
}

func TestBinsRefuseAnotherShape(t *testing.T) {
	h := NewHistory()
	h.Push(day*20_000, 1)
	good := h.State()
	for name, change := range map[string]func(s *HistoryState){
		"too few days": func(s *HistoryState) { s.Bins = s.Bins[1:] },
		"a short day":  func(s *HistoryState) { s.Bins[3] = make([]byte, 7) },
	} {
		s := cloneState(good)
		s.Bins = append([][]byte(nil), s.Bins...)
		change(&s)
		if NewHistory().Restore(s) {
			t.Errorf("%s: taken over", name)
		}
	}
	if !NewHistory().Restore(cloneState(good)) {
		t.Error("a state of the right shape is refused")
	}
}
