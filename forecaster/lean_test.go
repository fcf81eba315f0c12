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

// What follows on silence gives way to the last value apart from the rest: where too little is said of how silences end, the
// answer in silence leans and says so, and it does not lean where something comes.
func TestLeansInSilence(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	s, next := newSeries(testKey, 0), 0
	cycle := func(minutes int, low bool) { // an hour of which all but so many are silent
		for i := range 60 {
			y := 0.0
			if i < minutes {
				y = 100 + 20*r.Float64()
			}
			s.push(startMinute+int64(next), exactly(y))
			next++
			for k := range s.mix {
				if low {
					s.mix[k].Silence[0].Above = mostAbove
				}
			}
		}
	}
	for range 36 {
		cycle(20, true)
	}
	m := &s.mix[windowMax]
	if quiet := s.quiet(); quiet == 0 {
		t.Fatal("it is not silent")
	}
	if l := m.Lean.of(1); l.By[L50] < .5 || l.By[L95] < .5 {
		t.Errorf("in silence it leans by %.2f", l.By)
	}
	if l := m.Lean.of(0); l.most() {
		t.Errorf("where something comes it leans by %.2f", l.By)
	}
	width := s.spreads()
	p := s.points(windowMax, &width)
	last, q := m.expert(lastExpert, &p), s.distribution(windowMax, &p)
	if q[L95] < last[L95]/2 {
		t.Errorf("says %.1f of the window maximum, the last value %.1f", q, last)
	}

	was := m.Lean[0].Seen
	for range 24 {
		cycle(0, false)
	}
	if taught := m.Lean[0].Seen - was; taught > WindowTo {
		t.Errorf("a day of silence taught the lean of what is not silent %v outcomes", taught)
	}
	var f Forecast
	if s.forecast(&f); f.WindowMax[L80] != 0 || f.Minute[29][L90] != 0 {
		t.Errorf("after a day of silence it is forecast as %v, and %v at most", f.Minute[29], f.WindowMax)
	}
}
