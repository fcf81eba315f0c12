package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A fall is seen within the half hour, and narrows what is forecast of the level that is left; when the level returns, widths are
// what they were.
func TestLevelShiftsAreSeenAndForgotten(t *testing.T) {
	const day, fallen = 1440, 360
	r := rand.New(rand.NewPCG(1, 2))
	s := newSeries(testKey, 0)
	minute := startMinute
	run := func(minutes int, level float64) {
		for range minutes {
			s.push(minute, exactly(counted(r, level)))
			minute++
		}
	}
	run(day, 50)
	if s.shift.On {
		t.Fatalf("a level that stayed is taken for one that changed: %+v", s.shift)
	}
	run(35, 10)
	if !s.shift.On || !s.shift.Fell {
		t.Fatalf("half an hour after a fall to a fifth it is not seen: %+v", s.shift)
	}
	run(fallen-35, 10)
	if above := s.shift.Scale[windowMax][1]; !(above < -.1) {
		t.Errorf("six hours after a fall the window maximum's upper half is scaled by exp(%.2f)", above)
	}
	run(35, 50)
	if s.shift.On && s.shift.Fell {
		t.Errorf("half an hour after the level returned forecasts are as narrow as before: %+v", s.shift)
	}
}

// What a series does every day is no shift, however large.
func TestDailyJumpsAreNoLevelShifts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := newSeries(testKey, 0)
	seen := 0
	for i := range 6 * 1440 {
		level := 20.0
		if h := i % 1440 / 60; h >= 9 && h < 18 {
			level = 100
		}
		was := s.shift.On
		s.push(startMinute+int64(i), exactly(counted(r, level)))
		if s.shift.On && !was && i >= 3*1440 {
			seen++
		}
	}
	if seen > 2 {
		t.Errorf("in three days whose mornings and evenings are like those before, %d shifts are seen", seen)
	}
}

func TestScaledQuantilesStayInOrder(t *testing.T) {
	for _, x := range []halves{{-shiftMost, shiftMost}, {shiftMost, -shiftMost}, {shiftMost, shiftMost}} {
		s := levelShift{On: true}
		s.Scale[windowMax] = x
		for _, q := range []Quantiles{{}, {0, 0, 0, 1, 1, 1, 2, 3, 9}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {7, 7, 7, 7, 7, 7, 7, 7, 7}} {
			was := q
			s.scale(windowMax, &q)
			for i := range q {
				if math.IsNaN(q[i]) || i > 0 && q[i] < q[i-1]-1e-12 {
					t.Errorf("%v scaled by %v is %v", was, x, q)
				}
			}
			if math.Abs(q[L50]-was[L50]) > 1e-12 {
				t.Errorf("the median of %v became %g", was, q[L50])
			}
		}
	}
}
