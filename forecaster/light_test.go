package forecaster

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
)

func lightSeries(settle int) *light {
	return newLight(testKey, newShared(), observed{settle: settle, history: model.NewHistory()})
}

func lightForecast(t *testing.T, l *light) (f Forecast) {
	t.Helper()
	var at [numTargets]Quantiles
	if !l.distributions(&at) {
		t.Fatal("no forecast")
	}
	l.forecast(&f, &at)
	return f
}

// TestLightOnAwkwardSeries: quantiles are monotone and finite whatever comes, and a flat line is forecast flat.
func TestLightOnAwkwardSeries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func(i int) float64{
		"zero":         func(int) float64 { return 0 },
		"flat":         func(int) float64 { return 7 },
		"intermittent": func(int) float64 { return math.Max(0, 500*(r.Float64()-.95)) },
		"spikes":       func(i int) float64 { return 1 + 1e9*float64(i%97/96) },
		"unknown":      func(i int) float64 { return []float64{4, math.NaN()}[i/100%2] },
		"step":         func(i int) float64 { return []float64{10, 1e6, 0}[i/400%3] },
	}
	for name, shape := range shapes {
		l := lightSeries(0)
		for i := range 1500 {
			l.push(startMinute+int64(i), exactly(shape(i)))
			l.all.settle()
		}
		f := lightForecast(t, l)
		for h, q := range append(f.Minute[:], f.WindowMax) {
			for i := range q {
				if math.IsNaN(q[i]) || math.IsInf(q[i], 0) || q[i] < 0 || i > 0 && q[i] < q[i-1] {
					t.Fatalf("%s, minute %d: %v", name, h+1, q)
				}
				if want := shape(0); (name == "flat" || name == "zero") && math.Abs(q[i]-want) > 1e-4*want {
					t.Fatalf("%s, minute %d: %v", name, h+1, q)
				}
			}
		}
	}
}

// TestLightCovers: over many light series that share what they learn, quantiles cover what they say, in loud and quiet
// ones alike.
func TestLightCovers(t *testing.T) {
	const series, n, warm = 12, 10 * 1440, 3 * 1440
	all := newShared()
	var minute, peak [2]tally
	issued := [series][n]Forecast{}
	var truth [series][n]float64
	var ls [series]*light
	var ys [series]func(int) float64
	for c := range series {
		ls[c] = newLight(features.Key{Pool: "p", Class: fmt.Sprint(c)}, all, observed{history: model.NewHistory()})
		ys[c] = noisy(rand.New(rand.NewPCG(3, uint64(c))))
		if c%2 == 1 {
			rng, y := rand.New(rand.NewPCG(4, uint64(c))), ys[c] // most minutes are empty
			ys[c] = func(i int) float64 { return .01 * y(i) * float64(rng.IntN(4)/3) }
		}
	}
	for i := range n {
		for c, l := range ls {
			truth[c][i] = ys[c](i)
			l.push(startMinute+int64(i), exactly(truth[c][i]))
			if i >= warm && i%5 == 0 {
				issued[c][i] = lightForecast(t, l)
			}
		}
		all.settle()
	}
	for c := range ls {
		for i := warm; i+31 < n; i += 5 {
			f := &issued[c][i]
			minute[c%2].add(truth[c][i+20], &f.Minute[19], f.Last)
			peak[c%2].add(slices.Max(truth[c][i+15:i+31]), &f.WindowMax, f.Last)
		}
	}
	for k, kind := range []string{"loud", "quiet"} {
		for name, a := range map[string]*tally{"minute 20": &minute[k], "window maximum": &peak[k]} {
			for level, tolerance := range map[int]float64{L80: .06, L90: .04, L95: .03} {
				if share := a.below[level] / a.n; math.Abs(share-Levels[level]) > tolerance {
					t.Errorf("%s, %s: the %.0f %% quantile covers %.1f %%", kind, name, 100*Levels[level], 100*share)
				}
			}
			if a.err > .95*a.lastErr {
				t.Errorf("%s, %s: error against the last value is %.3f", kind, name, a.err/a.lastErr)
			}
		}
	}
}

// tally counts outcomes below quantiles, and absolute errors.
type tally struct {
	below           Quantiles
	n, err, lastErr float64
}

func (a *tally) add(y float64, q *Quantiles, last float64) {
	for i := range q {
		if y <= q[i] {
			a.below[i]++
		}
	}
	a.n++
	a.err += math.Abs(y - q[L50])
	a.lastErr += math.Abs(y - last)
}

// TestMovesKeepWhatIsKnown: a class that rises to a full series and falls back forecasts on from where it was, with its
// whole history; restored along the way it goes on to the same bytes.
func TestMovesKeepWhatIsKnown(t *testing.T) {
	f := New(Config{MaxClasses: 1, MaxLight: 5})
	rng := rand.New(rand.NewPCG(5, 6))
	weight := func(i int) float64 { // of b, in units of a
		if i > 600 && i < 750 {
			return 10
		}
		return .2
	}
	var again *Forecaster
	was, tiers, last := Forecast{}, "", tierPooled
	for i := range 3000 {
		ws := []features.Window{tokens("a", i, 6e4*math.Exp(.3*rng.NormFloat64())), tokens("b", i, 6e4*weight(i)*math.Exp(.3*rng.NormFloat64()))}
		f.Observe(ws, nil)
		if again != nil {
			again.Observe(ws, nil)
		}
		if i < minKnown {
			continue
		}
		var now Forecast
		p := f.pools[0]
		s := p.standings[1]
		if s.tier == tierLight {
			now = lightForecast(t, s.class.light[1])
		} else {
			s.class.series[1].forecast(&now)
		}
		if s.tier != last {
			tiers, last = tiers+fmt.Sprint(s.tier), s.tier
			if q, before := now.Minute[14], was.Minute[14]; i > minKnown && (q[L50] < .7*before[L50] || q[L50] > 1.4*before[L50] || now.Known != was.Known+1) {
				t.Errorf("minute %d: the median goes from %.0f to %.0f, known minutes from %d to %d", i, before[L50], q[L50], was.Known, now.Known)
			}
			again = restoredOf(t, f)
		}
		was = now
	}
	if want := "121"; tiers != want { // light, full, light
		t.Errorf("tiers %v, want %v", tiers, want)
	}
	if !bytes.Equal(bytesOf(t, f), bytesOf(t, again)) {
		t.Error("a restored forecaster goes on in another way")
	}
}

// TestTailIsInThePaths: light classes weigh in the pool's paths, which have the total's quantiles.
func TestTailIsInThePaths(t *testing.T) {
	f := New(Config{MaxClasses: 1, MaxLight: 50})
	names, classes := []string{}, map[string]func(int) float64{}
	for c := range 20 {
		names = append(names, fmt.Sprintf("c%02d", c))
		classes[names[c]] = noisy(rand.New(rand.NewPCG(7, uint64(c))))
	}
	pf := observePool(f, 700, classes, names...)
	if n := len(pf.Classes); n != 2 {
		t.Errorf("%d classes are put out, want a full and a light one", n)
	}
	total := pf.Of(features.DimRequests).Minute[19]
	if total[L50] < 15*pf.Classes[0].Minute[19][L50] {
		t.Errorf("the total's median is %v, a class's %v", total[L50], pf.Classes[0].Minute[19][L50])
	}
	above := 0
	for _, path := range pf.Paths.At[0] {
		if float64(path[19]) > total[L90] {
			above++
		}
	}
	if share := float64(above) / NumPaths; math.Abs(share-.1) > .02 {
		t.Errorf("%.3f of the paths lie above the 90 %% quantile", share)
	}
	names = nil
	for _, d := range f.Drivers("p", features.DimRequests, 30) {
		names = append(names, d.Class)
	}
	if len(names) != 20 {
		t.Errorf("drivers are %v", names)
	}
}
