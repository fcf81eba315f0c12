package forewarm

import (
	"testing"
	"time"
)

// TestReadyMinutes: a minute counts only when as many replicas were ready at its start as at its end, and both are known.
func TestReadyMinutes(t *testing.T) {
	var r readyMinutes
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	for _, x := range [][2]int{{0, 3}, {1, 3}, {2, 4}, {3, 4}, {5, 4}, {6, 0}, {7, 0}, {70, 5}, {71, 5}} {
		r.note(at(x[0]), x[1])
		switch x[0] {
		case 7:
			for minute, want := range []float64{3, 0, 4, 0, 0, 0, 0, 0} {
				if got := r.during(at(minute)); got != want {
					t.Errorf("minute %d: %g replicas, want %g", minute, got, want)
				}
			}
		case 71:
			for minute, want := range map[int]float64{2: 0, 6: 0, 66: 0, 69: 0, 70: 5, 71: 0, 200: 0} {
				if got := r.during(at(minute)); got != want {
					t.Errorf("later, minute %d: %g replicas, want %g", minute, got, want)
				}
			}
		}
	}
}
