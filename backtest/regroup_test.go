package backtest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// plantedParts are three days of parts, after one that models learn from.
func plantedParts(demand ...func(m int, draw *rand.Rand) float64) *Parts {
	p := &Parts{Pool: "p", Start: DefaultStart, From: minutesPerDay}
	for i, f := range demand {
		draw := rand.New(rand.NewPCG(1, uint64(i)))
		var values []float64
		for m := range 4 * minutesPerDay {
			values = append(values, f(m, draw))
		}
		p.Demand = append(p.Demand, values)
	}
	return p
}

// now and then a call of a class that is rare.
func rarely(m int, draw *rand.Rand) float64 {
	if draw.Float64() > .02*(1+math.Sin(float64(m)*2*math.Pi/minutesPerDay)) {
		return 0
	}
	return 50 * math.Exp(.5*draw.NormFloat64())
}

// wanders is a level that nobody can tell from its past, but the newest value.
func wanders() func(int, *rand.Rand) float64 {
	level := 0.0
	return func(_ int, draw *rand.Rand) float64 {
		level = .995*level + .05*draw.NormFloat64()
		return 600 * math.Exp(level)
	}
}

// everyTwoHours is a job that swells and ebbs.
func everyTwoHours(m int, draw *rand.Rand) float64 {
	return 500 * (1 + math.Sin(float64(m)*2*math.Pi/120)) * (1 + .02*draw.NormFloat64())
}

func TestRegroup(t *testing.T) {
	for name, c := range map[string]struct {
		parts          *Parts
		apart, noWorse bool
	}{
		"rare":               {plantedParts(rarely, rarely, rarely), false, true},
		"a job and a wander": {plantedParts(everyTwoHours, wanders()), true, false},
		"two of a kind": {plantedParts(func(m int, draw *rand.Rand) float64 {
			return 500 + 300*math.Sin(float64(m)*2*math.Pi/minutesPerDay) + 30*draw.NormFloat64()
		}, func(m int, draw *rand.Rand) float64 {
			return 250 + 150*math.Sin(float64(m)*2*math.Pi/minutesPerDay) + 15*draw.NormFloat64()
		}), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Regroup(t.Context(), c.parts, nil)
			if err != nil {
				t.Fatal(err)
			}
			apart, asOne := Mean(d.Apart), Mean(d.AsOne)
			t.Logf("apart %+v, as one %+v", apart, asOne)
			if want := 3 * minutesPerDay / scoreEvery; asOne.Origins < want-10 || asOne.Origins != apart.Origins {
				t.Errorf("%d and %d origins, want %d", apart.Origins, asOne.Origins, want)
			}
			if got := d.ApartIsBetter(1); got != c.apart {
				t.Errorf("apart is better: %t", got)
			}
			if got := d.AsOneIsNoWorse(); got != c.noWorse {
				t.Errorf("as one is no worse: %t", got)
			}
		})
	}
}

func TestRegroupEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Regroup(ctx, &Parts{Pool: "p", Start: time.Unix(0, 0), Demand: [][]float64{make([]float64, 2*minutesPerDay)}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// A minute without any known part is unknown, and is not scored; a part that alone is not known was silent.
func TestPartsSum(t *testing.T) {
	p := plantedParts(func(int, *rand.Rand) float64 { return 2 }, func(int, *rand.Rand) float64 { return 3 })
	p.Demand[0][7], p.Demand[0][8], p.Demand[1][8] = math.NaN(), math.NaN(), math.NaN()
	sum := p.sum()
	if sum[6] != 5 || sum[7] != 3 || !math.IsNaN(sum[8]) {
		t.Errorf("sums %v", sum[6:9])
	}
}
