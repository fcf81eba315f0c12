package forecaster

import (
	"math"
	"testing"
)

// TestSteadySpreadIgnoresOneMinute: a single minute a hundred times as large multiplies the deviation over 20 minutes, and
// leaves that of the typical minute about as it was; all of them rise with a burst that stays.
func TestSteadySpreadIgnoresOneMinute(t *testing.T) {
	var s spread
	feed := func(n int, level float64) spreads {
		for i := range n {
			s.add(level * (1 + .2*math.Sin(2.1*float64(i))))
		}
		return s.at(level)
	}
	before := feed(3000, 100)
	s.add(10_000)
	spike := s.at(100)
	if g := spike.Of[spreadShort] / before.Of[spreadShort]; g < 4 {
		t.Errorf("a spike multiplies the short deviation by %.1f", g)
	}
	if g := spike.Of[spreadSteady] / before.Of[spreadSteady]; g > 3 {
		t.Errorf("a spike multiplies the steady deviation by %.1f", g)
	}
	feed(200, 100)
	for i := range 15 {
		s.add([]float64{100, 10_000}[i%2])
	}
	burst := s.at(100)
	for unit := range numSpreads {
		if unit != spreadDay && burst.Of[unit] < 2*before.Of[unit] {
			t.Errorf("a quarter of an hour of bursts leaves spread %d at %v, from %v", unit, burst.Of[unit], before.Of[unit])
		}
	}
}
