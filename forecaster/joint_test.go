package forecaster

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forewarm/forewarm/features"
)

// The largest minutes and the means of the paths of a pool's total have their nominal coverage. The classes share a
// part of their noise, and the noise is correlated over minutes.
func TestCoverageOfPaths(t *testing.T) {
	const warm, n = 1440, 1440
	r := rand.New(rand.NewPCG(61, 62))
	common, own := 0.0, [3]float64{}
	var totals []float64
	f := New(Config{})
	issued := map[int][][Horizon]float32{}
	for i := range warm + n {
		common = .9*common + .15*r.NormFloat64()
		var ws []features.Window
		sum := 0.0
		for c := range own {
			own[c] = .9*own[c] + .15*r.NormFloat64()
			y := counted(r, 60*float64(c+1)*math.Exp(.5*common+.5*own[c])) / 60
			ws = append(ws, window("p", string(rune('a'+c)), i, y))
			sum += y
		}
		totals = append(totals, sum)
		f.Observe(ws, nil)
		if i >= warm && i%10 == 0 {
			issued[i] = f.Forecast(minuteAt(i + 1))[0].Total[0].Paths
		}
	}
	var most90, most95, mean90, mean95, origins float64
	for i := warm; i < warm+n-WindowTo; i += 10 {
		var mosts, means []float64
		for _, path := range issued[i] {
			most, mean := 0.0, 0.0
			for _, y := range path[WindowFrom-1 : WindowTo] {
				most, mean = math.Max(most, float64(y)), mean+float64(y)
			}
			mosts, means = append(mosts, most), append(means, mean)
		}
		slices.Sort(mosts)
		slices.Sort(means)
		most, mean := 0.0, 0.0
		for _, y := range totals[i+WindowFrom : i+WindowTo+1] {
			most, mean = math.Max(most, y), mean+y
		}
		at := func(tau float64) int { return int(tau * NumPaths) }
		most90 += indicator(most <= mosts[at(.9)])
		most95 += indicator(most <= mosts[at(.95)])
		mean90 += indicator(mean <= means[at(.9)])
		mean95 += indicator(mean <= means[at(.95)])
		origins++
	}
	for _, x := range []struct {
		name                 string
		covered, least, most float64
	}{{"90 % of maxima", most90, .85, .96}, {"95 % of maxima", most95, .91, .985}, {"90 % of means", mean90, .85, .96}, {"95 % of means", mean95, .91, .985}} {
		t.Logf("%s %.3f", x.name, x.covered/origins)
		if share := x.covered / origins; share < x.least || share > x.most {
			t.Errorf("%s of the paths cover %.1f %%", x.name, 100*share)
		}
	}
}
