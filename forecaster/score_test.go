package forecaster

import (
	"math"
	"testing"
)

func TestPinball(t *testing.T) {
	for _, c := range []struct{ tau, y, q, want float64 }{
		{.9, 10, 8, 1.8}, {.9, 8, 10, .2}, {.5, 3, 3, 0}, {.99, 0, 100, 1},
	} {
		if got := Pinball(c.tau, c.y, c.q); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Pinball(%v, %v, %v) = %v, want %v", c.tau, c.y, c.q, got, c.want)
		}
	}
}

// TestAccumulatorByHand scores three outcomes whose figures are worked out on paper.
func TestAccumulatorByHand(t *testing.T) {
	var a Accumulator
	q := Quantiles{1, 2, 3, 4, 5, 6, 7, 8, 9}
	a.Add(4, &q, 4)          // exact; last value exact
	a.Add(8, &q, 4)          // median 4 short
	a.Add(2, &q, 6)          // median 2 high
	a.Add(math.NaN(), &q, 1) // no outcome
	close := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	close("n", float64(a.N), 3)
	close("WAPE", a.WAPE(), 6.0/14)
	close("bias", a.Bias(), -2.0/14)
	close("MASE", a.MASE(), 6.0/8)
	close("skill", a.Skill(), 1-6.0/8)
	share, lo, hi := a.Coverage(L90) // 4 and 2 lie below 7, 8 does not
	close("coverage", share, 2.0/3)
	if !(lo > 0.2 && lo < share && hi > share && hi < 0.95) {
		t.Errorf("Wilson interval [%v, %v] of 2 in 3", lo, hi)
	}
	// levels .5 .8 .9 .95 .99 at quantiles 4 6 7 8 9
	y4 := 0 + .2*2 + .1*3 + .05*4 + .01*5
	y8 := .5*4 + .8*2 + .9*1 + 0 + .01*1
	y2 := .5*2 + .2*4 + .1*5 + .05*6 + .01*7
	close("pinball", a.MeanPinball(), (y4+y8+y2)/15)
}

func TestAccumulatorMergeEqualsWhole(t *testing.T) {
	var whole, left, right Accumulator
	q := Quantiles{0, 1, 2, 3, 4, 5, 6, 7, 8}
	for i := range 100 {
		y := float64(i % 11)
		whole.Add(y, &q, 3)
		if i < 37 {
			left.Add(y, &q, 3)
		} else {
			right.Add(y, &q, 3)
		}
	}
	left.Merge(&right)
	if left.N != whole.N || left.Below != whole.Below || left.PIT != whole.PIT {
		t.Errorf("merged %+v, whole %+v", left, whole)
	}
	for name, f := range map[string]func(*Accumulator) float64{
		"WAPE": (*Accumulator).WAPE, "bias": (*Accumulator).Bias, "MASE": (*Accumulator).MASE,
		"pinball": (*Accumulator).MeanPinball, "CRPS": (*Accumulator).CRPS,
	} {
		if a, b := f(&left), f(&whole); math.Abs(a-b) > 1e-12 {
			t.Errorf("%s merged %v, whole %v", name, a, b)
		}
	}
}

// TestCRPSOfPointForecast: of a forecast that is one point, the CRPS is the absolute error.
func TestCRPSOfPointForecast(t *testing.T) {
	var a Accumulator
	var q Quantiles
	for i := range q {
		q[i] = 10
	}
	a.Add(14, &q, 10)
	if got := a.CRPS(); math.Abs(got-4) > 0.05 {
		t.Errorf("CRPS = %v, want about 4", got)
	}
}

func TestEmptyAccumulatorKnowsNothing(t *testing.T) {
	var a Accumulator
	share, _, _ := a.Coverage(L90)
	for _, x := range []float64{a.WAPE(), a.Bias(), a.MASE(), a.MeanPinball(), a.CRPS(), share} {
		if !math.IsNaN(x) {
			t.Errorf("a figure without outcomes is %v, want NaN", x)
		}
	}
}
