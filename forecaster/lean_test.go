package forecaster

import (
	"math/rand/v2"
	"testing"
)

// A lean goes to whichever of two forecasts is nearer, and back when that changes; between two that are as good it does
// not go far, and it never leaves 0 to 1.
func TestLeanFollowsWhatIsNearer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	around := func(mean float64) (q Quantiles) {
		for i, z := range gaussian {
			q[i] = mean + z
		}
		return q
	}
	near, far := around(10), around(12)
	var l lean
	follow := func(n int, q, last *Quantiles) float32 {
		for range n {
			l.learn(10+r.NormFloat64(), 10, q, last)
			for _, by := range l.By {
				if by < 0 || by > 1 {
					t.Fatalf("it leans by %v", l.By)
				}
			}
		}
		return l.By[L50]
	}
	if by := follow(1000, &far, &near); by < .9 {
		t.Errorf("after a thousand outcomes it leans by %v towards what is nearer", by)
	}
	if by := follow(2000, &near, &far); by > .1 {
		t.Errorf("two thousand after that changed it still leans by %v", by)
	}
	l = lean{}
	if by := follow(3000, &near, &near); by != 0 {
		t.Errorf("between equals it leans by %v", by)
	}
}

// What came while a series was silent moves no calibration: nothing was said of it but zero, and nothing was wrong.
func TestSilenceMovesNoCalibration(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := newSeries(testKey, 0)
	run(s, 0, 600, func(int) float64 { return counted(r, 20) })
	run(s, 600, 2*Horizon, func(int) float64 { return 0 }) // the last forecasts made before
	was := s.mix[windowMax].Shift
	run(s, 600+2*Horizon, 1440, func(int) float64 { return 0 })
	if now := s.mix[windowMax].Shift; now != was {
		t.Errorf("a day of silence moved the offsets from %.4f to %.4f", was, now)
	}
}

// An intermittent series that has just begun has zero for its median where most minutes brought nothing.
func TestYoungIntermittentSeriesIsMostlyZero(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	s := newSeries(testKey, 0)
	run(s, 0, 40, func(i int) float64 {
		if i%4 > 0 {
			return 0
		}
		return 100 * r.ExpFloat64()
	})
	var f Forecast
	if s.forecast(&f); s.quiet() > 0 || f.Minute[19][L50] != 0 || f.Minute[19][L95] == 0 || f.WindowMax[L50] == 0 {
		t.Errorf("forecast as %v, and %v at most", f.Minute[19], f.WindowMax)
	}
}
