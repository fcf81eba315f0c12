package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/forewarm/forewarm/forecaster/model"
)

// coverage counts how often outcomes were at or below a quantile: of single minutes 15 to 30 and of the window maximum.
type coverage struct {
	n, minute90, minute95, most90, most95 float64
	low                                   float64 // minutes below the 5 % quantile
}

func (c *coverage) add(f *Forecast, next []float64) {
	most := 0.0
	for h := WindowFrom; h <= WindowTo; h++ {
		y, q := next[h-1], &f.Minute[h-1]
		most = math.Max(most, y)
		c.minute90 += indicator(y <= q[L90]) / (WindowTo - WindowFrom + 1)
		c.minute95 += indicator(y <= q[L95]) / (WindowTo - WindowFrom + 1)
		c.low += indicator(y < q[L05]) / (WindowTo - WindowFrom + 1)
	}
	c.most90 += indicator(most <= f.WindowMax[L90])
	c.most95 += indicator(most <= f.WindowMax[L95])
	c.n++
}

func draw(n int, y func(int) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = y(i)
	}
	return out
}

// In the first hour of a series, from three minutes on, quantiles have about their coverage, for all kinds of series.
func TestCoverageInFirstHour(t *testing.T) {
	const each = 24
	var first, hour coverage
	for n, k := range kinds {
		for seed := range uint64(each) {
			y := draw(100, k.make(rand.New(rand.NewPCG(seed, uint64(n)))))
			s := newSeries(testKey, 0)
			for i := range 60 {
				s.push(startMinute+int64(i), exact(y[i]))
				if i+1 < minKnown || i > minKnown && i%20 != 0 {
					continue
				}
				var f Forecast
				if !s.forecast(&f) {
					t.Fatalf("%s: no forecast after %d minutes", k.name, i+1)
				}
				if s.history.Level(model.Level1d) == 0 {
					continue // only zeros so far: nothing says how much will come
				}
				hour.add(&f, y[i+1:])
				if i+1 == minKnown {
					first.add(&f, y[i+1:])
				}
			}
		}
	}
	for name, c := range map[string]coverage{"first forecast": first, "first hour": hour} {
		if between := (c.minute95 - c.low) / c.n; between < .84 {
			t.Errorf("%s: %.1f %% of the minutes lie between the 5 %% and the 95 %% quantile", name, 100*between)
		}
		if most := c.most95 / c.n; most < .85 {
			t.Errorf("%s: the 95 %% quantile of the window maximum covers %.1f %%", name, 100*most)
		}
	}
}

// indicator is 1 for true and 0 for false.
func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
