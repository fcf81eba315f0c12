package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// evenPaths is a forecast whose paths are spread evenly from 0 to 100 and constant over time.
func evenPaths(minute int) PoolForecast {
	pf := ramp("kv", 0, 0)
	pf.Origin = minuteAt(minute)
	for j := range pf.Total[0].Paths {
		for h := range Horizon {
			pf.Total[0].Paths[j][h] = 100 * (float32(j) + .5) / NumPaths
		}
	}
	return pf
}

// TestCalibratorLearns: if demand is in the upper half of the paths three times in four, a share of one half of the
// paths becomes a probability of three quarters, at every capacity. Times to saturation follow from the corrected
// probability.
func TestCalibratorLearns(t *testing.T) {
	const window = 5 * time.Minute
	rng := rand.New(rand.NewPCG(1, 1))
	var o Calibrator
	demand := map[int64]float64{}
	at := func(_ string, minute int64) float64 { return demand[minute] }
	minutes := 6000
	for m := range minutes {
		if m%5 == 0 {
			y := 100 * math.Sqrt(rng.Float64()) // P(y > 50) = 3/4
			for k := range int64(5) {
				demand[minuteAt(m).Unix()/60+k] = y
			}
		}
		o.Learn(minuteAt(m), at)
		if m%5 == 0 {
			pf := evenPaths(m)
			o.Issue(&pf)
		}
	}
	pf := evenPaths(minutes)
	for _, tt := range []struct{ capacity, raw, want float64 }{{50, .5, .75}, {80, .2, .36}, {20, .8, .96}, {200, 0, 0}} {
		raw := Project(&pf, fixedCapacity{"kv": tt.capacity}, fixedLag(time.Minute), Supply{Ready: 1}, 0, window, nil)
		p := Project(&pf, fixedCapacity{"kv": tt.capacity}, fixedLag(time.Minute), Supply{Ready: 1}, 0, window, &o)
		if math.Abs(raw.Probability-tt.raw) > .02 || math.Abs(p.Probability-tt.want) > .06 {
			t.Errorf("capacity %g: probability %.3f, before learning %.3f, want %g and %g", tt.capacity, p.Probability, raw.Probability, tt.want, tt.raw)
		}
		if (p.ETA.P50 == 0) != (tt.want > .5) {
			t.Errorf("capacity %g: ETA %v at %.3f", tt.capacity, p.ETA, p.Probability)
		}
	}
}

// TestCalibratorByHorizon: what is learned of the last horizon changes the probabilities of late minutes only, and the
// probability never falls with time.
func TestCalibratorByHorizon(t *testing.T) {
	pf := evenPaths(0)
	project := func(o *Calibrator) [Horizon]float64 {
		return Project(&pf, fixedCapacity{"kv": 40}, fixedLag(time.Minute), Supply{Ready: 1}, 0, time.Minute, o).Resources[0].Probability
	}
	o := Calibrator{Dimensions: []calibratorDimension{{Name: "kv"}}}
	plain := project(&o)
	d := o.find("kv")
	d.Ranks[0][numHorizons-1] = [rankBins]float64{100, 100, 100} // the demand was low at the last horizon
	if p := project(&o); p != plain {
		t.Errorf("probabilities %v, want those without learning, %v", p, plain)
	}
	d.Ranks[0][numHorizons-1] = [rankBins]float64{17: 100, 18: 100, 19: 100} // it was high
	if p := project(&o); p[29] != plain[29] || !(p[44] > p[29]+.05) || p[59] < .9 {
		t.Errorf("probability within 30 min %g, %g before learning; within 45 min %g; within 60 min %g", p[29], plain[29], p[44], p[59])
	}
}

// TestCalibratorBySilence: what was learned in traffic does not count in silence, and the other way round.
func TestCalibratorBySilence(t *testing.T) {
	pf := evenPaths(0)
	var o Calibrator
	project := func(stage int) float64 {
		pf.Total[0].Basis.Stage = stage
		kv, lag := fixedCapacity{"kv": 50}, fixedLag(time.Minute)
		return Project(&pf, kv, lag, Supply{Ready: 1}, 0, 5*time.Minute, &o).Probability
	}
	for m := range 2000 {
		stage, y := m/1000, 99.
		if stage > 0 {
			y = 1
		}
		pf = evenPaths(m)
		pf.Total[0].Basis.Stage = stage
		o.Issue(&pf)
		o.Learn(minuteAt(m+5), func(string, int64) float64 { return y })
	}
	traffic, silent, longer := project(0), project(1), project(2)
	if traffic < .9 || silent > .1 || math.Abs(longer-.5) > .01 {
		t.Errorf("probability %.2f in traffic, %.2f in silence, %.2f in a longer one; want 1, 0 and 0.5", traffic, silent, longer)
	}
}

// TestCalibratorBounds: the number of open windows is bounded. Unknown minutes and stale forecasts are not learned
// from.
func TestCalibratorBounds(t *testing.T) {
	var o Calibrator
	for m := range 200 {
		pf := evenPaths(m)
		o.Issue(&pf)
	}
	if n := len(o.Dimensions[0].Open); n != Horizon {
		t.Errorf("%d open windows, want %d", n, Horizon)
	}
	o.Learn(minuteAt(400), func(string, int64) float64 { return math.NaN() })
	if d := o.Dimensions[0]; len(d.Open) != 0 || d.Ranks != [numStages][numHorizons][rankBins]float64{} {
		t.Errorf("learned %v from unknown minutes, %d open windows", d.Ranks, len(d.Open))
	}
	pf := evenPaths(500)
	pf.Stale = true
	if o.Issue(&pf); len(o.Dimensions[0].Open) != 0 {
		t.Error("a window was opened for a stale forecast")
	}
	// All paths are equal to the outcome: every rank is equally likely.
	pf = ramp("kv", 7, 0)
	o.Issue(&pf)
	o.Learn(minuteAt(5), func(string, int64) float64 { return 7 })
	ranks := o.Dimensions[0].Ranks[0][0]
	for i := range ranks {
		if math.Abs(ranks[i]-1./(5*rankBins)) > 1e-12 {
			t.Fatalf("ranks of a tie: %v", ranks)
		}
	}
}

// level is the inverse of at. Without a calibrator a curve changes nothing.
func TestRankCurve(t *testing.T) {
	d := calibratorDimension{Name: "kv"}
	d.Ranks[0][0], d.Ranks[0][1] = [rankBins]float64{9, 4, 2, 0, 0, 1, 7}, [rankBins]float64{15: 30}
	o := &Calibrator{Dimensions: []calibratorDimension{d}}
	learned, none := o.curvesOf("kv", 0), (*Calibrator)(nil).curvesOf("kv", 0)
	for p := 0.; p <= 1; p += .01 {
		for _, h := range []int{1, 5, 11, 15, 60} {
			c, plain := learned.upTo(h), none.upTo(h)
			if back := c.at(c.level(p)); math.Abs(back-p) > 1e-9 {
				t.Errorf("minute %d: the probability at level(%g) is %g", h, p, back)
			}
			if got := plain.at(p); math.Abs(got-p) > 1e-9 {
				t.Errorf("minute %d: without a calibrator %g becomes %g", h, p, got)
			}
		}
	}
}
