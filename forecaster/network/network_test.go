package network

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/forewarm/forewarm/forecaster/model"
)

const startMinute = int64(28_396_800) // a midnight

// history is a history of n minutes.
func history(n int, y func(i int) float64) *model.History {
	h := model.NewHistory()
	for i := range n {
		h.Push(startMinute+int64(i), y(i))
		h.Settle(h.Newest)
	}
	return h
}

// noisy is a rate with a daily shape, times scale.
func noisy(scale float64) func(i int) float64 {
	r := rand.New(rand.NewPCG(1, 2))
	return func(i int) float64 {
		z := 30 + 10*math.Sin(2*math.Pi*float64(i)/1440) + 3*r.NormFloat64()
		return scale * z * z
	}
}

// TestExtremeHistories: for all histories, features are within bounds, and quantiles are finite and in order.
func TestExtremeHistories(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	nan := math.NaN()
	for name, y := range map[string]func(i int) float64{
		"noisy":        noisy(1),
		"tiny":         noisy(1e-12),
		"huge":         noisy(1e12),
		"intermittent": func(int) float64 { return max(0, 500*(r.Float64()-.95)) },
		"spikes":       func(i int) float64 { return 1 + 1e9*float64(i%97/96) },
		"gaps":         func(i int) float64 { return []float64{4, nan, 5}[i/100%3] },
		"step":         func(i int) float64 { return []float64{10, 1e6, 0}[i/400%3] },
		"by 10 min":    func(i int) float64 { return float64((i / 10 * 7919) % 13) },
		"one burst":    func(i int) float64 { return map[bool]float64{true: 1e6}[i == 900] },
	} {
		for _, n := range []int{1, 2, 3, 20, 200, 1000, 1500, 12000} {
			h := history(n, y)
			in, ok := NewInput(h)
			if !ok {
				continue
			}
			for j, x := range in.X {
				if x != x || x < -12 || x > 12 {
					t.Fatalf("%s after %d minutes: feature %d is %v", name, n, j, x)
				}
			}
			var q Quantiles
			Fitted().Forecast(&in, &q)
			for k := range q {
				for i, z := range q[k] {
					if z != z || math.IsInf(float64(z), 0) || i > 0 && z < q[k][i-1] {
						t.Fatalf("%s after %d minutes: target %d is %v", name, n, k, q[k])
					}
				}
			}
		}
	}
}

// TestGroups: the inputs of a group are those that its method fills.
func TestGroups(t *testing.T) {
	var v view
	if !v.read(history(3000, noisy(1))) {
		t.Fatal("no input from 3000 minutes")
	}
	f := filler{v: &v, x: new([NumFeatures]float32)}
	for i, fill := range []func(*filler){
		(*filler).levels, (*filler).minutes, (*filler).spreads, (*filler).silence, (*filler).seasons, (*filler).moves, (*filler).age,
	} {
		if fill(&f); f.n != Groups[i].to {
			t.Errorf("%d features after %s, Groups says %d", f.n, Groups[i].Name, Groups[i].to)
		}
	}
}

// TestInputAllocatesNothing: NewInput needs 105 KiB of working memory. An allocation for each series would double the
// time of a tick of ten thousand classes.
func TestInputAllocatesNothing(t *testing.T) {
	h := history(3000, noisy(1))
	if n := testing.AllocsPerRun(10, func() { NewInput(h) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// There is no input from a history that is empty, unknown, flat or silent.
func TestNoInput(t *testing.T) {
	for name, y := range map[string]func(i int) float64{
		"flat":    func(int) float64 { return 7.1 },
		"zero":    func(int) float64 { return 0 },
		"unknown": func(int) float64 { return math.NaN() },
		"silent":  func(i int) float64 { return float64(max(0, 500-i)) },
	} {
		if _, ok := NewInput(history(3000, y)); ok {
			t.Errorf("there is an input from a history that is %s", name)
		}
	}
	if _, ok := NewInput(model.NewHistory()); ok {
		t.Error("there is an input from an empty history")
	}
}

// TestUnits: a series in another unit has the same features, and the same forecast in its unit.
func TestUnits(t *testing.T) {
	for _, n := range []int{5, 90, 1600, 11000} {
		one, _ := NewInput(history(n, noisy(1)))
		other, ok := NewInput(history(n, noisy(1<<20)))
		if !ok {
			t.Fatalf("no input from %d minutes", n)
		}
		for j := range one.X {
			if d := one.X[j] - other.X[j]; d > 1e-3 || d < -1e-3 {
				t.Errorf("%d minutes: feature %d is %v, in another unit %v", n, j, one.X[j], other.X[j])
			}
		}
		var q, p Quantiles
		Fitted().Forecast(&one, &q)
		Fitted().Forecast(&other, &p)
		for k := range q {
			for i := range q[k] {
				if d := float64(p[k][i]/(1<<10)-q[k][i]) / one.Spread; math.Abs(d) > 1e-3 {
					t.Errorf("%d minutes, target %d: %v in one unit, %v in another", n, k, q[k], p[k])
				}
			}
		}
	}
}

// TestCoverageOfNoise: for noise around a level, 90 % of the outcomes are within the 5 % and the 95 % quantile.
func TestCoverageOfNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	y := func(int) float64 { z := 30 + 2*r.NormFloat64(); return z * z }
	h := model.NewHistory()
	inside, of := 0.0, 0.0
	var issued []Quantiles
	for i := range 2000 {
		v := y(i)
		h.Push(startMinute+int64(i), v)
		h.Settle(h.Newest)
		if i >= 60+18 {
			q := issued[len(issued)-18][7]
			of++
			if z := float32(math.Sqrt(v)); z > q[0] && z < q[7] {
				inside++
			}
		}
		in, _ := NewInput(h)
		var q Quantiles
		Fitted().Forecast(&in, &q)
		issued = append(issued, q)
	}
	if share := inside / of; math.Abs(share-.9) > .06 {
		t.Errorf("%.1f %% are within the 5 %% and the 95 %% quantile", 100*share)
	}
}

// TestSameOutputsAsTrainer: the network has the same outputs as in the trainer, for features that the trainer chose.
func TestSameOutputsAsTrainer(t *testing.T) {
	b, err := os.ReadFile("testdata/outputs.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Features  [NumFeatures]float32
		Quantiles Quantiles
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	for i, c := range cases {
		var q Quantiles
		Fitted().Forecast(&Input{Spread: 1, X: c.Features}, &q)
		for k := range q {
			for l, z := range q[k] {
				if want := c.Quantiles[k][l]; math.Abs(float64(z-want)) > 1e-4*(1+math.Abs(float64(want))) {
					t.Errorf("case %d, target %d, quantile %d: %v, in the trainer %v", i, k, l, z, want)
				}
			}
		}
	}
}

func TestDecodeDamagedWeights(t *testing.T) {
	b := slices.Clone(fitted)
	if _, err := Decode(b); err != nil {
		t.Fatal(err)
	}
	b[100] ^= 1
	if _, err := Decode(b); err == nil {
		t.Error("damaged weights were accepted")
	}
	if _, err := Decode(b[:50]); err == nil {
		t.Error("a truncated file was accepted")
	}
}

func BenchmarkNewInput(b *testing.B) {
	h := history(11000, noisy(1))
	for b.Loop() {
		if _, ok := NewInput(h); !ok {
			b.Fatal("no input")
		}
	}
}

func BenchmarkForecast(b *testing.B) {
	in, _ := NewInput(history(11000, noisy(1)))
	var q Quantiles
	for b.Loop() {
		Fitted().Forecast(&in, &q)
	}
}
