package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSilenceCountsAtOnce: a class that spoke every minute and fell silent is taken for silent after minutes, one that
// speaks every few minutes is not; after a quarter of an hour the median of the first is zero, and its 95 % quantile
// shrinks hour by hour. When it wakes it is forecast again, and not beyond what it was.
func TestSilenceCountsAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	dense := func(int) float64 { return 100 * math.Exp(.2*r.NormFloat64()) }
	quantiles := func(s *series) Quantiles {
		var f Forecast
		s.forecast(&f)
		return f.Minute[19]
	}
	s := newSeries(testKey, 0)
	run(s, 0, 120, dense)
	run(s, 120, 2, func(int) float64 { return 0 })
	if q := s.quiet(); q != 2 {
		t.Errorf("after two minutes of silence it is silent for %v", q)
	}
	run(s, 122, 13, func(int) float64 { return 0 })
	quarter := quantiles(s)
	if quarter[L50] != 0 {
		t.Errorf("after a quarter of an hour of silence the median is %v", quarter[L50])
	}
	run(s, 135, 240, func(int) float64 { return 0 })
	if q := quantiles(s); q[L95] > quarter[L95]/4 {
		t.Errorf("after four hours of silence the 95 %% quantile is %v, after a quarter of an hour %v", q[L95], quarter[L95])
	}
	run(s, 375, 10, dense)
	if q := quantiles(s); q[L50] < 10 || q[L99] > 1500 {
		t.Errorf("ten minutes after it woke it is forecast as %v", q)
	}

	sparse := newSeries(testKey, 0)
	run(sparse, 0, 600, func(i int) float64 { return 100 * float64(i%5/4) })
	run(sparse, 600, 4, func(int) float64 { return 0 })
	if q := sparse.quiet(); q != 0 {
		t.Errorf("a class that speaks every five minutes is silent after %v", q)
	}
}

// TestSilenceIsCalibrated: where more of what follows on silence lies in the tail than was thought, the quantiles above the
// mass rise until they cover what they say, and fall again when less does.
func TestSilenceIsCalibrated(t *testing.T) {
	const quiet, ahead, each = 20, 22, 20_000
	r := rand.New(rand.NewPCG(1, 3))
	thought := Quantiles{.05, .1, .3, .7, 1.4, 1.6, 2.3, 3, 4.6}
	var s silences
	for _, more := range []float64{4, .8} {
		var n, covered90, covered95 float64
		for i := range each {
			y := 0.0
			if u := r.Float64(); u < .4 {
				y = thought.At(1 - u/more)
			}
			q := thought
			s.clear(&q, quiet, ahead)
			if i >= each/2 {
				n++
				covered90 += count(y <= q[L90])
				covered95 += count(y <= q[L95])
			}
			s.cover(y, &q, quiet, ahead)
			s.of(quiet).learn(y > 0, 1)
		}
		if a, b := covered90/n, covered95/n; math.Abs(a-.9) > .02 || math.Abs(b-.95) > .02 {
			t.Errorf("%v times what was thought: the 90 %% quantile covers %.3f, the 95 %% quantile %.3f", more, a, b)
		}
	}
}

// TestWakesWithin: the longer a silence has lasted, and the nearer the target, the less likely it is that it ends before.
func TestWakesWithin(t *testing.T) {
	for _, c := range []struct{ near, far float64 }{
		{wakesWithin(15, 30), wakesWithin(30, 30)},
		{wakesWithin(15, 300), wakesWithin(15, 30)},
		{0, wakesWithin(1, 1000)},
		{wakesWithin(60, 2), 1},
	} {
		if !(c.near < c.far) {
			t.Errorf("%v is not below %v", c.near, c.far)
		}
	}
}

// TestLongSilenceIsBelieved: a class that spoke for a few minutes and has said nothing for five hours is forecast as nothing,
// up to the 99 % quantile: that it might speak again within the hour was wrong for hours already.
func TestLongSilenceIsBelieved(t *testing.T) {
	s := newSeries(testKey, 0)
	run(s, 0, 10, func(int) float64 { return 100 })
	run(s, 10, 320, func(int) float64 { return 0 })
	var f Forecast
	s.forecast(&f)
	if f.Minute[29] != (Quantiles{}) || f.WindowMax != (Quantiles{}) {
		t.Errorf("after five hours of silence it is forecast as %v, and %v at most", f.Minute[29], f.WindowMax)
	}
}
