package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// evenly is a pool whose paths are spread evenly from 0 to 100 at an origin, each the same in all minutes.
func evenly(minute int) PoolForecast {
	pf := ramp("kv", 0, 0)
	pf.Origin = minuteAt(minute)
	for j := range pf.Total[0].Paths {
		for h := range Horizon {
			pf.Total[0].Paths[j][h] = 100 * (float32(j) + .5) / NumPaths
		}
	}
	return pf
}

// TestOutlookLearnsWhatPathsAreWorth: where demand reaches the paths' upper half three times in four, a share of paths of
// one half becomes a probability of three quarters, whatever the supply was; and times to saturation follow.
func TestOutlookLearnsWhatPathsAreWorth(t *testing.T) {
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
			pf := evenly(m)
			o.Issue(&pf)
		}
	}
	pf := evenly(minutes)
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

// TestOutlookByHorizon: what is learned of far windows changes what is said of far minutes, and nothing before.
func TestOutlookByHorizon(t *testing.T) {
	pf := evenly(0)
	project := func(o *Calibrator) [Horizon]float64 {
		return Project(&pf, fixedCapacity{"kv": 40}, fixedLag(time.Minute), Supply{Ready: 1}, 0, time.Minute, o).Resources[0].Probability
	}
	o := Calibrator{Dimensions: []calibratorDimension{{Name: "kv"}}}
	plain := project(&o)
	d := o.find("kv")
	d.Ranks[numHorizons-1] = [rankBins]float64{100, 100, 100} // of far windows the demand stayed low
	if p := project(&o); p != plain {
		t.Errorf("what is by a minute is less by a later one: %v", p)
	}
	d.Ranks[numHorizons-1] = [rankBins]float64{17: 100, 18: 100, 19: 100} // it was high
	if p := project(&o); p[29] != plain[29] || !(p[44] > p[29]+.05) || p[59] < .9 {
		t.Errorf("%g, at first %g, within half an hour, %g within 45 minutes and %g within an hour", p[29], plain[29], p[44], p[59])
	}
}

// TestOutlookKeepsWithinBounds: unknown minutes teach nothing, and what waits is bounded.
func TestOutlookKeepsWithinBounds(t *testing.T) {
	var o Calibrator
	for m := range 200 {
		pf := evenly(m)
		o.Issue(&pf)
	}
	if n := len(o.Dimensions[0].Open); n != Horizon {
		t.Errorf("%d windows wait, want %d", n, Horizon)
	}
	o.Learn(minuteAt(400), func(string, int64) float64 { return math.NaN() })
	if d := o.Dimensions[0]; len(d.Open) != 0 || d.Ranks != [numHorizons][rankBins]float64{} {
		t.Errorf("learned %v from unknown minutes, %d wait", d.Ranks, len(d.Open))
	}
	pf := evenly(500)
	pf.Stale = true
	if o.Issue(&pf); len(o.Dimensions[0].Open) != 0 {
		t.Error("a stale forecast was taken down")
	}
	// All paths tie with what came: every rank is as likely.
	pf = ramp("kv", 7, 0)
	o.Issue(&pf)
	o.Learn(minuteAt(5), func(string, int64) float64 { return 7 })
	ranks := o.Dimensions[0].Ranks[0]
	for i := range ranks {
		if math.Abs(ranks[i]-1./(5*rankBins)) > 1e-12 {
			t.Fatalf("a tie counts as %v", ranks)
		}
	}
}

func TestRankCurveInverts(t *testing.T) {
	d := calibratorDimension{Name: "kv"}
	d.Ranks[0], d.Ranks[1] = [rankBins]float64{9, 4, 2, 0, 0, 1, 7}, [rankBins]float64{15: 30}
	o := &Calibrator{Dimensions: []calibratorDimension{d}}
	learned, plain := o.rankCurves("kv"), (*Calibrator)(nil).rankCurves("kv")
	for p := 0.; p <= 1; p += .01 {
		for _, h := range []int{1, 5, 11, 15, 60} {
			c, same := learned.by(h), plain.by(h)
			if back := c.at(c.level(p)); math.Abs(back-p) > 1e-9 {
				t.Errorf("minute %d: the probability at level(%g) is %g", h, p, back)
			}
			if got := same.at(p); math.Abs(got-p) > 1e-9 {
				t.Errorf("minute %d: without a calibrator %g becomes %g", h, p, got)
			}
		}
	}
}
