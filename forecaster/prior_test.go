package forecaster

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
)

// covering counts how often quantiles lay at or above what came: of single minutes 15 to 30 and of the window maximum.
type covering struct {
	n, minute90, minute95, most90, most95 float64
	low                                   float64 // minutes below the 5 % quantile
}

func (c *covering) add(f *Forecast, next []float64) {
	most := 0.0
	for h := WindowFrom; h <= WindowTo; h++ {
		y, q := next[h-1], &f.Minute[h-1]
		most = math.Max(most, y)
		c.minute90 += count(y <= q[L90]) / (WindowTo - WindowFrom + 1)
		c.minute95 += count(y <= q[L95]) / (WindowTo - WindowFrom + 1)
		c.low += count(y < q[L05]) / (WindowTo - WindowFrom + 1)
	}
	c.most90 += count(most <= f.WindowMax[L90])
	c.most95 += count(most <= f.WindowMax[L95])
	c.n++
}

func draw(n int, y func(int) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = y(i)
	}
	return out
}

// A series that has just begun, of whatever kind, is given a forecast after three minutes, wide enough to be right.
func TestFreshSeriesAreWideAndHonest(t *testing.T) {
	const each = 24
	var first, hour covering
	for n, k := range kinds {
		for seed := range uint64(each) {
			y := draw(100, k.make(rand.New(rand.NewPCG(seed, uint64(n)))))
			s := newSeries(testKey, 0)
			for i := range 60 {
				s.push(startMinute+int64(i), exactly(y[i]))
				if i+1 < minKnown || i > minKnown && i%20 != 0 {
					continue
				}
				var f Forecast
				if !s.forecast(&f) {
					t.Fatalf("%s: no forecast after %d minutes", k.name, i+1)
				}
				if s.history.Level(model.Level1d) == 0 {
					continue // nothing came yet, and nothing says how much will
				}
				hour.add(&f, y[i+1:])
				if i+1 == minKnown {
					first.add(&f, y[i+1:])
				}
			}
		}
	}
	for name, c := range map[string]covering{"first forecast": first, "first hour": hour} {
		if between := (c.minute95 - c.low) / c.n; between < .85 {
			t.Errorf("%s: %.1f %% of the minutes lie between the 5 %% and the 95 %% quantile", name, 100*between)
		}
		if most := c.most95 / c.n; most < .85 {
			t.Errorf("%s: the 95 %% quantile of the window maximum covers %.1f %%", name, 100*most)
		}
	}
}

// A class that joins a pool starts from what its siblings have learned: how far the largest of lumpy minutes stands out.
func TestNewClassLearnsFromSiblings(t *testing.T) {
	lumpy := func(seed uint64) func(int) float64 {
		return kindOf("heavy tokens").make(rand.New(rand.NewPCG(seed, 8)))
	}
	const past, now, joins = 900, 200, 8
	p := New(Config{}).pool("p")
	for n := range 3 {
		c := p.class(features.Key{Pool: "p", Class: string(rune('a' + n))})
		c.series[1] = newSeries(c.key, 0)
		run(c.series[1], 0, past, lumpy(uint64(n)))
	}
	var loss [2]float64 // lent, and alone
	for join := range uint64(joins) {
		y := draw(now+Horizon, lumpy(100+join))
		for k, s := range []*series{p.newSeries(testKey, 0), p.newSeries(testKey, 0)} {
			if k == 0 {
				p.lend(s, 1)
			}
			for i := range now {
				s.push(startMinute+past+int64(i), exactly(y[i]))
				if f := (Forecast{}); i%5 == 0 && s.forecast(&f) {
					loss[k] += MeanPinball(slices.Max(y[i+WindowFrom:i+WindowTo+1]), &f.WindowMax)
				}
			}
		}
	}
	if loss[0] > .99*loss[1] {
		t.Errorf("pinball of a new class's window maximum is %.0f with its siblings' experience, %.0f without", loss[0], loss[1])
	}
}

// A class that joins a pool in which silences end within minutes takes its own first silence for one of those, until it has
// shown otherwise.
func TestNewClassLearnsOfSilenceFromSiblings(t *testing.T) {
	var lender series
	lender.mix[midLead].Silence[0] = hurdle{Silent: 1000, Woke: 900, Above: .5}
	var m mixture
	alone := m.Silence.wakes(15, 15)
	m.borrow([]*series{&lender, &lender}, midLead)
	lent := m.Silence.wakes(15, 15)
	if h := m.Silence[0]; lent < 2*alone || math.Abs(h.Silent-lentSilence) > 1e-9 || h.Above != .5 {
		t.Errorf("it wakes with %.2f, %.2f alone, by %+v", lent, alone, h)
	}
	for range 600 {
		m.Silence[0].learn(false, 1)
	}
	if own := m.Silence.wakes(15, 15); own > alone {
		t.Errorf("after ten hours of silence it wakes with %.2f, %.2f at first", own, alone)
	}
}
