package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestWhatNoPathReaches: where demand exceeds all paths now and then, a capacity beyond the highest path is stated with about
// the probability with which it is exceeded, less for a farther one, and none where nothing can be short.
func TestWhatNoPathReaches(t *testing.T) {
	const window = 5 * time.Minute
	rng := rand.New(rand.NewPCG(2, 1))
	var o Calibrator
	demand := map[int64]float64{}
	at := func(_ string, minute int64) float64 { return demand[minute] }
	// A tenth of the windows exceed 95 of the paths' evenly spread 0 to 100, by a factor that is exponential on the logarithm's
	// scale with mean 0.5: 150 is exceeded by exp(-ln(150/95)/0.5) of them, 300 by exp(-ln(300/95)/0.5).
	draw := func() float64 {
		if rng.Float64() < .1 {
			return 95 * math.Exp(.5*rng.ExpFloat64())
		}
		return 95 * rng.Float64()
	}
	const minutes = 8000
	for m := range minutes {
		if m%5 == 0 {
			y := draw()
			for k := range int64(5) {
				demand[minuteAt(m).Unix()/60+k] = y
			}
		}
		o.Learn(minuteAt(m), at)
		if m%5 == 0 {
			pf := evenly(m)
			p := Project(&pf, fixedCapacity{"kv": 1000}, fixedLag(time.Minute), Supply{Ready: 1}, 0, window, nil)
			o.Issue(&pf, &p, fixedLag(time.Minute))
		}
	}
	pf := evenly(minutes)
	stated := func(capacity float64) [Horizon]float64 {
		r := Project(&pf, fixedCapacity{"kv": capacity}, fixedLag(time.Minute), Supply{Ready: 1}, 0, window, &o).Resources[0]
		return r.Probability
	}
	for _, tt := range []struct{ capacity, least, most float64 }{{96, .05, .16}, {150, .02, .07}, {300, .002, .02}, {1e6, 0, 0}} {
		if p := stated(tt.capacity)[4]; p < tt.least || p > tt.most {
			t.Errorf("capacity %g: %g within 5 minutes, want %g to %g", tt.capacity, p, tt.least, tt.most)
		}
	}
	if p := stated(150); !(p[0] < p[1] && p[1] < p[4]) {
		t.Errorf("within 1, 2 and 5 minutes %g, %g, %g: nearer minutes are not surer", p[0], p[1], p[4])
	}
	idle := ramp("kv", 0, 0)
	if p := Project(&idle, fixedCapacity{"kv": 1}, fixedLag(time.Minute), Supply{Ready: 1}, 0, window, &o).Resources[0]; p.Probability[Horizon-1] != 0 {
		t.Errorf("no path has any demand: %g", p.Probability[Horizon-1])
	}
	if p := stated(94.9)[4]; math.Abs(p-stated(95.1)[4]) > .02 {
		t.Errorf("%g where a twentieth of the paths saturate, %g just beyond", p, stated(95.1)[4])
	}
}

// TestExcessIsBounded: whatever comes, the tail is finite, and never falls with how near a resource is.
func TestExcessIsBounded(t *testing.T) {
	var e excess
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		var peaks [rankBins - 1]float32
		if rng.IntN(3) > 0 {
			base, step := float32(rng.ExpFloat64()), float32(rng.ExpFloat64())
			for i := range peaks {
				peaks[i] = base + step*float32(i)
			}
		}
		highest := float32(rng.ExpFloat64() * 100)
		if rng.IntN(50) == 0 {
			highest = math.MaxFloat32
		}
		e.learn(&peaks, highest, 1)
		if r := e.ratio(); !(r > 0 && r <= maxExcess) {
			t.Fatalf("a mean excess of %g spreads", r)
		}
	}
	last := 1.
	for far := -1.; far < 5; far += .1 {
		r := margins{{far, far + .5}}
		if p := r.tailProbability(&e, 0); p > last || p < 0 {
			t.Errorf("%g at %g, after %g", p, far, last)
		} else {
			last = p
		}
	}
	inf := math.Inf(1)
	for _, r := range []margins{{{inf, inf}}, {{.5, inf}}, {{math.Inf(-1), math.Inf(-1)}}, {{math.Inf(-1), inf}}} {
		if p := r.tailProbability(&e, 0); !(p >= 0 && p <= 1) {
			t.Errorf("%+v: %g", r[0], p)
		}
	}
}
