package forecaster

import (
	"math/rand/v2"
	"testing"
)

// If most minutes are silent, the 90 % quantile is often zero, and an outcome of zero is at or below it. So plain
// coverage is at least the share of silent minutes. With the zeros shared out (sharedOut) it is the nominal level.
func TestCoverageOfSilentSeries(t *testing.T) {
	const warm, n, seeds = 2 * 1440, 3 * 1440, 6
	for _, tc := range []struct {
		name  string
		share float64 // of the minutes with demand
	}{{"one minute in thirty", 1. / 30}, {"one minute in seven", 1. / 7}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var plain, shared, minutes float64
			for seed := range uint64(seeds) {
				r := rand.New(rand.NewPCG(seed, 91))
				y := draw(n+WindowTo, func(int) float64 {
					if r.Float64() >= tc.share {
						return 0
					}
					return summed(r, 2, 800, .7)
				})
				s := newSeries(testKey, 0)
				for i := range n {
					s.push(startMinute+int64(i), exact(y[i]))
					var f Forecast
					if i < warm || i%7 != 0 || !s.forecast(&f) {
						continue
					}
					for h := WindowFrom; h <= WindowTo; h++ {
						plain += indicator(y[i+h] <= f.Minute[h-1][L90])
						shared += sharedOut(y[i+h], &f.Minute[h-1], L90)
						minutes++
					}
				}
			}
			t.Logf("the 90 %% quantile covers %.1f %%, with zeros shared out %.1f %%", 100*plain/minutes, 100*shared/minutes)
			if x := shared / minutes; x < .88 || x > .92 {
				t.Errorf("with zeros shared out the 90 %% quantile covers %.1f %%", 100*x)
			}
		})
	}
}
